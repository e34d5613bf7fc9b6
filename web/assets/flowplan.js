// A workflow file on the page: what would be booked, at what price, before it is.
import { post, session } from "./api.js";
import { confirm, field, figure, h, put, table, tell } from "./dom.js";
import { go } from "./main.js";
import { clock, count, local, seconds, su } from "./words.js";
import { accountField } from "./wanted.js";

const MOST = 1 << 20;
const EXAMPLE = `[workflow]
name = "night"

[tasks.prepare]
run = "echo prepare; sleep 60"
estimate = "10m"

[tasks.left]
run = "sleep 120"
estimate = "20m"
after = "prepare"

[tasks.right]
run = "sleep 120"
nodes = 2
estimate = "30m"
after = "prepare"

[tasks.join]
run = "echo done"
estimate = "5m"
after = ["left", "right"]
`;

/** A sentence of the command, with the words of this form. */
const here = (line) => line.replace("--slack 50%", "choose 50% longer than the shortest").replace("--finish-by", "done by");

/** The form, and below it the plan; `drawn` makes a picture of tasks with slots. */
export function planner(main, drawn) {
  const file = h("textarea", { rows: 16, spellcheck: "false", value: EXAMPLE });
  const chosen = h("input", { type: "file", accept: ".toml,.json,text/*" });
  const by = h("select", {}, h("option", { value: "finish_by" }, "done by"), h("option", { value: "slack" }, "longer than the shortest by"), h("option", { value: "" }, "as the file says"));
  const deadline = h("input", { value: "now+6h", maxlength: 100 });
  const account = accountField();
  const folder = h("input", { value: session.me.home || "/", required: true });
  const wrong = h("p", { role: "alert" });
  const found = h("div", { "aria-live": "polite" });
  let name = "workflow.toml", asked = 0;

  const read = async (one) => {
    put(wrong);
    if (!one) return;
    if (one.size > MOST) {
      put(wrong, `${one.name} has more than ${MOST >> 10} KiB: plan it with 'cosy flow plan'`);
      return;
    }
    file.value = await one.text();
    name = one.name;
    anew();
  };
  /** What is planned is no longer what stands there. */
  const anew = () => {
    asked++;
    put(found);
  };
  const wanted = () => {
    if (file.value.length > MOST) throw new Error(`the file has more than ${MOST >> 10} KiB: plan it with 'cosy flow plan'`);
    const ask = { file: file.value, name, folder: folder.value, zone: Intl.DateTimeFormat().resolvedOptions().timeZone };
    if (by.value && deadline.value.trim()) ask[by.value] = deadline.value.trim();
    if (account.value) ask.account = account.value;
    return ask;
  };
  const plan = async () => {
    const mine = ++asked;
    put(wrong);
    put(found, h("div", { class: "card" }, h("p", {}, "Planning ...")));
    try {
      const ask = wanted();
      const told = await post("/workflows/plan", ask);
      if (mine === asked) show(ask, told);
    } catch (e) {
      if (mine !== asked) return;
      put(found);
      put(wrong, local(e.message));
    }
  };
  const book = async (ask, told, hold) => {
    // What others do meanwhile, and the time that passes, change the price a little.
    const most = (Math.ceil(told.price * 1.02 * 100) / 100).toFixed(2);
    const words = hold ? `Its slots are yours for some minutes; confirm them on the next page. They cost ${su(told.price) || "0 SU"}, at most ${most} SU.`
      : `All slots are booked, or none, for ${su(told.price) || "0 SU"}, at most ${most} SU.`;
    if (!(await confirm(hold ? `Hold ${told.name}?` : `Book ${told.name}?`, words, { yes: hold ? "Hold it" : "Book it" }))) return;
    try {
      const flow = await post("/workflows", { ...ask, hold, max_price: most });
      flow.notes.forEach((note) => tell(note));
      tell(`${flow.name} is ${hold ? "held" : "booked"}.`);
      go(`/workflows/${flow.id}`);
    } catch (e) {
      put(wrong, local(e.message));
      wrong.scrollIntoView({ block: "nearest" });
    }
  };
  const show = (ask, told) => {
    const tasks = told.tasks.map((t) => ({ ...t, slot_start_ms: t.start_ms, slot_end_ms: t.end_ms, start_ms: null, state: "planned", job: null }));
    put(found,
      h("div", { class: "cards" }, figure("Done by", clock(told.end_ms), null, `deadline ${clock(told.deadline_ms)}`), figure("It takes", seconds(told.length)),
        figure("Spare", seconds(told.spare), null, "without stretching"), figure("Price", su(told.price) || "0 SU")),
      h("div", { class: "card" }, h("h2", {}, "The plan"), h("ul", { class: "lines" }, [...told.notes, ...told.words.filter((line) => !line.startsWith("*"))].map((line) => h("li", {}, here(line)))),
        told.refusals.length === 0 && !session.me.read_only && h("div", { class: "buttons" },
          h("button", { type: "button", class: "main", onclick: () => book(ask, told, false) }, "Book it"),
          h("button", { type: "button", onclick: () => book(ask, told, true) }, "Hold it"))),
      drawn(tasks, told.deadline_ms),
      h("div", { class: "card" }, table([
        { title: "Task", cell: (t) => `${t.name}${t.critical ? " *" : ""}` }, { title: "After", cell: (t) => t.parents.join(", "), cut: true },
        { title: "From", cell: (t) => clock(t.start_ms) }, { title: "To", cell: (t) => clock(t.end_ms) }, { title: "Estimate", right: true, cell: (t) => seconds(t.estimate) },
        { title: "Spare", right: true, cell: (t) => seconds(t.spare) }, { title: "Nodes", cell: (t) => t.nodes, cut: true }, { title: "Price", right: true, cell: (t) => su(t.price) },
      ], told.tasks.slice(0, 500), { caption: "Slots" }), h("p", { class: "soft" }, told.words.filter((line) => line.startsWith("*"))), told.tasks.length > 500 && h("small", {}, `The first 500 of ${count(told.tasks.length, "task")} are shown.`)));
  };

  chosen.addEventListener("change", () => read(chosen.files[0]));
  file.addEventListener("dragover", (e) => e.preventDefault());
  file.addEventListener("drop", (e) => {
    if (e.dataTransfer.files.length === 0) return;
    e.preventDefault();
    read(e.dataTransfer.files[0]);
  });
  by.addEventListener("change", () => { deadline.value = by.value === "slack" ? "50%" : by.value ? "now+6h" : ""; deadline.disabled = !by.value; });
  put(main,
    h("header", {}, h("h1", {}, "Plan a workflow"), h("a", { href: "/workflows" }, "All workflows")),
    h("form", { class: "two", onsubmit: (e) => { e.preventDefault(); plan(); }, oninput: anew },
      h("div", { class: "card" }, field("The workflow file", file, "paste it, or drop a file here; 'run' and 'command' say what tasks do, for no file of yours is read from here"), field("Or choose a file", chosen)),
      h("div", { class: "card" }, h("h2", {}, "By when?"), h("div", { class: "fields" }, field("Deadline", by), field("Time or share", deadline, "tomorrow 8:00, now+6h; 50%"), field("Account", account), field("Folder", folder, "of tasks that name none")),
        wrong, h("p", {}, h("button", { type: "submit", class: "main" }, "Plan it")), h("p", { class: "soft" }, "Nothing is booked by planning."))),
    found);
  return () => {
    asked++;
  };
}
