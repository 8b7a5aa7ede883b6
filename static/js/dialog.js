// Dialog buttons use command and commandfor; this stands in for them in browsers that do not know them yet.
if (!("command" in HTMLButtonElement.prototype)) {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[commandfor]");
    const dialog = button && document.getElementById(button.getAttribute("commandfor"));
    if (!dialog || button.getAttribute("aria-disabled") === "true") return;
    const command = button.getAttribute("command");
    if (command === "show-modal" && !dialog.open) dialog.showModal();
    if (command === "close" && dialog.open) dialog.close(button.value);
  });
}

// A fragment that arrives as a dialog opens itself: <dialog data-open>
document.addEventListener("htmx:load", (event) => {
  const arrived = event.detail.elt;
  const dialog = arrived.matches("dialog[data-open]") ? arrived : arrived.querySelector("dialog[data-open]");
  if (dialog && !dialog.open) dialog.showModal();
});

// What is not available stays focusable and says why beside it; pressing it does nothing.
document.addEventListener("click", (event) => {
  if (event.target.closest("[aria-disabled='true']")) {
    event.preventDefault();
    event.stopImmediatePropagation();
  }
}, true);

// The person menu closes on Escape and on a click elsewhere.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details[data-menu][open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.querySelector("details[data-menu][open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
