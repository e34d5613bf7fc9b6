// One job: its life as a line of time, why it waits, what it asked for and used, what can be done with it.
import { del, get, patch, post, query, session } from "./api.js";
import { attempt, confirm, h, plain, put, s, table, tell } from "./dom.js";
import { area, axis } from "./draw.js";
import { change } from "./change.js";
import { badge } from "./jobs.js";
import { limits } from "./limits.js";
import { keep } from "./main.js";
import { away, bytes, clock, count, exact, local, mib, ms, seconds, state } from "./words.js";

const LIVE = new Set(["waiting", "starting", "running", "suspended", "completing"]);

/** What is of most interest, in a sentence. */
function headline(job) {
  const word = state(job.state);
  if (job.end) {
    const how = job.signal ? `signal ${job.signal}` : `exit code ${job.exit_code ?? 0}`;
    return `${word[0].toUpperCase()}${word.slice(1)} ${away(job.end)} with ${how}${job.start ? `, after ${seconds(job.elapsed)}` : ""}.`;
  }
  if (job.state === "running") return `Runs since ${clock(job.start)} on ${job.nodes}${job.latest_end ? `; ended by ${clock(job.latest_end)} at the latest` : ""}.`;
  if (job.predicted_start) return `Planned to start ${away(job.predicted_start)}, at ${clock(job.predicted_start)}.`;
  if (job.held_by) return "Held: it does not start before it is released.";
  return `${word[0].toUpperCase()}${word.slice(1)}.`;
}

/** The life of a job as a line of time. */
function life(job) {
  const now = Date.now();
  const points = [
    ["submitted", ms(job.submit)],
    ["could start", ms(job.eligible)],
    [job.end || job.start ? "started" : "planned start", ms(job.start) ?? ms(job.predicted_start)],
    ["ended", ms(job.end)],
    ["limit", job.end ? null : ms(job.latest_end) ?? (job.predicted_start && job.time_limit ? ms(job.predicted_start) + job.time_limit * 1000 : null)],
  ].filter(([, at]) => at !== null && !Number.isNaN(at) && at < now + 400 * 864e5);
  if (points.length < 2) return null;
  const first = points[0][1];
  const last = Math.max(points.at(-1)[1], job.end ? 0 : now, first + 1000);
  const from = first - (last - first) * 0.03, to = last + (last - first) * 0.05;
  const width = 900, x = (at) => ((at - from) / (to - from)) * width;
  const start = points.find(([word]) => word.includes("start") && word !== "could start");
  const end = points.find(([word]) => word === "ended") || points.find(([word]) => word === "limit");
  const lastX = [-200, -200, -200];
  return s("svg", { viewBox: `0 0 ${width} 120`, width: "100%", role: "img", "aria-label": points.map(([word, at]) => `${word} ${clock(at)}`).join(", ") },
    axis(from, to, 0, width, 116),
    start && s("rect", { class: "bar planned", x: x(first), y: 44, width: Math.max(1, x(start[1]) - x(first)), height: 16, rx: 3, "fill-opacity": 0.5 }),
    start && end && s("rect", { class: job.start ? "bar own" : "bar own planned", x: x(start[1]), y: 40, width: Math.max(3, x(job.end ? end[1] : job.start ? Math.min(now, end[1]) : end[1]) - x(start[1])), height: 24, rx: 4 }),
    start && end && job.start && !job.end && s("rect", { class: "bar own planned", x: x(now), y: 44, width: Math.max(0, x(end[1]) - x(now)), height: 16, rx: 3 }),
    points.map(([word, at]) => {
      const place = x(at);
      // Words that would stand on each other go below.
      const row = lastX.findIndex((last) => place - last > 130);
      if (row < 0) return null;
      lastX[row] = place;
      const anchor = place > width - 110 ? "end" : "start";
      return [s("line", { class: "axis", x1: place, x2: place, y1: 30, y2: 78 }),
        s("text", { x: place + (anchor === "end" ? -3 : 3), y: 78 + row * 16, "text-anchor": anchor, class: "strong" }, `${word} ${clock(at)}`)];
    }),
    !job.end && s("line", { class: "now", x1: x(now), x2: x(now), y1: 24, y2: 84 }));
}

/** What was asked for beside what was used, as bars. */
function usage(job) {
  const rows = [];
  const elapsed = job.elapsed || 0;
  const used = ((job.user_cpu_us || 0) + (job.system_cpu_us || 0)) / 1e6;
  if (job.end && elapsed > 0 && job.cores) {
    rows.push(["Cores", used / elapsed, job.cores, tenths, "cores"]);
  }
  const asked = (job.memory_per_node_mib || 0) * Math.max(1, job.node_count || 1) * 1048576;
  if (job.peak_memory_bytes) rows.push(["Memory at its peak", job.peak_memory_bytes, asked || null, bytes, ""]);
  if (elapsed > 0 && job.time_limit) rows.push(["Time", elapsed, job.time_limit, seconds, ""]);
  return rows.length === 0 ? null : bars("Asked for and used", rows);
}

const tenths = (n) => (n < 10 ? n.toFixed(1) : Math.round(n));

/** Rows of [title, how much, of how much, words for a number, unit] as bars. */
function bars(title_, rows) {
  return h("div", { class: "card" }, h("h2", {}, title_), rows.map(([title, n, of, words, unit]) => {
    const share = of ? Math.min(100, (n / of) * 100) : null;
    return h("div", { class: "figure" }, h("span", { class: "what" }, `${title}: `), `${words(n)}${of ? ` of ${words(of)}` : ""} ${unit}`.trim(),
      of && h("small", {}, ` (${Math.round((n / of) * 100)} %)`), share !== null && h("div", { class: "meter" }, h("i", { style: { width: `${share}%` } })));
  }));
}

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== 0);
  return h("dl", { class: "facts" }, shown.map(([title, value]) => [h("dt", {}, title), h("dd", {}, value)]));
}

/** What a running job uses on its first machine, asked for again and again. */
function live(place, job) {
  let before = null, drawn = false;
  return keep(async (signal) => {
    let told;
    try {
      told = await get(`/jobs/${job.id}/usage`, signal);
    } catch (e) {
      if (e.status === 0 || e.status === 503) throw e;
      if (!drawn) put(place);
      return;
    }
    const parts = [told.script, ...told.steps].filter(Boolean);
    const sum = (field) => parts.reduce((all, part) => all + part[field], 0);
    const now = { at: Date.now(), cpu: (sum("user_cpu_us") + sum("system_cpu_us")) / 1e6 };
    const busy = before && now.cpu >= before.cpu ? (now.cpu - before.cpu) / ((now.at - before.at) / 1000) : null;
    before = now;
    drawn = true;
    const nodes = Math.max(1, job.node_count || 1), cores = job.cores ? Math.ceil(job.cores / nodes) : null;
    put(place, bars(nodes > 1 ? "In use now on its first machine" : "In use now", [
      busy !== null && ["Cores", busy, cores, tenths, "cores"],
      ["Processor time so far", now.cpu, cores && job.elapsed ? cores * job.elapsed : null, seconds, ""],
      ["Memory", sum("memory_bytes"), job.memory_per_node_mib ? job.memory_per_node_mib * 1048576 : null, bytes, ""],
    ].filter(Boolean)));
  }, 5000);
}

/** What a running job used over time on its first machine, as curves. */
function overTime(place, job) {
  return keep(async (signal) => {
    let told;
    try {
      told = await get(`/jobs/${job.id}/samples`, signal);
    } catch (e) {
      if (e.status === 0 || e.status === 503) throw e;
      return put(place);
    }
    const all = told.samples.map((one) => ({ ...one, at: one.at_ms }));
    if (all.length < 3) return put(place);
    const busy = all.slice(1).map((one, n) => ({ at: one.at, used: Math.max(0, one.cpu_us - all[n].cpu_us) / 1000 / Math.max(1, one.at - all[n].at), all: told.cores }));
    const memory = all.map((one) => ({ at: one.at, used: one.memory_bytes / 1048576, all: told.memory_mib || undefined }));
    const gpus = all.filter((one) => one.gpu_busy_permille !== null).map((one) => ({ at: one.at, used: one.gpu_busy_permille / 10, all: 100 }));
    const range = { from: all[0].at, to: all.at(-1).at };
    put(place, h("div", { class: "card" }, h("h2", {}, `Over time on ${told.node}`),
      area(busy, { ...range, title: "Cores in use", unit: "cores" }),
      area(memory, { ...range, title: "Memory in use", unit: "MiB", kind: "area2" }),
      gpus.length > 1 && area(gpus, { ...range, title: "GPUs busy", unit: "%" })));
  }, 30000);
}

export function show(main, [id]) {
  let drawn = null, ended = false, watched = null;
  const body = h("div"), use = h("div"), past = h("div"), standing = h("div"), output = h("div"), script = h("div");
  put(main, body, use, past, standing, output, script);

  const act = async (what, done) => {
    await attempt(what, done);
    asked.again();
  };
  const cancel = async (job) => {
    const words = job.state === "running" ? "What it has not written is lost." : "It leaves the queue.";
    if (await confirm(`Cancel job ${id}?`, words, { yes: "Cancel the job" })) act(() => del(`/jobs/${id}`), `Job ${id} is cancelled.`);
  };
  const buttons = (job) => {
    if (session.me.read_only || (job.user !== session.me.user && !session.me.administrator)) return null;
    const button = (word, onclick, kind) => h("button", { type: "button", class: kind, onclick }, word);
    return h("div", { class: "buttons" },
      job.state === "waiting" && !job.held_by && button("Hold", () => act(() => post(`/jobs/${id}/hold`), `Job ${id} is held.`)),
      job.held_by && button("Release", () => act(() => post(`/jobs/${id}/release`), `Job ${id} may start.`)),
      job.state === "running" && button("Requeue", async () => {
        if (await confirm(`Run job ${id} again from the beginning?`, "It is ended now and goes back into the queue.", { yes: "Requeue" })) act(() => post(`/jobs/${id}/requeue`), `Job ${id} waits again.`);
      }),
      job.state === "running" && job.user === session.me.user && h("a", { class: "button", href: `/interactive/${job.id}` }, "Shell and programs"),
      LIVE.has(job.state) && button("Change", () => change(id, job, () => asked.again())),
      LIVE.has(job.state) && button("Cancel", () => cancel(job), "danger"));
  };

  const asked = keep(async (signal) => {
    let told;
    try {
      told = await get(`/jobs/${encodeURIComponent(id)}`, signal);
    } catch (e) {
      if (e.status !== 404 && e.status !== 400 && e.status !== 403) throw e;
      put(body, h("header", {}, h("h1", {}, `Job ${id}`)), h("p", {}, e.message), h("p", {}, h("a", { href: "/jobs" }, "All jobs")));
      return;
    }
    const job = told.tasks[0];
    const same = JSON.stringify(told);
    if (same === drawn && job.end) return;
    drawn = same;
    document.title = `Job ${id} · Cosy`;
    const many = told.task_count > 1;
    ended = Boolean(job.end);
    if (!many && job.start) followed.begin();
    const runs = !many && job.state === "running" && job.user === session.me.user;
    if (runs && !watched) watched = [live(use, job), overTime(past, job)];
    if (!runs && watched) {
      watched.forEach((one) => one.stop());
      watched = null;
      put(use);
      put(past);
    }
    put(body,
      h("header", {}, h("h1", {}, `Job ${id} `, h("span", {}, job.name), " ", !many && badge(job)), buttons(job)),
      h("div", { class: "card" }, !many && h("p", {}, h("strong", {}, headline(job))),
        told.lines.length > 0 && h("ul", { class: "lines" }, told.lines.map((line) => h("li", {}, local(line)))),
        !many && life(job)),
      h("div", { class: "two" },
        h("div", {}, h("div", { class: "card" }, h("h2", {}, "Asked for"), facts([
          ["Queue", job.queue], ["Account", job.account], ["Quality of service", job.qos],
          ["Nodes", job.node_count], ["Tasks", job.tasks], ["Cores", job.cores], ["GPUs", job.gpus],
          ["Memory of a node", job.memory_per_node_mib ? mib(job.memory_per_node_mib) : null],
          ["Time limit", job.time_limit === null ? "none" : seconds(job.time_limit)],
          ["Features", job.features], ["Licences", job.licenses], ["Waits for", job.dependencies],
          ["Reservation", job.reservation && h("a", { href: `/book/${job.reservation}` }, job.reservation)],
          ["Workflow", job.workflow && h("a", { href: `/workflows/${job.workflow}` }, job.workflow)],
          ["Deadline", job.deadline && clock(job.deadline)],
        ])), !many && usage(job)),
        h("div", { class: "card" }, h("h2", {}, "About it"), facts([
          ["User", job.user], ["Submitted", h("span", { title: exact(job.submit) }, `${clock(job.submit)} (${away(job.submit)})`)],
          ["Started", job.start && clock(job.start)], ["Ended", job.end && clock(job.end)],
          ["Nodes", job.nodes], ["Place in the queue", job.place], ["Run", job.attempt > 1 ? `number ${job.attempt}` : null],
          ["Command", job.command], ["Folder", job.workdir], ["Output", job.stdout], ["Errors", job.stderr], ["Comment", job.comment],
        ]))),
      many && h("div", { class: "card" }, h("h2", {}, count(told.task_count, "task")),
        table([
          { title: "Task", cell: (t) => t.ref }, { title: "State", cell: badge },
          { title: "Started", cell: (t) => (t.start ? clock(t.start) : t.predicted_start ? `planned ${clock(t.predicted_start)}` : "") },
          { title: "Ran", cell: (t) => (t.start ? seconds(t.elapsed) : "") }, { title: "Exit code", right: true, cell: (t) => (t.end ? t.exit_code : "") },
          { title: "Nodes", cell: (t) => t.nodes, cut: true },
        ], told.tasks, { to: (t) => (t.ref.includes("[") ? null : `/jobs/${t.ref}`), caption: "Tasks" }),
        told.tasks.length < told.task_count && h("small", {}, `The first ${told.tasks.length} are shown.`)),
      told.steps.length > 0 && h("div", { class: "card" }, h("h2", {}, "Steps"), table([
        { title: "Step", cell: (t) => t.id ?? t.step }, { title: "Name", cell: (t) => t.name, cut: true }, { title: "State", cell: (t) => state(t.state) },
        { title: "Tasks", right: true, cell: (t) => t.tasks }, { title: "Cores", right: true, cell: (t) => t.cores },
        { title: "Exit code", right: true, cell: (t) => t.exit_code }, { title: "Nodes", cell: (t) => t.nodes, cut: true },
      ], told.steps, { caption: "Steps" })));
  }, 3000);

  const followed = follow(output, id, () => ended);
  const open = h("button", { type: "button", onclick: async () => {
    try {
      const { script: text } = await get(`/jobs/${encodeURIComponent(id)}/script`);
      put(script, h("div", { class: "card" }, h("h2", {}, "Script"), text ? h("pre", { tabindex: "0" }, text) : h("p", {}, "It has no script: its command was given by itself.")));
    } catch (e) {
      tell(e.message, true);
    }
  } }, "Show the script");
  put(script, open);
  const held = limits(standing, id);
  return () => {
    asked.stop();
    followed.stop();
    held.stop();
    watched?.forEach((one) => one.stop());
  };
}

/** What a job writes, as it comes; what is above the last hundred thousand letters is let go. */
function follow(place, id, ended) {
  const MOST = 100000;
  let asked = null, from = null;
  const text = h("pre", { tabindex: "0", role: "log", "aria-label": "Output" });
  const told = h("small", { class: "soft", role: "status" });
  const stop = () => asked?.stop();
  const begin = () => {
    if (asked) return;
    put(place, h("div", { class: "card" }, h("header", { class: "filters" }, h("h2", {}, "Output"), told), text));
    asked = keep(async (signal) => {
      let piece;
      try {
        piece = await get(`/jobs/${encodeURIComponent(id)}/output${query({ from })}`, signal);
      } catch (e) {
        if (e.status === 0 || e.status === 503) throw e;
        put(told, e.message);
        if (e.status !== 404 || ended()) stop();
        return;
      }
      if (from !== null && piece.from < from) text.textContent = "";
      const below = text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
      if (piece.text) text.textContent = (text.textContent + still(piece.text)).slice(-MOST);
      if (below) text.scrollTop = text.scrollHeight;
      from = piece.to;
      const whole = piece.to >= piece.size;
      put(told, whole && ended() ? "to its end" : "as it comes");
      if (whole && ended()) stop();
    }, 1500);
  };
  return { begin, stop };
}

/** Without what would move a terminal's cursor. */
const still = (text) => plain(text.replaceAll(/\x1b\[[0-9;?]*[ -/]*[@-~]/g, "").replaceAll("\r\n", "\n"));
