// No answer, or an answer that is no page: say what is known, which is that nothing is known yet.
const live = () => document.getElementById("live");

function say(text) {
  const span = document.createElement("span");
  span.className = "late";
  span.textContent = text;
  live()?.replaceChildren(span);
}

const polled = (event) => event.detail.elt?.closest?.("[data-poll]") && event.detail.requestConfig?.verb === "get";

document.addEventListener("htmx:sendError", (event) => {
  if (!polled(event)) say("No answer came back. Reload the page to see what was recorded before you try again.");
});
document.addEventListener("htmx:timeout", () => {
  say("The answer did not come in time. Reload the page to see what was recorded before you try again.");
});
document.addEventListener("htmx:responseError", (event) => {
  if (polled(event)) return;
  const { status } = event.detail.xhr;
  if (status === 401) say("You are signed out, and nothing was recorded. Reload the page to sign in.");
  else say(`The server answered ${status}. Reload the page to see what was recorded.`);
});
