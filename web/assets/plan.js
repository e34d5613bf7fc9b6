// The plan as a Gantt chart: what ran, runs, is planned and reserved, by node or by several together.
import { get, query } from "./api.js";
import { field, h, put, s, table } from "./dom.js";
import { axis, tip } from "./draw.js";
import { keep } from "./main.js";
import { clock, count, cut, exact, span, state } from "./words.js";

const MINUTE = 6e4, HOUR = 36e5, DAY = 864e5;
const SPANS = [["1 h", HOUR], ["6 h", 6 * HOUR], ["Day", DAY], ["Week", 7 * DAY], ["Month", 30 * DAY], ["6 months", 180 * DAY]];
const LEGEND = [["own", "mine"], ["running", "running"], ["planned", "planned"], ["reserved", "reserved"], ["held", "held"], ["past", "ended"], ["out", "takes no jobs"]];
const KINDS = { past: "ran", running: "runs until its limit", planned: "planned", reserved: "reserved", held: "held, not yet confirmed" };
const LEFT = 110, TOP = 24;

function words(bar) {
  const what = bar.label ? (bar.label.startsWith("r") ? `Reservation ${bar.label.slice(1)}` : `Job ${bar.label}`) : "Of somebody else";
  const rows = bar.rows.reduce((sum, [a, b]) => sum + b - a + 1, 0);
  return [
    `${what}${bar.name ? ` "${bar.name}"` : ""}${bar.user ? ` of ${bar.user}` : ""}`,
    `${bar.kind === "past" ? state(bar.state) || "ended" : KINDS[bar.kind]}, ${count(rows, "node")}`,
    `${clock(bar.start_ms)} to ${clock(bar.end_ms)} (${span(bar.end_ms - bar.start_ms)})`,
  ].join("\n");
}

/** Places of a bar, of those that have a whole node each the neighbouring ones as one: [row, lane, rows]. */
function together(places, lanes) {
  const all = [];
  for (const [row, lane] of places) {
    const last = all.at(-1);
    if (last && lanes[row].length === 1 && lanes[last[0]].length === 1 && last[0] + last[2] === row) last[2]++;
    else all.push([row, lane, 1]);
  }
  return all;
}

const placeOf = (bar) => (bar.label.startsWith("r") ? `/book/${bar.label.slice(1)}` : bar.label && `/jobs/${bar.label}`);

export function show(main) {
  const url = new URLSearchParams(location.search);
  const view = {
    length: Number(url.get("span")) || DAY,
    from: Number(url.get("from")) || null,
    nodes: url.get("nodes") || "", queue: url.get("queue") || "", asTable: false,
  };
  let chart = null;
  const hover = tip();
  const picture = h("div", { class: "gantt", tabindex: "0", role: "group", "aria-label": "Plan. Arrows move, plus and minus zoom." });
  const told = h("p", { class: "soft", role: "status" });
  const list = h("div");
  const from = () => view.from ?? Date.now() - view.length * 0.12;

  const buttons = h("div", { class: "group", role: "group", "aria-label": "How much time" },
    SPANS.map(([word, length]) => h("button", { type: "button", "data-length": length, onclick: () => zoomTo(length) }, word)));
  const mark = () => {
    for (const one of buttons.children) one.setAttribute("aria-pressed", String(Number(one.dataset.length) === view.length));
    const kept = query({ span: view.length, from: view.from && Math.round(view.from), nodes: view.nodes, queue: view.queue });
    history.replaceState(null, "", `/plan${kept}`);
  };
  const zoomTo = (length, at = null) => {
    const old = { from: from(), length: view.length };
    const fixed = at ?? (view.from === null ? null : old.from + old.length / 2);
    view.length = Math.min(360 * DAY, Math.max(10 * MINUTE, length));
    view.from = fixed === null ? null : fixed - ((fixed - old.from) / old.length) * view.length;
    change();
  };
  const pan = (part) => { view.from = from() + part * view.length; change(); };
  let later = null;
  const change = () => {
    mark();
    draw();
    clearTimeout(later);
    later = setTimeout(() => asked.again(), 120);
  };

  const nodes = h("input", { value: view.nodes, placeholder: "all, or n[1-16]", onchange: () => { view.nodes = nodes.value.trim(); change(); } });
  const queue = h("input", { value: view.queue, placeholder: "any", onchange: () => { view.queue = queue.value.trim(); change(); } });
  const asTable = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
    view.asTable = !view.asTable;
    asTable.setAttribute("aria-pressed", String(view.asTable));
    draw();
  } }, "As a table");
  put(main,
    h("header", {}, h("h1", {}, "Plan"), told),
    h("div", { class: "filters" },
      buttons,
      h("div", { class: "group" },
        h("button", { type: "button", "aria-label": "Earlier", onclick: () => pan(-0.4) }, "◀"),
        h("button", { type: "button", onclick: () => { view.from = null; change(); } }, "Now"),
        h("button", { type: "button", "aria-label": "Later", onclick: () => pan(0.4) }, "▶"),
        h("button", { type: "button", "aria-label": "Less time", onclick: () => zoomTo(view.length / 2) }, "+"),
        h("button", { type: "button", "aria-label": "More time", onclick: () => zoomTo(view.length * 2) }, "−")),
      field("Nodes", nodes), field("Queue", queue), asTable),
    h("div", { class: "card" }, picture, h("ul", { class: "legend" }, LEGEND.map(([kind, word]) => h("li", {}, h("i", { class: kind }), word)))),
    list);

  function drawBars(width, x) {
    const rows = chart.rows;
    // Bars that are on a node at the same time stand above each other.
    const lanes = rows.map(() => []);
    const bars = [...chart.bars].sort((p, q) => p.start_ms - q.start_ms).map((bar) => ({ bar, at: [] }));
    for (const one of bars) {
      for (const [first, last] of one.bar.rows) {
        for (let row = first; row <= last; row++) {
          let lane = lanes[row].findIndex((end) => end <= one.bar.start_ms);
          if (lane < 0) lane = lanes[row].length;
          lanes[row][lane] = one.bar.end_ms;
          one.at.push([row, lane]);
        }
      }
    }
    bars.sort((p, q) => p.bar.own - q.bar.own);
    const deepest = Math.max(1, ...lanes.map((lane) => lane.length));
    const tall = rows.length <= 12 ? Math.max(30, Math.min(90, deepest * 16)) : rows.length <= 40 ? Math.max(18, Math.min(32, deepest * 9)) : 13;
    const height = TOP + rows.length * tall + 4;
    const y = (row) => TOP + row * tall;
    const shapes = bars.flatMap(({ bar, at }) => {
      const left = Math.max(LEFT, x(bar.start_ms));
      const right = Math.min(width, x(bar.end_ms));
      if (right <= left) return [];
      const to = placeOf(bar);
      const point = { onpointermove: (e) => hover.show(words(bar), e), onpointerleave: hover.hide };
      const boxes = together(at, lanes).map(([row, lane, count]) => {
        const high = tall / lanes[row].length;
        return { y: y(row) + lane * high + 0.5, high: count === 1 ? Math.max(1, high - 1) : count * tall - 1 };
      });
      const shape = boxes.map(({ y: top, high }) => s("rect", { class: `bar ${bar.kind}${bar.own ? " own" : ""}`, x: left, y: top, rx: Math.min(3, high / 3), width: Math.max(1.5, right - left), height: high, ...point }));
      const roomy = boxes.find(({ high }) => high >= 12);
      const text = bar.name || bar.label.replace(/^r/, "Reservation ");
      if (roomy && text && right - left > 7.2 * text.length + 10) {
        const kind = bar.own && bar.kind === "running" ? "in own" : bar.kind === "reserved" ? "in reserved" : "in";
        shape.push(s("text", { x: left + 5, y: roomy.y + roomy.high / 2 + 4, class: kind }, text));
      }
      return to ? s("a", { href: to, tabindex: bars.length < 400 ? "0" : "-1", "aria-label": words(bar).replaceAll("\n", ", ") }, shape) : shape;
    });
    const labels = rows.map((row, at) => [
      row.out && s("rect", { class: "out", x: LEFT, y: y(at), width: width - LEFT, height: tall }),
      s("line", { class: "axis", x1: 0, x2: width, y1: y(at), y2: y(at) }),
      (tall >= 12) && s("text", { x: 0, y: y(at) + tall / 2 + 4, class: "strong" }, cut(row.name, 15)),
    ]);
    return { height, shapes: [labels, shapes] };
  }

  function drawParts(width, x) {
    const tall = chart.parts.length <= 12 ? 30 : chart.parts.length <= 40 ? 18 : 10;
    const height = TOP + chart.parts.length * tall + 4;
    const shapes = chart.parts.map((part, row) => {
      const y = TOP + row * tall;
      const cells = [];
      for (let column = 0; column < chart.columns; column++) {
        const [past, running, planned, reserved] = part.taken.slice(column * 4, column * 4 + 4);
        const start = chart.from_ms + column * chart.step_ms;
        const left = Math.max(LEFT, x(start)), right = Math.min(width, x(start + chart.step_ms));
        if (right <= left) continue;
        let base = y + tall - 1;
        for (const [kind, n] of [["past", past], ["running", running], ["reserved", reserved], ["planned", planned]]) {
          const tallOf = (n / 100) * (tall - 2);
          if (n > 0 && base - tallOf >= y - 0.5) {
            cells.push(s("rect", { class: kind, x: left, y: base - tallOf, width: right - left + 0.4, height: tallOf }));
            base -= tallOf;
          }
        }
      }
      const name = cut(part.name, 15);
      return s("a", { href: `/plan${query({ span: view.length, from: view.from && Math.round(view.from), nodes: part.name })}`, "aria-label": `${part.name}: ${count(part.nodes, "node")}` },
        s("line", { class: "axis", x1: 0, x2: width, y1: y, y2: y }),
        s("rect", {
          x: 0, y, width, height: tall, "fill-opacity": 0,
          onpointermove: (e) => {
            const at = Math.floor(((e.offsetX * (width / picture.clientWidth) - LEFT) / (width - LEFT)) * view.length / chart.step_ms + (from() - chart.from_ms) / chart.step_ms);
            const [past, running, planned, reserved] = part.taken.slice(at * 4, at * 4 + 4);
            if (past === undefined) return hover.hide();
            hover.show(`${part.name}, ${count(part.nodes, "node")}\n${clock(chart.from_ms + at * chart.step_ms)}\nrunning ${running} %, planned ${planned} %, reserved ${reserved} %${past ? `, ended ${past} %` : ""}`, e);
          },
          onpointerleave: hover.hide,
        }),
        cells, s("text", { x: 0, y: y + tall / 2 + 4, class: "strong", "pointer-events": "none" }, tall >= 13 || row % 2 === 0 ? name : ""));
    });
    return { height, shapes };
  }

  function draw() {
    if (!chart) return;
    const width = Math.max(480, picture.clientWidth);
    const start = from();
    const x = (at) => LEFT + ((at - start) / view.length) * (width - LEFT);
    const { height, shapes } = chart.rows ? drawBars(width, x) : drawParts(width, x);
    const now = x(Date.now());
    put(picture, s("svg", { width: "100%", viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Gantt chart" },
      axis(start, start + view.length, LEFT, width - LEFT, height), shapes,
      now > LEFT && now < width && s("line", { class: "now", x1: now, x2: now, y1: 18, y2: height })));
    const more = [
      chart.nodes < chart.nodes_in_all && `${count(chart.nodes, "node")} of ${chart.nodes_in_all.toLocaleString()}`,
      chart.parts && `${count(chart.nodes, "node")}, several in a line: choose a line to see them`,
      chart.beyond > 0 && `${count(chart.beyond, "waiting job")} further back than the plan reaches`,
      chart.left_out > 0 && `${count(chart.left_out, "small bar")} left out`,
    ].filter(Boolean);
    put(told, more.join("; ") || count(chart.nodes, "node"));
    put(list, view.asTable && chart.bars && h("div", { class: "card" }, table([
      { title: "What", cell: (b) => (b.label ? (b.label.startsWith("r") ? `reservation ${b.label.slice(1)}` : b.label) : "of somebody else") },
      { title: "Name", cell: (b) => b.name, cut: true },
      { title: "Kind", cell: (b) => (b.kind === "past" ? state(b.state) : b.kind) },
      { title: "From", cell: (b) => h("span", { title: exact(b.start_ms) }, clock(b.start_ms)) },
      { title: "Until", cell: (b) => h("span", { title: exact(b.end_ms) }, clock(b.end_ms)) },
      { title: "Nodes", cell: (b) => b.rows.map(([p, q]) => (p === q ? chart.rows[p].name : `${chart.rows[p].name} to ${chart.rows[q].name}`)).join(", "), cut: true },
    ], chart.bars.slice(0, 500), { to: placeOf, caption: "The plan" })));
  }

  const asked = keep(async (signal) => {
    const start = from();
    chart = await get(`/plan${query({ from: Math.round(start - view.length * 0.3), to: Math.round(start + view.length * 1.3), nodes: view.nodes, queue: view.queue })}`, signal);
    draw();
  }, 5000);

  let drag = null;
  picture.addEventListener("pointerdown", (e) => { if (e.button === 0) drag = { x: e.clientX, from: from(), moved: false }; });
  const move = (e) => {
    if (!drag) return;
    const by = e.clientX - drag.x;
    if (!drag.moved && Math.abs(by) < 4) return;
    drag.moved = true;
    picture.classList.add("drag");
    view.from = drag.from - (by / (picture.clientWidth * (1 - LEFT / Math.max(480, picture.clientWidth)))) * view.length;
    draw();
  };
  const drop = () => {
    if (drag?.moved) {
      picture.addEventListener("click", (e) => { e.preventDefault(); e.stopPropagation(); }, { capture: true, once: true });
      setTimeout(() => picture.classList.remove("drag"));
      change();
    }
    drag = null;
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", drop);
  picture.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.shiftKey && Math.abs(e.deltaX) < Math.abs(e.deltaY)) return;
    e.preventDefault();
    const part = (e.offsetX - LEFT) / (picture.clientWidth - LEFT);
    if (e.ctrlKey) zoomTo(view.length * (e.deltaY > 0 ? 1.25 : 0.8), from() + part * view.length);
    else pan((e.deltaX || e.deltaY) / 1500);
  }, { passive: false });
  picture.addEventListener("keydown", (e) => {
    const keys = { ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoomTo(view.length / 2), "=": () => zoomTo(view.length / 2), "-": () => zoomTo(view.length * 2), Home: () => { view.from = null; change(); } };
    if (keys[e.key] && e.target === picture) { e.preventDefault(); keys[e.key](); }
  });
  const resized = new ResizeObserver(draw);
  resized.observe(picture);
  mark();
  return () => {
    asked.stop();
    clearTimeout(later);
    hover.remove();
    resized.disconnect();
    removeEventListener("pointermove", move);
    removeEventListener("pointerup", drop);
  };
}

