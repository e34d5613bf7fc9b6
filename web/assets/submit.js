// A job for the common case: the script that the form makes, when it would start, and what a slot would cost.
import { get, post, session, submitted } from "./api.js";
import { field, h, put, tell } from "./dom.js";
import { go, keep } from "./main.js";
import { away, clock, local, su, typedLength, typedMemory } from "./words.js";
import { accountField, fillQueues, quoteAsk, restFields } from "./wanted.js";

/** Seconds at the end of a booking that its jobs leave for the next one. */
const MARGIN = 2;
const START = "echo \"on $(hostname)\"\n";
const BUILT_IN = [
  { name: "One program", text: START },
  { name: "A parallel program (MPI)", text: "srun ./program\n" },
  { name: "Python", text: "source ~/venv/bin/activate\npython script.py\n" },
];

/** A length as Slurm writes it: D-HH:MM:SS. */
function slurmTime(seconds) {
  const pad = (n) => String(n).padStart(2, "0");
  const days = Math.floor(seconds / 86400), rest = seconds % 86400;
  const clockwise = `${pad(Math.floor(rest / 3600))}:${pad(Math.floor((rest % 3600) / 60))}:${pad(rest % 60)}`;
  return days ? `${days}-${clockwise}` : clockwise;
}

export function show(main) {
  // A booking that the job goes into, once it is known.
  const wantedBooking = new URLSearchParams(location.search).get("reservation");
  let booking = null;
  const into = h("div");
  const input = (value, more = {}) => h("input", { value, ...more });
  const name = input("job", { maxlength: 200, required: true });
  const queue = h("select", {});
  const nodes = input("1", { type: "number", min: 1, required: true });
  const tasks = input("1", { type: "number", min: 1, required: true });
  const cores = input("1", { type: "number", min: 1, required: true });
  const memory = input("", { placeholder: "as usual" });
  const gpus = input("", { type: "number", min: 0, placeholder: "0" });
  const time = input("1h", { required: true });
  const account = accountField();
  const folder = input(session.me.home || "/", { required: true });
  const output = input("%x-%j.out", { required: true });
  const templates = h("select", {});
  const commands = h("textarea", { rows: 9, spellcheck: "false", value: START });
  const script = h("pre", { tabindex: "0", role: "region", "aria-label": "The script" });
  const outlook = h("div", { "aria-live": "polite" });
  const wrong = h("p", { role: "alert" });
  const button = h("button", { type: "submit", class: "main", disabled: session.me.read_only }, "Submit");
  let all = BUILT_IN;

  /** What the form says, or an error in words. */
  const wanted = () => {
    const seconds = typedLength(time.value);
    const mib = typedMemory(memory.value);
    for (const one of [name, folder, output]) {
      if (/[\r\n]/.test(one.value)) throw new Error("names have one line");
    }
    return { seconds, mib, nodes: Number(nodes.value) || 1, tasks: Number(tasks.value) || 1, cores: Number(cores.value) || 1, gpus: Number(gpus.value) || 0 };
  };
  const quoted = (text) => (/^[\w./%@+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const text = (w) => [
    "#!/bin/bash -l",
    `#SBATCH --job-name=${quoted(name.value)}`,
    queue.value ? `#SBATCH --partition=${queue.value}` : null,
    `#SBATCH --nodes=${w.nodes}`,
    `#SBATCH --ntasks=${w.tasks}`,
    w.cores > 1 && `#SBATCH --cpus-per-task=${w.cores}`,
    w.mib && `#SBATCH --mem=${w.mib}M`,
    w.gpus && `#SBATCH --gpus-per-node=${w.gpus}`,
    `#SBATCH --time=${slurmTime(w.seconds)}`,
    account.value ? `#SBATCH --account=${quoted(account.value)}` : null,
    booking && `#SBATCH --reservation=${booking.id}`,
    `#SBATCH --output=${quoted(output.value)}`,
    "", commands.value,
  ].filter((line) => line || line === "").join("\n");

  // The interface reads no lines '#SBATCH': they are there for who keeps the script.
  const fields = (w) => ({
    ...restFields(w, queue.value), name: name.value, standard_output: output.value, current_working_directory: folder.value,
    ...(booking && { reservation: String(booking.id) }), ...(account.value && { account: account.value }),
  });

  const write = () => {
    put(wrong);
    try {
      put(script, text(wanted()));
    } catch (e) {
      put(wrong, e.message);
    }
  };
  let asked = 0, known = -1;
  const look = keep(async () => {
    const mine = asked;
    if (known === mine) return;
    let w;
    try {
      w = wanted();
    } catch {
      known = mine;
      return;
    }
    if (wantedBooking) {
      // When it starts is the booking's affair.
      known = mine;
      if (booking) put(outlook, inside(booking, w));
      return;
    }
    try {
      const quote = await post("/quotes", quoteAsk(w, queue.value, 40));
      if (mine !== asked) return;
      known = mine;
      const slot = quote.choice === null ? null : quote.slots[quote.choice];
      put(outlook, h("p", {}, h("strong", {}, quote.plain_start_ms ? `Would start ${away(quote.plain_start_ms)}, at ${clock(quote.plain_start_ms)}.` : "When it would start cannot be told.")),
        slot && h("p", {}, `Booked, it could begin at ${clock(slot.start_ms)} for ${su(slot.price)}. `, h("a", { href: `/book?nodes=${w.nodes}&length=${w.seconds}s` }, "See when else")));
    } catch (e) {
      if (e.status === 0 || e.status === 503) throw e;
      known = mine;
      put(outlook, h("p", {}, local(e.message)));
    }
  }, 15000);
  const changed = () => {
    asked++;
    write();
    look.again();
  };

  /** What becomes of a job of that size in the booking. */
  const inside = (r, w) => {
    const left = (r.end_ms - Math.max(r.start_ms, Date.now())) / 1000;
    const wrong = w.nodes > r.node_count ? `It wants more nodes than the ${r.node_count} of the booking.` : w.seconds > left - MARGIN ? "Its time limit is more than the booking has left, so it would be refused." : null;
    return [h("p", {}, h("strong", {}, r.start_ms > Date.now() ? `Waits for the booking, which begins ${away(r.start_ms)}, at ${clock(r.start_ms)}.` : "Starts as soon as there is room in the booking.")), wrong && h("p", {}, wrong)];
  };
  const send = async () => {
    let w;
    if (wantedBooking && !booking) {
      put(wrong, "the booking is not there: see above");
      return;
    }
    try {
      w = wanted();
    } catch (e) {
      put(wrong, e.message);
      return;
    }
    button.disabled = true;
    try {
      const { job, notes } = await submitted({ script: text(w), job: fields(w) });
      notes.forEach((note) => tell(note));
      tell(`Submitted job ${job}.`);
      go(`/jobs/${job}`);
    } catch (e) {
      put(wrong, local(e.message));
    }
    button.disabled = session.me.read_only;
  };
  templates.addEventListener("change", () => {
    const chosen = all[Number(templates.value)];
    if (chosen) commands.value = chosen.text;
    changed();
  });
  const fill = () => put(templates, all.map((one, at) => h("option", { value: at }, one.name)));
  put(main,
    h("header", {}, h("h1", {}, "Submit")), into,
    h("form", { class: "two", onsubmit: (e) => { e.preventDefault(); send(); }, onchange: changed, oninput: write },
      h("div", { class: "card" }, h("h2", {}, "What shall run?"),
        field("Begin with", templates),
        field("Commands", commands),
        h("div", { class: "fields" }, field("Name", name), field("Queue", queue), field("How long at most", time, "90m, 2h30m, 1d"), field("Nodes", nodes), field("Tasks", tasks), field("Cores of a task", cores), field("Memory of a node", memory, "16G"), field("GPUs of a node", gpus), field("Account", account)),
        field("Folder", folder, "where it runs and writes"), field("Output", output, "%x is the name, %j the number")),
      h("div", {}, h("div", { class: "card" }, h("h2", {}, "When"), outlook, wrong, h("p", {}, button)),
        h("div", { class: "card" }, h("h2", {}, "The script"), script))));
  fill();
  write();
  fillQueues(queue, (q) => (booking ? q.name === booking.queue : q.default)).then(changed).catch(() => {});
  if (wantedBooking) {
    get(`/reservations/${encodeURIComponent(wantedBooking)}`).then((r) => {
      if (!r.usable || !["confirmed", "active"].includes(r.state)) throw new Error(`booking ${r.name} takes no jobs of yours: it is ${r.state}`);
      booking = r;
      nodes.value = String(r.node_count);
      tasks.value = String(r.node_count);
      time.value = `${Math.max(1, Math.floor(((r.end_ms - Math.max(r.start_ms, Date.now())) / 1000 - MARGIN) / 60))}m`;
      queue.value = r.queue;
      put(into, h("div", { class: "card offer" }, h("p", {}, h("strong", {}, `Into the booking `, h("a", { href: `/book/${r.id}` }, r.name)), `: ${clock(r.start_ms)} to ${clock(r.end_ms)}, ${r.nodes}. `, h("a", { href: "/submit" }, "Without it"))));
      changed();
    }).catch((e) => put(into, h("div", { class: "card offer no" }, h("p", { role: "alert" }, `There is no booking ${wantedBooking} for this: ${local(e.message)}. `, h("a", { href: "/submit" }, "Submit without it")))));
  }
  get("/templates").then((told) => {
    all = [...told.templates, ...BUILT_IN];
    fill();
    if (told.templates.length > 0) {
      commands.value = all[0].text;
      changed();
    }
  }).catch(() => {});
  return look.stop;
}
