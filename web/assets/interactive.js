// Machines to work on at once: a shell or a notebook in an allocation, and programs of jobs that listen.
import { del, get, post, query, session, submitted } from "./api.js";
import { attempt, field, h, put, table, tell } from "./dom.js";
import { go, keep } from "./main.js";
import { terminal } from "./terminal.js";
import { away, clock, count, local, seconds, state, typedLength, typedMemory } from "./words.js";
import { fillQueues, quoteAsk, restFields } from "./wanted.js";

const SHELL = "# Keeps the machine for the shell in the page, which gives it back at its end.\nexec sleep infinity\n";
const NOTEBOOK = "# Only this machine and the page reach it: the page leads in, JUPYTER_TOKEN lets in.\nexec jupyter lab --no-browser --ip=127.0.0.1 --ServerApp.token=\"$JUPYTER_TOKEN\"\n";
const KINDS = [
  { word: "shell", title: "A shell", name: "shell", text: SHELL },
  { word: "notebook", title: "A notebook (JupyterLab)", name: "notebook", text: NOTEBOOK },
  { word: "program", title: "A program that listens on a port", name: "program", text: "exec python3 -m http.server --bind 127.0.0.1 8000\n" },
];
/** The word that a notebook lets in with is only in this browser. */
const kept = (job) => sessionStorage.getItem(`cosy-notebook-${job}`);
const secret = () => Array.from(crypto.getRandomValues(new Uint8Array(24)), (n) => n.toString(16).padStart(2, "0")).join("");

function begin(place) {
  const input = (value, more = {}) => h("input", { value, ...more });
  const kind = h("select", {}, KINDS.map((one) => h("option", { value: one.word }, one.title)));
  const queue = h("select", {});
  const cores = input("1", { type: "number", min: 1, required: true });
  const memory = input("", { placeholder: "as usual" });
  const gpus = input("", { type: "number", min: 0, placeholder: "0" });
  const time = input("1h", { required: true });
  const commands = h("textarea", { rows: 4, spellcheck: "false", value: NOTEBOOK });
  const commandField = h("div", { hidden: true }, field("Commands", commands, "what runs on the machine"));
  const outlook = h("p", { "aria-live": "polite" });
  const wrong = h("p", { role: "alert" });
  const button = h("button", { type: "submit", class: "main", disabled: session.me.read_only }, "Begin");
  const chosen = () => KINDS.find((one) => one.word === kind.value);
  const wanted = () => ({ seconds: typedLength(time.value), mib: typedMemory(memory.value), nodes: 1, tasks: 1, cores: Number(cores.value) || 1, gpus: Number(gpus.value) || 0 });
  let asked = 0, known = -1;
  const look = keep(async () => {
    const mine = asked;
    if (known === mine) return;
    known = mine;
    try {
      const w = wanted();
      const quote = await post("/quotes", quoteAsk(w, queue.value, 1));
      if (mine !== asked) return;
      const at = quote.plain_start_ms;
      put(outlook, h("strong", {}, !at ? "When it would begin cannot be told." : at <= Date.now() + 5000 ? "It would begin at once." : `It would begin ${away(at)}, at ${clock(at)}. `),
        at > Date.now() + 600000 && h("a", { href: `/book?nodes=1&length=${w.seconds}s` }, "Book a time instead"));
    } catch (e) {
      if (e.status === 0 || e.status === 503) {
        known = -1;
        throw e;
      }
      put(outlook, local(e.message));
    }
  }, 15000);
  const changed = () => {
    asked++;
    look.again();
  };
  kind.addEventListener("change", () => {
    commandField.hidden = kind.value === "shell";
    commands.value = chosen().text;
  });
  const send = async () => {
    put(wrong);
    button.disabled = true;
    try {
      const w = wanted(), one = chosen(), word = one.word === "notebook" ? secret() : null;
      const { job, notes } = await submitted({
        script: `#!/bin/bash -l\n${one.word === "shell" ? SHELL : commands.value}`,
        job: {
          ...restFields(w, queue.value), name: one.name,
          current_working_directory: session.me.home || "/", standard_output: one.word === "shell" ? "/dev/null" : "%x-%j.out",
          environment: [`HOME=${session.me.home || "/"}`, `USER=${session.me.user}`, "PATH=/usr/local/bin:/usr/bin:/bin", ...(word ? [`JUPYTER_TOKEN=${word}`] : [])],
        },
      });
      notes.forEach((note) => tell(note));
      if (word) sessionStorage.setItem(`cosy-notebook-${job}`, word);
      go(`/interactive/${job}${one.word === "shell" ? "?shell" : ""}`);
    } catch (e) {
      put(wrong, local(e.message));
    }
    button.disabled = session.me.read_only;
  };
  put(place, h("form", { class: "card", onsubmit: (e) => { e.preventDefault(); send(); }, onchange: changed },
    h("h2", {}, "Begin"),
    h("div", { class: "fields" }, field("What", kind), field("Queue", queue), field("Cores", cores), field("Memory", memory, "16G"), field("GPUs", gpus), field("How long at most", time, "90m, 2h30m")),
    commandField, outlook, wrong, h("p", {}, button)));
  fillQueues(queue).then(changed).catch(() => {});
  return look.stop;
}

function overview(main) {
  const form = h("div"), running = h("div", { class: "card" });
  put(main, h("header", {}, h("h1", {}, "Interactive")), form, running);
  const stop = begin(form);
  const list = keep(async (signal) => {
    const [{ jobs }, { shells }] = await Promise.all([
      get(`/jobs${query({ users: session.me.user, states: "running,starting,waiting", rows: 50 })}`, signal), get("/shells", signal)]);
    const open = (job) => shells.filter((one) => one.job === job.id && !one.ended);
    put(running, h("h2", {}, "Your jobs"), table([
      { title: "Job", cell: (j) => j.id },
      { title: "Name", cell: (j) => j.name, cut: true },
      { title: "State", cell: (j) => state(j.state) },
      { title: "Where", cell: (j) => j.nodes || (j.predicted_start ? `begins ${away(j.predicted_start)}` : "") },
      { title: "Open", cell: (j) => (open(j).length ? count(open(j).length, "shell") : "") },
    ], jobs.filter((j) => j.id), { to: (j) => `/interactive/${j.id}`, caption: "Your jobs", empty: "None of your jobs runs or waits." }));
  }, 5000);
  return () => {
    stop();
    list.stop();
  };
}

/** Shells and programs of one job. */
function ofJob(main, id) {
  const head = h("header", {}, h("h1", {}, `Job ${id}`)), state_ = h("div"), ports = h("div"), place = h("div");
  put(main, head, state_, place, ports);
  let shown = null, wantsShell = new URLSearchParams(location.search).has("shell"), starting = false, current = null;
  const attach = (shell) => {
    shown?.leave();
    const words = h("p", { role: "status" });
    const screen = h("div");
    put(place, h("div", { class: "card" },
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => attempt(() => shown.end(), "The shell is being ended.") }, shell.ends_job ? "End and give the machine back" : "End the shell")),
      screen, words));
    shown = terminal(screen, shell, (how) => {
      put(words, `The shell is over: ${how}.`, shell.ends_job && " The machine is given back.");
      asked.again();
    });
  };
  const start = async (endsJob) => {
    if (starting) return;
    starting = true;
    try {
      attach(await post(`/jobs/${id}/shells`, { ends_job: endsJob }));
    } catch (e) {
      tell(local(e.message), true);
    }
    starting = false;
  };
  const open = async (port) => {
    const tab = window.open("", "_blank");
    try {
      const { link } = await post(`/jobs/${id}/ports/${port}`);
      const word = kept(id);
      if (tab) {
        tab.opener = null;
        tab.location = `${link}${word ? `&then=${encodeURIComponent(`token=${word}`)}` : ""}`;
      }
    } catch (e) {
      tab?.close();
      tell(local(e.message), true);
    }
  };
  const asked = keep(async (signal) => {
    const told = await get(`/jobs/${encodeURIComponent(id)}`, signal);
    const job = told.tasks[0];
    const line = job.end ? `${state(job.state)}, ${away(job.end)}` : job.state === "running" ? `runs on ${job.nodes}${job.latest_end ? `, until ${clock(job.latest_end)} at the latest` : ""}` : job.predicted_start ? `begins ${away(job.predicted_start)}, at ${clock(job.predicted_start)}` : state(job.state);
    const words = JSON.stringify([line, job.state, job.name]);
    if (words !== current) {
      current = words;
      put(head, h("h1", {}, `Job ${id} `, h("span", {}, job.name)), h("div", { class: "buttons" },
        job.state === "running" && !session.me.read_only && h("button", { type: "button", onclick: () => start(false) }, "New shell"),
        h("a", { class: "button", href: `/jobs/${id}` }, "All of the job"),
        !job.end && !session.me.read_only && h("button", { type: "button", class: "danger", onclick: () => attempt(() => del(`/jobs/${id}`), `Job ${id} is ended, and the machine given back.`) }, "Give the machine back")));
      put(state_, h("div", { class: "card" }, h("p", {}, h("strong", {}, `The job ${line}.`), job.time_limit && !job.end && ` Its limit is ${seconds(job.time_limit)}.`)));
    }
    if (job.state !== "running") {
      put(ports);
      return;
    }
    if (!shown && !starting) {
      const { shells } = await get("/shells", signal);
      const own = shells.find((one) => String(one.job) === id && !one.ended);
      if (own) attach(own);
      else if (wantsShell && !session.me.read_only) {
        wantsShell = false;
        history.replaceState(null, "", `/interactive/${id}`);
        await start(true);
      }
    }
    let all;
    try {
      all = (await get(`/jobs/${id}/ports`, signal)).ports;
    } catch (e) {
      if (e.status === 0 || e.status === 503) throw e;
      put(ports, h("div", { class: "card" }, h("h2", {}, "Programs that listen"), h("p", { role: "status" }, local(e.message))));
      return;
    }
    put(ports, h("div", { class: "card" }, h("h2", {}, "Programs that listen"), table([
      { title: "Port", cell: (p) => p.port },
      { title: "Program", cell: (p) => p.program },
      { title: "", cell: (p) => h("button", { type: "button", class: "main", disabled: session.me.read_only, onclick: () => open(p.port) }, "Open") },
    ], all, { caption: "Programs that listen", empty: "No program of this job listens on a port of its first machine yet." })));
  }, 3000);
  return () => {
    shown?.leave();
    asked.stop();
  };
}

export function show(main, [id]) {
  return id ? ofJob(main, id) : overview(main);
}
