// Workflows: their tasks as a graph and in their slots, by their deadline.
import { del, get, post, session } from "./api.js";
import { attempt, confirm, figure, h, put, s, table } from "./dom.js";
import { axis } from "./draw.js";
import { planner } from "./flowplan.js";
import { keep } from "./main.js";
import { away, clock, count, cut, local, seconds, state, su, tone } from "./words.js";

export function show(main, [id]) {
  if (id === "plan") return planner(main, (tasks, deadline) => [h("div", { class: "card" }, h("h2", {}, "Tasks"), graph(tasks)), slots({ tasks, deadline_ms: deadline })]);
  return id ? one(main, id) : all(main);
}

function all(main) {
  const list = h("div", { class: "card" });
  put(main, h("header", {}, h("h1", {}, "Workflows"), h("a", { class: "button", href: "/workflows/plan" }, "Plan a workflow")), list);
  return keep(async (signal) => {
    const { workflows } = await get("/workflows?ended=true", signal);
    put(list, table([
      { title: "Workflow", cell: (f) => f.id }, { title: "Name", cell: (f) => f.name, cut: true }, { title: "User", cell: (f) => f.user },
      { title: "State", cell: (f) => h("span", { class: `badge ${tone(f.state)}` }, state(f.state)) },
      { title: "Done", right: true, cell: (f) => `${f.done_count} of ${f.task_count}` },
      { title: "Deadline", cell: (f) => (f.deadline_ms ? `${clock(f.deadline_ms)} (${away(f.deadline_ms)})` : "none") },
      { title: "Price", right: true, cell: (f) => su(f.price) },
    ], workflows.reverse(), { to: (f) => `/workflows/${f.id}`, caption: "Workflows", empty: "There are no workflows. Plan one against a deadline here, or with 'cosy flow plan FILE'." }));
  }, 6000).stop;
}

/** How far each task is from the beginning. */
function levels(tasks) {
  const byName = new Map(tasks.map((task) => [task.name, task]));
  const level = new Map();
  const of = (task, depth) => {
    if (level.has(task.name)) return level.get(task.name);
    if (depth > tasks.length) return 0;
    const parents = task.parents.map((name) => byName.get(name)).filter(Boolean);
    const here = parents.length === 0 ? 0 : 1 + Math.max(...parents.map((parent) => of(parent, depth + 1)));
    level.set(task.name, here);
    return here;
  };
  tasks.forEach((task) => of(task, 0));
  return level;
}

function graph(tasks) {
  const level = levels(tasks);
  const columns = [];
  for (const task of tasks) (columns[level.get(task.name)] ||= []).push(task);
  const high = Math.max(...columns.map((column) => column.length));
  if (tasks.length > 150) return h("p", { class: "soft" }, `${tasks.length} tasks are too many for a graph.`);
  const boxWidth = 136, boxHeight = 38, gapX = 54, gapY = 12;
  const place = new Map();
  columns.forEach((column, x) => column.forEach((task, y) => place.set(task.name, {
    x: x * (boxWidth + gapX) + 2, y: ((high - column.length) / 2 + y) * (boxHeight + gapY) + 2,
  })));
  const width = columns.length * (boxWidth + gapX) - gapX + 4, height = high * (boxHeight + gapY) + 4;
  const edges = tasks.flatMap((task) => task.parents.map((parent) => {
    const from = place.get(parent), to = place.get(task.name);
    if (!from) return null;
    const x1 = from.x + boxWidth, y1 = from.y + boxHeight / 2, x2 = to.x, y2 = to.y + boxHeight / 2;
    return s("path", { class: "axis", d: `M${x1},${y1} C${x1 + gapX / 2},${y1} ${x2 - gapX / 2},${y2} ${x2},${y2}` });
  }));
  const kinds = { active: "running", good: "own", waiting: "planned", wrong: "out", quiet: "past" };
  const boxes = tasks.map((task) => {
    const at = place.get(task.name);
    const box = [
      s("rect", { class: kinds[tone(task.state)], "fill-opacity": 0.35, stroke: "currentColor", "stroke-opacity": 0.3, x: at.x, y: at.y, width: boxWidth, height: boxHeight, rx: 6 }),
      s("text", { x: at.x + 8, y: at.y + 16, class: "strong" }, cut(task.name, 17)),
      s("text", { x: at.x + 8, y: at.y + 31 }, cut(`${state(task.state)}${task.slot_start_ms ? ` ${clock(task.slot_start_ms)}` : ""}`, 20)),
    ];
    return task.job ? s("a", { href: `/jobs/${task.job}` }, box) : box;
  });
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Graph of the tasks" },
    s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `${count(tasks.length, "task")}` }, edges, boxes));
}

function slots(flow) {
  const timed = flow.tasks.filter((task) => task.slot_start_ms).slice(0, 100);
  if (timed.length === 0) return null;
  const ends = timed.map((task) => task.slot_end_ms);
  const first = Math.min(...timed.map((task) => task.slot_start_ms));
  const last = Math.max(...ends, flow.deadline_ms || 0);
  const from = first - (last - first) * 0.02, to = last + (last - first) * 0.04;
  const width = 900, left = 130, tall = 24, height = 26 + timed.length * tall;
  const x = (at) => left + ((at - from) / (to - from)) * (width - left);
  const line = (at, words) => at > from && at < to && [s("line", { class: "now", x1: x(at), x2: x(at), y1: 18, y2: height }),
    s("text", { x: x(at) - 3, y: height - 2, "text-anchor": "end" }, words)];
  return h("div", { class: "card" }, h("h2", {}, "Slots"), s("svg", { viewBox: `0 0 ${width} ${height + 4}`, width: "100%", role: "img", "aria-label": "Slots of the tasks" },
    axis(from, to, left, width - left, height),
    timed.map((task, at) => {
      const y = 26 + at * tall;
      const really = task.start_ms && [s("rect", { class: "bar own", x: x(task.start_ms), y: y + 6, width: Math.max(2, x(task.end_ms || Date.now()) - x(task.start_ms)), height: tall - 12, rx: 2 })];
      return [s("text", { x: 0, y: y + 16, class: "strong" }, cut(task.name, 17)),
        s("rect", { class: "bar reserved", "fill-opacity": 0.6, x: x(task.slot_start_ms), y: y + 2, width: Math.max(2, x(task.slot_end_ms) - x(task.slot_start_ms)), height: tall - 4, rx: 3 }), really];
    }), line(Date.now(), "now"), flow.deadline_ms && line(flow.deadline_ms, "deadline")));
}

function one(main, id) {
  const body = h("div");
  put(main, body);
  const act = async (what, words) => {
    await attempt(what, words);
    asked.again();
  };
  const asked = keep(async (signal) => {
    let flow;
    try {
      flow = await get(`/workflows/${encodeURIComponent(id)}`, signal);
    } catch (e) {
      if (e.status !== 404 && e.status !== 400) throw e;
      put(body, h("h1", {}, `Workflow ${id}`), h("p", {}, e.message), h("p", {}, h("a", { href: "/workflows" }, "All workflows")));
      return;
    }
    const last = Math.max(0, ...flow.tasks.map((task) => task.slot_end_ms || 0));
    const spare = flow.deadline_ms && last ? flow.deadline_ms - last : null;
    const mine = flow.user === session.me.user || session.me.administrator;
    const live = !flow.end_ms;
    put(body, h("header", {}, h("h1", {}, `${flow.name || `Workflow ${id}`} `, h("span", { class: `badge ${tone(flow.state)}` }, state(flow.state))),
      mine && live && !session.me.read_only && h("div", { class: "buttons" },
        flow.state === "held" && h("button", { type: "button", class: "main", onclick: () => act(() => post(`/workflows/${id}/confirm`), "Confirmed.") }, "Confirm"),
        h("button", { type: "button", class: "danger", onclick: async () => {
          if (await confirm("Give the workflow up?", "What runs is ended, what has not begun is given back.", { yes: "Give it up" })) act(() => del(`/workflows/${id}`), "Given up.");
        } }, "Give it up"))),
    h("div", { class: "cards" },
      figure("Done", `${flow.done_count} of ${flow.task_count}`, (flow.done_count / flow.task_count) * 100),
      figure("Deadline", flow.deadline_ms ? clock(flow.deadline_ms) : "none", null, flow.deadline_ms && away(flow.deadline_ms)),
      spare !== null && figure("Spare after the last slot", seconds(spare / 1000)),
      figure("Price", su(flow.price) || "0 SU", null, flow.account)),
    flow.note && h("p", {}, local(flow.note)),
    h("div", { class: "card" }, h("h2", {}, "Tasks"), graph(flow.tasks)), slots(flow),
    h("div", { class: "card" }, table([
      { title: "Task", cell: (t) => t.name }, { title: "State", cell: (t) => h("span", { class: `badge ${tone(t.state)}` }, state(t.state)) },
      { title: "Job", cell: (t) => t.job && h("a", { href: `/jobs/${t.job}` }, t.job) }, { title: "After", cell: (t) => t.parents.join(", "), cut: true },
      { title: "Slot", cell: (t) => (t.slot_start_ms ? `${clock(t.slot_start_ms)} to ${clock(t.slot_end_ms)}` : "") }, { title: "Estimate", right: true, cell: (t) => seconds(t.estimate) },
      { title: "Spare", right: true, cell: (t) => seconds(t.spare) }, { title: "Nodes", cell: (t) => t.nodes, cut: true }, { title: "Note", cell: (t) => t.note && local(t.note), cut: true },
    ], flow.tasks.slice(0, 500), { caption: "Tasks" })));
  }, 5000);
  return asked.stop;
}
