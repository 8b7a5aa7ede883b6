// The choice of colours: radios in the person menu, kept in a cookie that the server renders as data-theme.
document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-theme-choice]")) return;
  const choice = event.target.value;
  if (choice) document.documentElement.dataset.theme = choice;
  else delete document.documentElement.dataset.theme;
  const kept = choice ? 365 * 24 * 3600 : 0;
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `theme=${choice}; path=/; max-age=${kept}; samesite=lax${secure}`;
});
