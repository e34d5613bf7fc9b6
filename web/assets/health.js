// How nodes are: what their health checks say, when they were heard of, their clocks, their last start.
import { get } from "./api.js";
import { h, put, table } from "./dom.js";
import { away, clock, exact, local, mib, state, tone } from "./words.js";

const TROUBLED = 50, OTHERS = 10;
const OFF_MS = 1000;

const told = (time) => time && h("span", { title: exact(time) }, away(time));

/** By how much a clock is off, in words; nothing while its daemon has not told. */
export function skew(ms) {
  if (ms === null || ms === undefined) return "";
  if (Math.abs(ms) < 1) return "exact";
  return `${Math.abs(ms).toLocaleString()} ms ${ms > 0 ? "ahead" : "behind"}`;
}

/** What the latest health check of a node came to. */
export function health(n) {
  if (n.state === "unhealthy") return h("span", {}, h("span", { class: "badge wrong" }, "not well"), ` ${n.reason}`);
  if (n.state === "lost" || n.state === "unknown") return h("span", { class: "badge wrong" }, n.state === "lost" ? "not heard of" : "never heard of");
  return h("span", { class: "badge good" }, "nothing wrong");
}

const badge = (n) => h("span", { class: `badge ${tone(n.state)}` }, state(n.state));

/** All nodes, those in trouble first, in `place`. */
export async function healthOfAll(place, signal) {
  const [out, some] = await Promise.all([get(`/nodes?out=true&rows=${TROUBLED}`, signal), get(`/nodes?rows=${OTHERS}`, signal)]);
  const troubled = new Set(out.nodes.map((n) => n.name));
  const all = [...out.nodes, ...some.nodes.filter((n) => !troubled.has(n.name))];
  const off = all.filter((n) => Math.abs(n.clock_ahead_ms || 0) >= OFF_MS).length;
  put(place, h("p", {}, out.found === 0 ? `All ${some.found} nodes take jobs.` : `${out.found} of ${some.found} nodes take no jobs.`, off > 0 && ` Clocks of ${off} are off by a second or more.`,
    some.found > all.length && [` ${all.length} are shown: `, h("a", { href: "/nodes" }, "all nodes")]),
  table([
    { title: "Node", cell: (n) => n.name }, { title: "State", cell: badge }, { title: "Health", cell: health, wrap: true },
    { title: "Why", cell: (n) => n.state !== "unhealthy" && n.reason, cut: true }, { title: "Heard of", cell: (n) => told(n.last_seen) }, { title: "Clock", right: true, cell: (n) => skew(n.clock_ahead_ms) },
    { title: "Started", cell: (n) => told(n.machine.boot) }, { title: "Load", right: true, cell: (n) => n.machine.load }, { title: "Release", cell: (n) => n.version },
  ], all, { to: (n) => `/nodes/${n.name}`, caption: "Health of nodes" }));
}

/** Facts about the machine under a node. */
export const machine = (n) => [
  ["Health", health(n)], ["Heard of", told(n.last_seen)], ["Its clock", skew(n.clock_ahead_ms)],
  ["Started", n.machine.boot && h("span", { title: exact(n.machine.boot) }, `${clock(n.machine.boot)} (${away(n.machine.boot)})`)],
  ["Its daemon since", n.machine.daemon_start && h("span", { title: exact(n.machine.daemon_start) }, clock(n.machine.daemon_start))],
  ["Release of its daemon", n.version], ["Load", n.machine.load], ["Memory that is free", n.machine.free_memory_mib && mib(n.machine.free_memory_mib)],
  ["System", [n.machine.os, n.machine.arch].filter(Boolean).join(", ")],
  ["Processors", n.machine.sockets ? `${n.machine.sockets} × ${n.machine.cores_per_socket} cores, ${n.machine.threads_per_core} threads each` : null],
];

/** What has happened to a node lately, in `place`: for administrators. */
export async function log(place, name, signal) {
  const { events, since, looked_at: looked } = await get(`/nodes/${encodeURIComponent(name)}/log`, signal);
  put(place, h("div", { class: "card" }, h("h2", {}, "What happened to it"),
    table([
      { title: "When", cell: (e) => h("span", { title: exact(e.at) }, clock(e.at)) }, { title: "What", cell: (e) => e.what }, { title: "Of", cell: (e) => e.object },
      { title: "By", cell: (e) => e.who }, { title: "More", cell: (e) => local(e.detail), wrap: true },
    ], events, { caption: "Events of the node", empty: "Nothing." }),
    since && h("small", {}, `Out of the latest ${looked.toLocaleString()} events of the cluster, since ${clock(since)}.`)));
}
