// How full the cluster is, what runs and waits, how promises have come out, and how it was.
import { get } from "./api.js";
import { figure, h, put, table } from "./dom.js";
import { area } from "./draw.js";
import { keep } from "./main.js";
import { count, mib, seconds, state, tone } from "./words.js";

const SPANS = { hour: "Hour", day: "Day", week: "Week" };

/** A figure beside all that there is of it. */
const part = (title, value, of, more, warns = true) =>
  figure(title, [value.text, of && h("small", { class: "soft" }, ` of ${of.text}`)], of ? Math.min(100, (value.n / of.n) * 100) : null, more, warns);

/** Fewer predictions say nothing. */
const FEWEST = 10;
const told = (kept, missed) => (kept + missed < FEWEST ? "" : `${kept.toLocaleString()} of ${(kept + missed).toLocaleString()}`);
const number = (n) => ({ n, text: Number(n).toLocaleString() });
const memory = (n) => ({ n, text: mib(n) });

function figures(now) {
  const l = now.load;
  const mine = now.mine;
  const own = [mine.running && count(mine.running, "of mine", "of mine")].filter(Boolean).join("");
  const waits = mine.waiting || 0;
  const p = now.promises;
  const begun = p.kept + p.missed;
  return [
    part("Cores in use", number(l.cores_used), number(l.cores), l.cores ? `${Math.round((l.cores_used / l.cores) * 100)} %` : ""),
    l.gpus > 0 && part("GPUs in use", number(l.gpus_used), number(l.gpus)),
    part("Memory in use", memory(l.memory_used), memory(l.memory)),
    part("Nodes with jobs", number(l.nodes_used), number(l.nodes), l.nodes_out ? `${l.nodes_out} take no jobs` : "all take jobs"),
    part("Running", number(l.running), null, own || "none of mine"),
    part("Waiting", number(l.waiting), null, waits ? `${waits} of mine` : "none of mine"),
    part("Promised starts kept", number(p.kept), begun ? number(begun) : null,
      p.missed ? `${p.missed} missed` : `${count(p.ahead, "booking")} ahead`, false),
  ];
}

export function show(main) {
  let span = "hour";
  const cards = h("div", { class: "cards" });
  const states = h("p", { class: "soft" });
  const cores = h("div"), backlog = h("div"), queues = h("div");
  const choice = h("div", { class: "group", role: "group", "aria-label": "How far back" },
    Object.entries(SPANS).map(([key, word]) => h("button", {
      type: "button", "aria-pressed": String(key === span),
      onclick: (e) => {
        span = key;
        for (const one of choice.children) one.setAttribute("aria-pressed", String(one === e.target));
        curves.again();
      },
    }, word)));
  put(main,
    h("header", {}, h("h1", {}, "Now"), states),
    cards,
    h("div", { class: "card" },
      h("header", { class: "filters" }, h("h2", {}, "How it was"), choice, h("small", { class: "soft" }, "measured every half minute")),
      h("div", { class: "two" },
        h("div", {}, h("small", {}, "Cores in use, and all there are"), cores),
        h("div", {}, h("small", {}, "Jobs that wait"), backlog))),
    h("div", { class: "card" }, h("h2", {}, "Queues"), queues));
  const figuresNow = keep(async (signal) => {
    const now = await get("/now", signal);
    put(cards, figures(now));
    put(states, Object.entries(now.nodes_by_state).map(([word, n], at) => [at > 0 && ", ", `${n} ${state(word)}`]));
  }, 4000);
  const curves = keep(async (signal) => {
    const past = await get(`/use?span=${span}`, signal);
    const range = { from: past.from_ms, to: past.now_ms };
    put(cores, area(past.samples.map((p) => ({ at: p.at_ms, used: p.cores_used, all: p.cores })), { ...range, title: "Cores in use", unit: "cores" }));
    put(backlog, area(past.samples.map((p) => ({ at: p.at_ms, used: p.waiting })), { ...range, title: "Jobs that wait", unit: "jobs", kind: "area2" }));
  }, 20000);
  const lists = keep(async (signal) => {
    const { queues: all } = await get("/queues", signal);
    put(queues, table([
      { title: "Queue", cell: (q) => [q.name, q.default && h("small", {}, " default")] },
      { title: "State", cell: (q) => h("span", { class: `badge ${tone(q.state)}` }, state(q.state)) },
      { title: "Running", right: true, cell: (q) => q.running.toLocaleString() },
      { title: "Waiting", right: true, cell: (q) => q.waiting.toLocaleString() },
      { title: "Cores in use", right: true, cell: (q) => `${q.cores_used.toLocaleString()} of ${q.cores.toLocaleString()}` },
      { title: "Nodes", right: true, cell: (q) => `${q.nodes_up} of ${q.node_count}` },
      { title: "Longest job", right: true, cell: (q) => (q.max_time === null ? "" : seconds(q.max_time)) },
      { title: "Predicted starts kept", right: true, cell: (q) => told(q.predictions_kept, q.predictions_missed) },
      { title: "You", cell: (q) => state(q.your_level) },
    ], all, { to: (q) => `/jobs?queues=${encodeURIComponent(q.name)}&all=1`, caption: "Queues" }));
  }, 8000);
  return () => [figuresNow, curves, lists].forEach((one) => one.stop());
}
