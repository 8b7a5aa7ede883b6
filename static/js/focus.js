// Where the reading goes on after a swap: the first [data-focus] of what was swapped in.
document.addEventListener("htmx:afterSettle", (event) => {
  const swapped = event.detail.elt;
  const next = swapped.matches("[data-focus]") ? swapped : swapped.querySelector("[data-focus]");
  if (next) next.focus({ preventScroll: false });
});
// On a narrow screen the rooms scroll sideways: the one that is open is in sight.
document.querySelector(".bar nav [aria-current=page]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
