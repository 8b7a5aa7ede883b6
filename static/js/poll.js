// Polling stands still while nobody looks or a dialog asks, and never replaces what is being used: <div data-poll hx-trigger="every 5s">
document.addEventListener("htmx:beforeRequest", (event) => {
  const part = event.detail.elt;
  if (!part.matches("[data-poll]") || event.detail.requestConfig.verb !== "get") return;
  const target = event.detail.target || part;
  const typed = [...target.querySelectorAll("input[type=password]")].some((field) => field.value);
  // A dialog gives the focus back to what opened it, so that must still be there.
  const asked = document.querySelector("dialog[open]");
  const used = asked || typed || target.contains(document.activeElement) || target.querySelector("details[open], input:checked");
  if (document.hidden || used) event.preventDefault();
});
