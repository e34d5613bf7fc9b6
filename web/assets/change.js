// What can be other of a job: a form, of which only what was changed is sent.
import { get, patch, session } from "./api.js";
import { field, h, put, tell } from "./dom.js";
import { ms, seconds, typedLength } from "./words.js";

/** A point in time as the field for one has it, by the clock of who looks. */
function typed(time) {
  const at = ms(time);
  if (at === null || Number.isNaN(at)) return "";
  return new Date(at - new Date(at).getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

const number = (text) => {
  if (!/^-?\d+$/.test(text.trim())) throw new Error(`'${text}' is no whole number`);
  return Number(text);
};
const moment = (text) => {
  const at = Date.parse(text);
  if (Number.isNaN(at)) throw new Error(`'${text}' is no point in time`);
  return at;
};

/** What the form has: the title, the name in the API, what it is now, how it is read, and where it is of use. */
function fields(job) {
  const input = (value, more = {}) => h("input", { value: value ?? "", ...more });
  const all = [
    { title: "Name", name: "name", input: input(job.name, { maxlength: 200, required: true }) },
    { title: "Time limit", name: "time_limit", input: input(job.time_limit ? seconds(job.time_limit).replaceAll(" ", "") : "", { placeholder: "none" }), read: typedLength,
      hint: job.state === "waiting" ? "90m, 2h30m, 1d" : "only shorter, unless you are an administrator" },
    { title: "Queue", name: "queue", waiting: true, input: h("select", {}, h("option", { value: job.queue }, job.queue)) },
    { title: "Start not before", name: "begin", waiting: true, input: input(typed(job.begin), { type: "datetime-local" }), read: moment },
    { title: "Has to be over by", name: "deadline", waiting: true, input: input(typed(job.deadline), { type: "datetime-local" }), read: moment },
    { title: "Account", name: "account", input: h("select", {}, h("option", { value: job.account || "" }, job.account || "the usual one")) },
    { title: "Quality of service", name: "qos", input: h("select", {}, h("option", { value: job.qos || "" }, job.qos || "the usual one")) },
    { title: "Nice", name: "nice", input: input(job.nice ?? 0, { inputmode: "numeric" }), read: number, hint: "above 0: behind others" },
    session.me.administrator && { title: "Priority", name: "priority", input: input("", { inputmode: "numeric", placeholder: "as computed" }), read: number, hint: "in place of the computed one" },
    { title: "Comment", name: "comment", input: input(job.comment, { maxlength: 1000 }) },
  ];
  return all.filter((one) => one && (job.state === "waiting" || !one.waiting));
}

/** Asks what is to be changed of a job, and changes it. `done` is called when something was. */
export function change(id, job, done) {
  const all = fields(job);
  const before = new Map(all.map((one) => [one.name, one.input.value]));
  const wrong = h("p", { role: "alert" });
  const end = () => {
    dialog.close();
    dialog.remove();
  };
  const send = async () => {
    put(wrong);
    const body = {};
    try {
      for (const { name, title, input, read } of all) {
        if (input.value === before.get(name)) continue;
        if (read && !input.value.trim()) throw new Error(`${title} can be another, and not be taken away here`);
        body[name] = read ? read(input.value) : input.value;
      }
      if (Object.keys(body).length === 0) throw new Error("nothing is other than before");
      await patch(`/jobs/${encodeURIComponent(id)}`, body);
    } catch (e) {
      put(wrong, e.message);
      return;
    }
    end();
    tell(`Job ${id} is changed.`);
    done();
  };
  const dialog = h("dialog", { "aria-labelledby": "change-title", class: "wide", oncancel: end },
    h("form", { method: "dialog", onsubmit: (e) => { e.preventDefault(); send(); }, oninput: () => put(wrong) },
      h("h2", { id: "change-title" }, `Change job ${id}`),
      h("p", { class: "soft" }, job.state === "waiting" ? "What stays as it is is not touched." : "It runs: what concerns its nodes stays as it is."),
      h("div", { class: "fields" }, all.map((one) => field(one.title, one.input, one.hint))), wrong,
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: end }, "Leave it"), h("button", { type: "submit", class: "main" }, "Change"))));
  document.body.append(dialog);
  dialog.showModal();
  choices(all);
}

/** Queues, accounts and qualities of service to choose among, beside what the job has now. */
function choices(all) {
  const fill = (name, names) => {
    const select = all.find((one) => one.name === name)?.input;
    for (const other of select ? names : []) {
      if (other !== select.value) select.append(h("option", { value: other }, other));
    }
  };
  get("/queues").then(({ queues }) => fill("queue", queues.map((q) => q.name))).catch(() => {});
  get("/accounts").then(({ accounts }) => fill("account", accounts.map((a) => a.name))).catch(() => {});
  get("/policy/qos").then(({ qos }) => fill("qos", (qos || []).map((q) => q.record.name))).catch(() => {});
}
