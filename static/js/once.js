// One press, one deed. A form that the browser sends by itself is sent once while its answer is awaited, and the second
// press of a double click does not land on what the first one brought: the next slip is read before it is signed.
const AWAITED = 10000, UNSEEN = 500;
let sent = new WeakMap();

document.addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  // htmx sends its own forms and waits by itself. What is saved as a file leaves the page as it is.
  if (event.defaultPrevented || form.matches("[data-saves]")) return;
  if ((submitter?.getAttribute("formmethod") || form.getAttribute("method")) !== "post") return;
  if (Date.now() - (sent.get(form) ?? -AWAITED) < AWAITED) {
    event.preventDefault();
    return;
  }
  sent.set(form, Date.now());
  submitter?.setAttribute("aria-busy", "true");
});
// Whoever comes back to a page by the browser's own memory may send its forms again.
window.addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  sent = new WeakMap();
  for (const button of document.querySelectorAll("[aria-busy]")) button.removeAttribute("aria-busy");
});

let fresh = 0;
document.addEventListener("htmx:afterSwap", (event) => {
  if ((event.detail.requestConfig?.verb ?? "get") === "get") return;
  clearTimeout(fresh);
  document.body.dataset.fresh = "";
  fresh = setTimeout(() => { delete document.body.dataset.fresh; }, UNSEEN);
});
