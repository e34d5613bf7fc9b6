// Pictures that several pages have: an axis of time, curves, a line of bars.
import { plain, s } from "./dom.js";

const STEPS = [6e4, 3e5, 6e5, 9e5, 18e5, 36e5, 108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5, 26784e5, 80352e5];

/** Round points in time between two, by the clock of who looks. */
export function ticks(from, to, most) {
  const step = STEPS.find((one) => (to - from) / one <= most) || STEPS.at(-1);
  const date = new Date(from);
  if (step >= 26784e5) {
    date.setDate(1);
    date.setHours(0, 0, 0, 0);
    const all = [];
    while (date.getTime() < to) {
      if (date.getTime() >= from) all.push(date.getTime());
      date.setMonth(date.getMonth() + (step > 26784e5 ? 3 : 1));
    }
    return { step, all };
  }
  date.setHours(0, 0, 0, 0);
  if (step >= 6048e5) date.setDate(date.getDate() - ((date.getDay() + 6) % 7));
  const all = [];
  for (let guard = 0; date.getTime() < to && guard < 20000; guard++) {
    const at = date.getTime();
    if (at >= from) all.push(at);
    // Days by the calendar: not all of them have 24 hours.
    if (step >= 864e5) date.setDate(date.getDate() + Math.round(step / 864e5));
    else date.setTime(at + step);
  }
  return { step, all };
}

/** What stands at a point of the axis. */
export function label(at, step) {
  const date = new Date(at);
  if (step >= 26784e5) return date.toLocaleDateString(undefined, { month: "short", year: "2-digit" });
  const midnight = date.getHours() === 0 && date.getMinutes() === 0;
  if (step >= 864e5 || midnight) {
    return date.toLocaleDateString(undefined, { weekday: "short", day: "numeric", month: "numeric" });
  }
  return date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
}

/** An axis of time along the top. */
export function axis(from, to, left, width, height) {
  const { step, all } = ticks(from, to, Math.max(2, width / 85));
  const x = (at) => left + ((at - from) / (to - from)) * width;
  return all.map((at) => [
    s("line", { class: "axis", x1: x(at), x2: x(at), y1: 20, y2: height }),
    s("text", { x: x(at) + 3, y: 14 }, label(at, step)),
  ]);
}

/** A number at the side, as short as it can be told. */
function brief(n) {
  if (n >= 1e6) return `${(n / 1e6).toFixed(n < 1e7 ? 1 : 0)}M`;
  if (n >= 1e4) return `${Math.round(n / 1e3)}k`;
  return String(Math.round(n * 10) / 10);
}

/** The next round number. */
function roundUp(n) {
  if (n <= 1) return 1;
  const ten = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 2.5, 4, 5, 8, 10].map((m) => m * ten).find((m) => m >= n);
}

/**
 * An area under a curve over time, with a line for all that there is.
 * @param points {at, used, all} in the order of time
 */
export function area(points, { from, to, width = 560, height = 170, title, unit, kind = "area1" }) {
  const left = 42, right = 8, top = 24, bottom = 6;
  const w = width - left - right, hgt = height - top - bottom;
  const most = roundUp(Math.max(1, ...points.map((p) => Math.max(p.used, p.all || 0))));
  const x = (at) => left + ((at - from) / (to - from)) * w;
  const y = (n) => top + hgt - (n / most) * hgt;
  const parts = [];
  // Where nothing was measured nothing is drawn.
  const gap = Math.max(3 * 60e3, (to - from) / 40);
  let run = [];
  const close = () => {
    if (run.length > 0) {
      const first = run[0], last = run.at(-1);
      const lastX = Math.max(x(last.at), x(first.at) + 2);
      const line = run.map((p) => `${x(p.at).toFixed(1)},${y(p.used).toFixed(1)}`).join(" L");
      parts.push(s("path", { class: kind, d: `M${x(first.at).toFixed(1)},${y(0)} L${line} L${lastX},${y(last.used)} L${lastX},${y(0)} Z` }));
      if (first.all !== undefined) {
        const total = run.map((p) => `${x(p.at).toFixed(1)},${y(p.all).toFixed(1)}`).join(" L");
        parts.push(s("path", { class: "total", d: `M${total} L${lastX},${y(last.all)}` }));
      }
    }
    run = [];
  };
  for (const p of points) {
    if (run.length > 0 && p.at - run.at(-1).at > gap) close();
    run.push(p);
  }
  close();
  const last = points.at(-1);
  const words = last ? `${title}: now ${brief(last.used)}${last.all === undefined ? "" : ` of ${brief(last.all)}`} ${unit}` : `${title}: nothing measured yet`;
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": words },
    axis(from, to, left, w, height - bottom),
    (most < 2 ? [0, most] : [0, most / 2, most]).map((n) => [
      s("line", { class: "axis", x1: left, x2: width - right, y1: y(n), y2: y(n) }),
      s("text", { x: left - 6, y: y(n) + 4, "text-anchor": "end" }, brief(n)),
    ]), parts);
}

/** A box that follows the pointer and tells of what is below it. */
export function tip() {
  const box = document.createElement("div");
  box.className = "tip";
  box.hidden = true;
  document.body.append(box);
  return {
    show(text, event) {
      box.textContent = plain(text);
      box.hidden = false;
      const { offsetWidth: w, offsetHeight: hgt } = box;
      box.style.left = `${Math.min(event.clientX + 14, innerWidth - w - 8)}px`;
      box.style.top = `${Math.min(event.clientY + 14, innerHeight - hgt - 8)}px`;
    },
    hide() { box.hidden = true; },
    remove() { box.remove(); },
  };
}
