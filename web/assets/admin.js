// What administrators look after: accounts and the ledger, limits with where each comes from, events live.
import { get } from "./api.js";
import { h, put, table } from "./dom.js";
import { healthOfAll } from "./health.js";
import { keep } from "./main.js";
import { clock, exact, local, seconds, su } from "./words.js";

const EVENTS = 200;

/** A limit as people write it. */
const limits = (all) => Object.entries(all || {}).map(([key, value]) => `${key.replaceAll("_", " ")} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");

export function show(main) {
  const nodes = h("div"), accounts = h("div"), ledger = h("div"), tree = h("div"), qos = h("div"), events = h("div", { class: "log", role: "log", "aria-label": "Events" });
  const told = h("small", { class: "soft" });
  put(main, h("header", {}, h("h1", {}, "Administration")),
    h("div", { class: "card" }, h("h2", {}, "Health of nodes"), nodes),
    h("div", { class: "card" }, h("header", { class: "filters" }, h("h2", {}, "Events"), told), events),
    h("div", { class: "two" }, h("div", { class: "card" }, h("h2", {}, "Budgets"), accounts), h("div", { class: "card" }, h("h2", {}, "Ledger"), ledger)),
    h("div", { class: "card" }, h("h2", {}, "Accounts, users and their limits"), tree),
    h("div", { class: "card" }, h("h2", {}, "Qualities of service"), qos));
  let kept = [];
  let source = null, again = null;
  const listen = () => {
    const last = kept[0]?.seq;
    source = new EventSource(`/api/v1/events${last ? `?after=${last}` : ""}`);
    source.onopen = () => put(told, "live");
    source.onmessage = (e) => {
      kept = [JSON.parse(e.data), ...kept].slice(0, EVENTS);
      clearTimeout(again);
      again = setTimeout(draw, 80);
    };
    source.onerror = () => {
      put(told, "not live: asking again");
      source.close();
      again = setTimeout(listen, 3000);
    };
  };
  const draw = () => put(events, table([
    { title: "When", cell: (e) => h("span", { title: exact(e.at) }, clock(e.at)) }, { title: "What", cell: (e) => e.what }, { title: "Of", cell: (e) => e.object },
    { title: "By", cell: (e) => e.who }, { title: "More", cell: (e) => local(e.detail), cut: true },
  ], kept.slice(0, 40), { caption: "Events", empty: "Nothing has happened." }));
  draw();
  listen();
  const lists = keep(async (signal) => {
    const [a, l, t, q] = await Promise.all([get("/accounts", signal), get("/ledger?rows=50", signal), get("/policy/associations", signal), get("/policy/qos", signal)]);
    put(accounts, table([
      { title: "Account", cell: (x) => x.name }, { title: "Granted", right: true, cell: (x) => (x.budget ? su(x.granted) : "no budget") }, { title: "Held", right: true, cell: (x) => su(x.held) },
      { title: "Charged", right: true, cell: (x) => su(x.charged) }, { title: "Left", right: true, cell: (x) => (x.budget ? su(x.available) : "") }, { title: "Members", cell: (x) => x.members.join(", "), cut: true },
    ], a.accounts, { caption: "Budgets", empty: "No account has a budget: 'cadm account' makes one." }));
    put(ledger, table([
      { title: "When", cell: (x) => clock(x.at) }, { title: "From", cell: (x) => x.from }, { title: "To", cell: (x) => x.to }, { title: "SU", right: true, cell: (x) => su(x.sum).replace(" SU", "") },
      { title: "Booking", cell: (x) => x.reservation }, { title: "Why", cell: (x) => x.why },
    ], l.lines.reverse(), { caption: "Ledger", empty: "Nothing was booked on any account." }));
    const rows = t.associations?.rows || [];
    put(tree, table([
      { title: "Account", cell: (x) => `${"\u2003".repeat(x.depth)}${x.key.account}` }, { title: "User", cell: (x) => x.key.user }, { title: "Queue", cell: (x) => x.key.queue },
      { title: "Jobs", right: true, cell: (x) => x.usage?.running || "" }, { title: "Its own limits", wrap: true, cell: (x) => limits(x.own?.limits) },
      { title: "Those that hold, and where from", wrap: true, cell: (x) => effective(x.effective) }, { title: "Qualities of service", cell: (x) => (x.qos || []).join(", "), cut: true },
    ], rows.slice(0, 300), { caption: "Accounts and users", empty: "There are no accounts." }));
    put(qos, table([
      { title: "Name", cell: (x) => x.record.name }, { title: "Priority", right: true, cell: (x) => x.record.priority }, { title: "Running", right: true, cell: (x) => x.usage?.running || "" },
      { title: "Limits", wrap: true, cell: (x) => limits(x.record.limits) }, { title: "Preempts", cell: (x) => x.record.preempt.join(", ") }, { title: "Grace", right: true, cell: (x) => (x.record.grace ? seconds(x.record.grace / 1000) : "") },
      { title: "About", cell: (x) => x.record.description, cut: true },
    ], q.qos || [], { caption: "Qualities of service" }));
  }, 15000);
  const healthy = keep((signal) => healthOfAll(nodes, signal), 6000);
  return () => {
    lists.stop();
    healthy.stop();
    source.close();
    clearTimeout(again);
  };
}

/** Limits that hold, each with the account or user that sets it. */
function effective(all) {
  return (all || []).map(([key, value, from]) => {
    const word = typeof key === "string" ? key : Object.entries(key).flat().filter((part) => typeof part === "string").join(" ");
    return `${word.replaceAll("_", " ")} ${value} (${[from.account, from.user, from.queue].filter(Boolean).join(" ")})`;
  }).join(", ");
}
