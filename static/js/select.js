// Selecting rows: <form data-select> holds the boxes, [data-bulk] what can be done, [data-count] how many.
function count(form) {
  const boxes = [...form.querySelectorAll("input[type=checkbox][name]")];
  const chosen = boxes.filter((box) => box.checked);
  for (const box of boxes) box.closest("tr, li")?.setAttribute("aria-selected", String(box.checked));
  for (const bar of form.querySelectorAll("[data-bulk]")) bar.hidden = !chosen.length;
  for (const number of form.querySelectorAll("[data-count]")) number.textContent = chosen.length;
  const all = form.querySelector("[data-all]");
  if (all) {
    all.checked = boxes.length > 0 && chosen.length === boxes.length;
    all.indeterminate = chosen.length > 0 && chosen.length < boxes.length;
  }
}

function refreshAll() {
  for (const form of document.querySelectorAll("[data-select]")) count(form);
}

document.addEventListener("change", (event) => {
  const form = event.target.closest("[data-select]");
  if (!form) return;
  if (event.target.matches("[data-all]")) {
    for (const box of form.querySelectorAll("input[type=checkbox][name]")) box.checked = event.target.checked;
  }
  count(form);
});
document.addEventListener("reset", (event) => setTimeout(() => event.target.matches("[data-select]") && count(event.target)));
document.addEventListener("htmx:afterSettle", refreshAll);
refreshAll();
