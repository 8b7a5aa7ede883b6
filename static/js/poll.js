// Polling stands still while nobody looks, and never replaces what is being used: <div data-poll hx-trigger="every 5s">
document.addEventListener("htmx:beforeRequest", (event) => {
  const part = event.detail.elt;
  if (!part.matches("[data-poll]") || event.detail.requestConfig.verb !== "get") return;
  const target = event.detail.target || part;
  const typed = [...target.querySelectorAll("input[type=password]")].some((field) => field.value);
  const used = typed || target.contains(document.activeElement) || target.querySelector("dialog[open], details[open], input:checked");
  if (document.hidden || used) event.preventDefault();
});
