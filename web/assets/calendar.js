// A week by the hour: how full the machine is planned to be, what a slot beginning then would cost, and a
// length that is chosen by dragging or with the keyboard.
import { h, put } from "./dom.js";
import { clock, su } from "./words.js";

const HOURS = 24, DAYS = 7, HOUR = 36e5;

/** Hours that a week shows. */
export const WEEK = DAYS * HOURS;

/** Midnight before a point in time, so many days later, by the calendar. */
export function midnight(at, days = 0) {
  const date = new Date(at);
  date.setHours(0, 0, 0, 0);
  date.setDate(date.getDate() + days);
  return date.getTime();
}

const short = (sum) => su(sum).replace(" SU", "");

/**
 * @param chosen called with {start, end} when a length was chosen
 */
export function calendar(chosen) {
  const grid = h("div", { class: "calendar", role: "grid", "aria-label": "A week by the hour. Choose when it begins, and how long it lasts by dragging, or with shift and the arrows." });
  let week = midnight(Date.now());
  let cells = [], facts = { load: [], offers: [], own: [] };
  let selection = null, anchor = null, focus = null;

  const begin = (day, hour) => midnight(week, day) + hour * HOUR;
  const at = (cell) => ({ day: Number(cell.dataset.day), hour: Number(cell.dataset.hour) });
  const place = (day, hour) => cells[day * HOURS + hour];

  function build() {
    const now = Date.now();
    const days = Array.from({ length: DAYS }, (_, day) => new Date(midnight(week, day)));
    const head = h("div", { role: "row", style: { display: "contents" } },
      h("div", { role: "columnheader", class: "head" }, h("span", { class: "hidden" }, "Hour")),
      days.map((date) => h("div", { role: "columnheader", class: midnight(now) === date.getTime() ? "head today" : "head" },
        date.toLocaleDateString(undefined, { weekday: "short", day: "numeric" }))));
    cells = new Array(WEEK);
    const rows = Array.from({ length: HOURS }, (_, hour) =>
      h("div", { role: "row", style: { display: "contents" } },
        h("div", { role: "rowheader", class: "hour" }, `${String(hour).padStart(2, "0")}:00`),
        days.map((_, day) => {
          const past = begin(day, hour) + HOUR <= now;
          const cell = h("div", {
            role: "gridcell", class: past ? "cell past" : "cell", "data-day": day, "data-hour": hour,
            tabindex: "-1", "aria-disabled": past && "true",
          });
          cells[day * HOURS + hour] = cell;
          return cell;
        })));
    put(grid, head, rows);
    const first = cells.find((cell) => !cell.classList.contains("past"));
    if (first) first.tabIndex = 0;
    fill();
  }

  function fill() {
    // Cheap and dear are what differs from most of the hours.
    const prices = facts.offers.filter((o) => o.admitted).map((o) => o.price).sort((p, q) => p - q);
    const usual = prices[Math.floor(prices.length / 2)] ?? 0;
    for (const cell of cells) {
      const { day, hour } = at(cell);
      const start = begin(day, hour);
      const load = facts.load[Math.round((start - week) / HOUR)] ?? null;
      const offer = facts.offers.find((o) => o.start_ms >= start && o.start_ms < start + HOUR);
      const own = facts.own.find((r) => r.start_ms < start + HOUR && r.end_ms > start);
      const inside = selection && start < selection.end && start + HOUR > selection.start;
      cell.classList.toggle("mine", Boolean(own));
      cell.classList.toggle("no", Boolean(offer && !offer.admitted));
      cell.classList.toggle("cheap", Boolean(offer?.admitted && offer.price < usual * 0.8));
      cell.classList.toggle("dear", Boolean(offer?.admitted && offer.price > usual * 1.25));
      cell.classList.toggle("chosen", Boolean(inside));
      cell.setAttribute("aria-selected", String(Boolean(inside)));
      const words = [
        clock(start), load !== null && `${load} % planned`,
        offer && (offer.admitted ? `from ${clock(offer.start_ms)} it costs ${su(offer.price)}` : `not possible from ${clock(offer.start_ms)}`),
        own && `your ${own.name}`,
      ].filter(Boolean).join(", ");
      cell.title = words;
      cell.setAttribute("aria-label", words);
      put(cell, load ? h("i", { class: "load", style: { width: `${load}%` } }) : null,
        offer && h("span", {}, offer.admitted ? short(offer.price) : "–"));
    }
  }

  const usable = (cell) => cell && !cell.classList.contains("past");
  const stretch = (from, to) => {
    const a = begin(from.day, from.hour), b = begin(to.day, to.hour);
    selection = { start: Math.max(Math.min(a, b), Date.now()), end: Math.max(a, b) + HOUR };
    fill();
  };
  grid.addEventListener("pointerdown", (e) => {
    const cell = e.target.closest(".cell");
    if (e.button !== 0 || !usable(cell)) return;
    anchor = at(cell);
    cell.setPointerCapture?.(e.pointerId);
    stretch(anchor, anchor);
  });
  grid.addEventListener("pointermove", (e) => {
    if (!anchor) return;
    const cell = document.elementFromPoint(e.clientX, e.clientY)?.closest(".cell");
    if (usable(cell) && grid.contains(cell)) stretch(anchor, at(cell));
  });
  const drop = () => {
    if (!anchor) return;
    const single = selection && selection.end - selection.start <= HOUR;
    anchor = null;
    chosen({ ...selection, single });
  };
  grid.addEventListener("pointerup", drop);
  grid.addEventListener("pointercancel", () => { anchor = null; });
  grid.addEventListener("keydown", (e) => {
    const cell = e.target.closest(".cell");
    if (!cell) return;
    const step = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[e.key];
    if (step) {
      e.preventDefault();
      const { day, hour } = at(cell);
      const next = { day: day + step[0], hour: hour + step[1] };
      if (next.hour < 0) { next.hour = HOURS - 1; next.day--; }
      if (next.hour >= HOURS) { next.hour = 0; next.day++; }
      if (next.day < 0 || next.day >= DAYS) return;
      const other = place(next.day, next.hour);
      if (e.shiftKey) { focus ||= { day, hour }; stretch(focus, next); }
      else focus = null;
      cell.tabIndex = -1;
      other.tabIndex = 0;
      other.focus();
    } else if ((e.key === "Enter" || e.key === " ") && usable(cell)) {
      e.preventDefault();
      if (!focus) stretch(at(cell), at(cell));
      focus = null;
      chosen({ ...selection, single: selection.end - selection.start <= HOUR });
    }
  });
  build();
  return {
    element: grid,
    /** The first midnight that is shown, and the one after the last. */
    range: () => ({ from: week, to: midnight(week, DAYS) }),
    /** Shows another week. */
    turn(days) { week = days === 0 ? midnight(Date.now()) : midnight(week, days); selection = null; build(); },
    /** What is known of the hours that are shown. */
    tell(more) { facts = { ...facts, ...more }; fill(); },
    choose(start, end) { selection = start === null ? null : { start, end }; fill(); },
  };
}
