// Nodes: what they have, what is in use, which take no jobs and why; drained and resumed by administrators.
import { get, post, query, session } from "./api.js";
import { attempt, confirm, field, h, put, table, turns } from "./dom.js";
import { log, machine } from "./health.js";
import { keep } from "./main.js";
import { away, count, mib, state, tone } from "./words.js";

const ROWS = 100;
const STATES = ["", "idle", "mixed", "busy", "draining", "drained", "down", "lost", "unhealthy", "off", "powering-up", "powering-down", "unknown"];

export function show(main, [name]) {
  return name ? one(main, name) : all(main);
}

/** The buttons of an administrator. */
function steer(node, changed) {
  if (!session.me.administrator || session.me.read_only) return null;
  const act = async (body, words) => {
    await attempt(() => post(`/nodes/${encodeURIComponent(node.name)}`, body), words);
    changed();
  };
  const drains = node.state === "drained" || node.state === "draining" || node.state === "down" || node.state === "unhealthy";
  return drains
    ? h("button", { type: "button", onclick: () => act({ action: "resume" }, `${node.name} is in service again.`) }, "Resume")
    : h("button", { type: "button", onclick: async () => {
      const reason = await confirm(`Drain ${node.name}?`, "What runs there goes on; nothing new starts.", { yes: "Drain", ask: { label: "Why", required: true } });
      if (reason) act({ action: "drain", reason }, `${node.name} drains.`);
    } }, "Drain");
}

const share = (used, has) => [`${used.toLocaleString()} of ${has.toLocaleString()}`];

function all(main) {
  const ask = { name: "", state: "", queue: "", out: false, skip: 0 };
  const list = h("div", { class: "card" }), told = h("p", { class: "soft", role: "status" }), more = h("div", { class: "buttons" });
  const changed = () => { ask.skip = 0; asked.again(); };
  const name = h("input", { onchange: () => { ask.name = name.value.trim(); changed(); } });
  const queue = h("input", { onchange: () => { ask.queue = queue.value.trim(); changed(); } });
  const states = h("select", { onchange: () => { ask.state = states.value; changed(); } }, STATES.map((one) => h("option", { value: one }, one || "any state")));
  const out = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
    ask.out = !ask.out;
    out.setAttribute("aria-pressed", String(ask.out));
    changed();
  } }, "Only those that take no jobs");
  put(main, h("header", {}, h("h1", {}, "Nodes"), told), h("div", { class: "filters" }, field("Name", name), field("State", states), field("Queue", queue), h("div", { class: "group" }, out)), list, more);
  const asked = keep(async (signal) => {
    const { nodes, found } = await get(`/nodes${query({ ...ask, rows: ROWS })}`, signal);
    put(told, `${count(found, "node")}${found > nodes.length ? `, ${ask.skip + 1} to ${ask.skip + nodes.length} shown` : ""}`);
    put(list, table([
      { title: "Node", cell: (n) => n.name },
      { title: "State", cell: (n) => h("span", { class: `badge ${tone(n.state)}` }, state(n.state)) },
      { title: "Jobs", right: true, cell: (n) => n.jobs },
      { title: "Cores", right: true, cell: (n) => share(n.used.cores, n.has.cores) },
      { title: "Memory", right: true, cell: (n) => `${mib(n.used.memory_mib)} of ${mib(n.has.memory_mib)}` },
      { title: "GPUs", right: true, cell: (n) => (n.has.gpus ? share(n.used.gpus, n.has.gpus) : "") },
      { title: "Queues", cell: (n) => n.queues.join(", "), cut: true },
      { title: "Features", cell: (n) => n.features.join(", "), cut: true },
      { title: "Why", cell: (n) => n.reason, cut: true },
      { title: "", cell: (n) => steer(n, () => asked.again()) },
    ], nodes, { to: (n) => `/nodes/${n.name}`, caption: "Nodes", empty: "No node fits." }));
    put(more, turns(ask.skip, ROWS, ask.skip + nodes.length < found, (skip) => { ask.skip = skip; asked.again(); }));
  }, 5000);
  return asked.stop;
}

function one(main, name) {
  const body = h("div"), happened = h("div");
  put(main, body, happened);
  const asked = keep(async (signal) => {
    let n;
    try {
      n = await get(`/nodes/${encodeURIComponent(name)}`, signal);
    } catch (e) {
      if (e.status !== 404) throw e;
      put(body, h("h1", {}, name), h("p", {}, e.message), h("p", {}, h("a", { href: "/nodes" }, "All nodes")));
      return;
    }
    const facts = [
      ["Why", n.reason && `${n.reason}${n.reason_by ? ` (${n.reason_by}${n.reason_since ? `, ${away(n.reason_since)}` : ""})` : ""}`],
      ["Jobs", n.jobs], ["Cores", share(n.used.cores, n.has.cores)], ["Memory", `${mib(n.used.memory_mib)} of ${mib(n.has.memory_mib)}`],
      ["GPUs", n.has.gpus ? share(n.used.gpus, n.has.gpus) : null], ["Disk", n.has.disk_mib ? `${mib(n.used.disk_mib)} of ${mib(n.has.disk_mib)}` : null],
      ["Queues", n.queues.join(", ")], ["Features", n.features.join(", ")],
    ];
    const list = (pairs) => h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([title, value]) => [h("dt", {}, title), h("dd", {}, value)]));
    put(body, h("header", {}, h("h1", {}, `${n.name} `, h("span", { class: `badge ${tone(n.state)}` }, state(n.state))), steer(n, () => asked.again())),
      h("div", { class: "two" }, h("div", { class: "card" }, h("h2", {}, "In use"), list(facts)), h("div", { class: "card" }, h("h2", {}, "Its machine"), list(machine(n)))),
      h("p", {}, h("a", { href: `/plan?nodes=${encodeURIComponent(n.name)}` }, "Its plan"), ", ", h("a", { href: "/nodes" }, "all nodes")));
  }, 4000);
  const logged = session.me.administrator ? keep((signal) => log(happened, name, signal).catch((e) => {
    if (e.status === 0 || e.status === 503) throw e;
    put(happened, h("p", { class: "soft" }, e.message));
  }), 15000) : null;
  return () => {
    asked.stop();
    logged?.stop();
  };
}
