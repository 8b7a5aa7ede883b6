// The keyboard. A letter moves or opens; it never acts: a second, deliberate key does.
let goTo = 0;

const typing = (target) => target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");
const shown = (element) => element.checkVisibility() && element.getAttribute("aria-disabled") !== "true";
const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.checkVisibility());

function step(by) {
  const all = rows();
  if (!all.length) return false;
  const line = document.activeElement.closest("tr, li");
  let at = all.findIndex((row) => row === document.activeElement || (line && line.contains(row)));
  if (at < 0) at = all.findIndex((row) => row.getAttribute("aria-current"));
  const next = all[at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

function select() {
  const box = document.activeElement.closest("tr, li")?.querySelector("input[type=checkbox]");
  box?.click();
  return Boolean(box);
}

function go(key) {
  const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
  link?.click();
  return Boolean(link);
}

function reach(key) {
  const found = [...document.querySelectorAll(`[aria-keyshortcuts="${CSS.escape(key)}"]`)].find(shown);
  if (!found) return false;
  if (found.hasAttribute("commandfor") || found.matches("summary")) found.click();
  else found.focus();
  return true;
}

function press(key) {
  const gone = goTo && Date.now() - goTo < 1500;
  goTo = 0;
  if (gone) return go(key);
  if (key === "g") return Boolean(goTo = Date.now());
  if (key === "/") { document.querySelector("[data-find]")?.focus(); return true; }
  if (key === "?") { document.getElementById("keys")?.showModal(); return true; }
  if (key === "j") return step(1);
  if (key === "k") return step(-1);
  if (key === "s" && select()) return true;
  if (key === "f" && !document.querySelector("[aria-keyshortcuts=f]")) {
    const field = document.querySelector(".filters :is(input, select)");
    field?.focus();
    return Boolean(field);
  }
  return reach(key);
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key.length !== 1 || document.body.dataset.keys === "off") return;
  if (typing(event.target) || document.querySelector("dialog[open]")) return;
  if (press(event.key)) event.preventDefault();
});
