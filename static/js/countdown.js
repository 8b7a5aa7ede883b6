// Time left: <time data-left="3600" datetime="…">23 m left</time>. Same words as web/times.py; the number is when amber begins.
const serverNow = Date.parse(document.body.dataset.now || "");
const offset = Number.isNaN(serverNow) ? 0 : serverNow - Date.now();
const NBSP = "\u00a0";
const WITHIN_THE_DAY = 12 * 3600;

function spanWords(seconds) {
  const minutes = Math.floor(seconds / 60), hours = Math.floor(seconds / 3600), days = Math.floor(seconds / 86400);
  const two = (a, unit, b, small, pad) => [a, unit, ...(b ? [String(b).padStart(pad, "0"), small] : [])].join(NBSP);
  if (days) return two(days, "d", hours % 24, "h", 1);
  if (hours) return two(hours, "h", minutes % 60, "m", 2);
  return minutes ? `${minutes}${NBSP}m` : `${seconds}${NBSP}s`;
}

function refresh() {
  const now = Date.now() + offset;
  for (const time of document.querySelectorAll("time[data-left]")) {
    const left = Math.floor((Date.parse(time.dateTime) - now) / 1000);
    if (Number.isNaN(left) || left >= WITHIN_THE_DAY) continue;
    const words = left <= 0 ? `${spanWords(-left)} over` : `${spanWords(left)} left`;
    if (time.textContent !== words) time.textContent = words;
    time.classList.toggle("late", left <= 0);
    time.classList.toggle("soon", left > 0 && left < Number(time.dataset.left));
  }
}

setInterval(() => { if (!document.hidden) refresh(); }, 1000);
