// Jobs that wait, run, or have ended lately; and those of before.
import { get, query, session } from "./api.js";
import { field, h, put, table, turns } from "./dom.js";
import { keep } from "./main.js";
import { away, clock, count, exact, seconds, state, tone } from "./words.js";

const STATES = ["", "waiting", "starting", "running", "suspended", "completing", "completed", "failed", "cancelled", "timed_out", "out_of_memory", "node_failed", "preempted", "launch_failed", "deadline"];
const ROWS = 100;

/** What is told of when: the start to come, since when it runs, when it ended. */
function when(job) {
  const told = (time, before, by = false) => h("span", { title: exact(time) }, before, by ? away(time) : clock(time));
  if (job.end) return told(job.end, "ended ");
  if (job.start && (job.state === "running" || job.state === "completing" || job.state === "suspended")) {
    return [told(job.start, "since "), job.latest_end && h("small", { class: "soft" }, ` ends by ${clock(job.latest_end)}`)];
  }
  if (job.predicted_start) return told(job.predicted_start, "starts ", true);
  return h("span", { class: "soft" }, job.held_by ? "" : "not planned yet");
}

/** The state of a job, as a badge. */
export function badge(job) {
  const word = job.held_by ? "held" : job.state;
  return h("span", { class: `badge ${tone(word)}` }, state(word));
}

/** The columns of a list of jobs. */
export const columns = [
  { title: "Job", cell: (j) => j.ref },
  { title: "Name", cell: (j) => j.name, cut: true },
  { title: "User", cell: (j) => j.user },
  { title: "State", cell: (j) => badge(j) },
  { title: "When", cell: when },
  { title: "Queue", cell: (j) => j.queue },
  { title: "Nodes", right: true, cell: (j) => j.node_count },
  { title: "Cores", right: true, cell: (j) => j.cores },
  { title: "GPUs", right: true, cell: (j) => j.gpus || "" },
  { title: "Limit", right: true, cell: (j) => (j.time_limit === null ? "none" : seconds(j.time_limit)) },
  { title: "Where or why", cell: (j) => state(j.reason) || j.nodes, cut: true },
];

export function show(main) {
  const url = new URLSearchParams(location.search);
  const ask = {
    all: url.get("all") === "1", ended: url.get("ended") === "1", states: url.get("states") || "",
    queues: url.get("queues") || "", users: url.get("users") || "", names: url.get("names") || "", skip: 0,
  };
  const list = h("div", { class: "card" }), more = h("div", { class: "buttons" }), told = h("p", { class: "soft", role: "status" });
  const changed = () => {
    ask.skip = 0;
    history.replaceState(null, "", `/jobs${query({ all: ask.all && 1, ended: ask.ended && 1, states: ask.states, queues: ask.queues, users: ask.users, names: ask.names })}`);
    asked.again();
  };
  const toggle = (word, key) => h("button", {
    type: "button", "aria-pressed": String(ask[key]),
    onclick: (e) => {
      ask[key] = !ask[key];
      e.target.setAttribute("aria-pressed", String(ask[key]));
      changed();
    },
  }, word);
  const text = (label, key) => {
    const input = h("input", { value: ask[key], onchange: () => { ask[key] = input.value.trim(); changed(); } });
    return field(label, input);
  };
  const states = h("select", { onchange: () => { ask.states = states.value; changed(); } },
    STATES.map((one) => h("option", { value: one, selected: one === ask.states }, one ? state(one) : "any state")));
  put(main,
    h("header", {}, h("h1", {}, "Jobs"), told),
    h("div", { class: "filters" },
      h("div", { class: "group" }, toggle("Everybody's", "all"), toggle("Ended before", "ended")),
      field("State", states), text("Queue", "queues"), text("User", "users"), text("Name", "names")),
    list, more);
  const asked = keep(async (signal) => {
    const users = ask.users || (ask.all ? "" : session.me.user);
    const filter = { states: ask.states, queues: ask.queues, users, names: ask.names, rows: ROWS };
    const { jobs, more: further } = ask.ended
      ? await get(`/history${query(filter)}`, signal)
      : await get(`/jobs${query({ ...filter, skip: ask.skip })}`, signal);
    if (ask.ended) jobs.reverse();
    for (const job of jobs) job.own = ask.all && job.user === session.me.user;
    put(list, table(columns.filter((c) => c.title !== "GPUs" || jobs.some((j) => j.gpus)), jobs, {
      to: (j) => `/jobs/${j.ref.replace(/_?\[.*$/, "")}`, caption: "Jobs",
      empty: ask.all ? "No job fits." : "None of your jobs fits. 'Everybody's' shows all that you may see.",
    }));
    put(told, `${count(jobs.length, "line")}${ask.skip ? ` from ${ask.skip + 1} on` : ""}${further ? ", and there are more" : ""}`);
    put(more, turns(ask.skip, ROWS, further && !ask.ended, (skip) => { ask.skip = skip; asked.again(); }));
  }, 4000);
  return asked.stop;
}

