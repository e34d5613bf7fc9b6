// Machine time ahead: what it costs and whom it delays, before it is taken; held, confirmed, given back.
import { del, get, post, query, session } from "./api.js";
import { confirm, field, h, put, table, tell } from "./dom.js";
import { calendar, WEEK } from "./calendar.js";
import { keep } from "./main.js";
import { away, clock, count, exact, local, seconds, span, state, su, tone, typedLength, typedMemory } from "./words.js";
import { accountField, fillQueues } from "./wanted.js";

const FREE = new Set(["confirmed", "active", "held"]);

/** So many starts that every hour of a week has one where the least gap is 30 minutes or less: four have their own place,
 *  and up to half of the others are instants at which the plan changes. */
const EVERY_HOUR = 2 * WEEK + 8;

export function show(main, [id]) {
  return id ? one(main, id) : page(main);
}

function delays(slot) {
  if (!slot.delayed_jobs) return "It delays nobody.";
  const own = slot.own_delayed.map((o) => `${o.job} (${seconds(o.delay)})`).join(", ");
  return `It delays ${count(slot.delayed_jobs, "waiting job")} by ${seconds(slot.total_delay)} in all${own ? `; of yours ${own}` : ""}.`;
}

function page(main) {
  const url = new URLSearchParams(location.search);
  const input = (name, value, more = {}) => h("input", { name, value, ...more });
  const nodes = input("nodes", url.get("nodes") || "1", { type: "number", min: 1, required: true });
  const cores = input("cores", "", { type: "number", min: 1, placeholder: "1" });
  const gpus = input("gpus", "", { type: "number", min: 0, placeholder: "0" });
  const memory = input("memory", "", { placeholder: "as usual", inputmode: "numeric" });
  const time = input("length", url.get("length") || "2h", { required: true });
  const whole = h("input", { type: "checkbox" });
  const queue = h("select", {});
  const account = accountField((a) => (a.available === null ? a.name : `${a.name} (${su(a.available)} left)`));
  const name = input("name", "", { placeholder: "for you to know it by", maxlength: 64 });
  const repeat = h("select", {}, h("option", { value: "" }, "once"), h("option", { value: "DAILY" }, "every day"), h("option", { value: "WEEKLY" }, "every week"));
  const times = input("times", "4", { type: "number", min: 2, max: 100 });
  const offer = h("div", { "aria-live": "polite" });
  const list = h("div");
  const told = h("p", { class: "soft", role: "status" });
  const wrong = h("p", { role: "alert" });
  // What is asked for is counted, so that what is known of it is not taken for what is wanted now.
  let held = null, offers = null, asked = 0, known = -1;
  const anew = () => { asked++; hours.again(); };

  const wanted = () => {
    const mib = typedMemory(memory.value);
    const ask = { length: typedLength(time.value), nodes: Number(nodes.value) || 1 };
    if (queue.value) ask.queue = queue.value;
    if (cores.value) ask.cores_per_task = Number(cores.value);
    if (gpus.value) ask.gpus_per_node = Number(gpus.value);
    if (mib) ask.memory_mib_per_node = mib;
    if (whole.checked) ask.exclusive = true;
    if (account.value) ask.account = account.value;
    return ask;
  };
  /** All starts of a repeated booking, by the calendar of who looks. */
  const starts = (first) => {
    const every = repeat.value === "DAILY" ? 1 : 7;
    return Array.from({ length: Math.min(100, Math.max(2, Number(times.value) || 2)) }, (_, n) => {
      const date = new Date(first);
      date.setDate(date.getDate() + n * every);
      return date.getTime();
    });
  };

  const week = calendar(({ start, end, single }) => {
    if (!single) {
      time.value = span(end - start).replaceAll(" ", "");
      // What the hours say is of another length.
      anew();
    }
    choose(start);
  });

  async function ahead() {
    const mine = asked;
    put(wrong);
    let ask;
    try {
      ask = wanted();
    } catch (e) {
      put(wrong, e.message);
      return;
    }
    const { from, to } = week.range();
    try {
      const quote = await post("/quotes", { ...ask, earliest: Math.max(Date.now(), from), latest_end: to + ask.length * 1000, most: EVERY_HOUR });
      if (mine !== asked) return;
      offers = quote;
      week.tell({ offers: quote.slots });
      const fits = quote.slots.filter((slot) => slot.admitted);
      put(told, fits.length === 0 ? `No start of this week can be had: ${local(quote.slots[0]?.reason || "there is no room")}`
        : `A plain job of this size would start ${quote.plain_start_ms ? away(quote.plain_start_ms) : "at a time that cannot be told"}. The hours show what a booking from then costs, and how full the machine is planned to be.`);
    } catch (e) {
      if (mine !== asked) return;
      offers = null;
      week.tell({ offers: [] });
      put(told, e.status === 0 || e.status === 503 ? "" : e.message);
      if (e.status === 0 || e.status === 503) throw e;
    }
  }

  async function choose(start) {
    put(wrong);
    let ask;
    try {
      ask = wanted();
    } catch (e) {
      put(wrong, e.message);
      return;
    }
    week.choose(start, start + ask.length * 1000);
    put(offer, h("div", { class: "card offer" }, h("p", {}, "Asking what it costs ...")));
    try {
      const quote = await post("/quotes", { ...ask, start: Math.max(start, Date.now() + 1000) });
      show1(ask, quote.slots[quote.choice ?? 0], quote);
    } catch (e) {
      put(offer, h("div", { class: "card offer no" }, h("h2", {}, clock(start)), h("p", {}, local(e.message))));
    }
  }

  /** Starts that would be cheaper by so much that somebody would like to know. */
  function better(slot) {
    const cheaper = ((known === asked && offers?.slots) || []).filter((o) => o.admitted && (!slot.admitted || o.price < slot.price * 0.8));
    const near = cheaper.sort((a, b) => (slot.admitted ? a.price - b.price : Math.abs(a.start_ms - slot.start_ms) - Math.abs(b.start_ms - slot.start_ms)))[0];
    if (!near) return null;
    return h("p", {}, slot.admitted ? "Cheaper: " : "What can be had: ", h("button", { type: "button", onclick: () => choose(near.start_ms) }, `${clock(near.start_ms)} for ${su(near.price)}`));
  }

  function show1(ask, slot, quote) {
    if (!slot) {
      put(offer, h("div", { class: "card offer no" }, h("p", {}, "There is nothing at that time.")));
      return;
    }
    week.choose(slot.start_ms, slot.end_ms);
    const passes = !slot.admitted && quote.notice_earliest_ms;
    const take = (hold) => reserve({ ...ask, start: slot.start_ms, name: name.value.trim(), hold });
    put(offer, h("div", { class: slot.admitted ? "card offer" : "card offer no" },
      h("h2", {}, `${clock(slot.start_ms)} to ${clock(slot.end_ms)}`),
      slot.admitted ? [
        h("div", { class: "price" }, su(slot.price)),
        h("p", { class: "soft" }, slot.extra > 0 ? `${su(slot.base)} for the time, ${su(slot.extra)} for the delay of others` : "for the time alone",
          quote.account ? `; account ${quote.account.name}${quote.account.left === null ? "" : ` has ${su(quote.account.left)} left`}` : "; on no account, so nobody is charged"),
        h("p", {}, delays(slot)),
        h("p", { class: "soft" }, `On ${slot.nodes}.`),
        !session.me.read_only && h("div", { class: "buttons" },
          h("button", { type: "button", class: "main", onclick: () => take(true) }, "Hold it"),
          h("button", { type: "button", onclick: () => take(false) }, "Book it at once")),
      ] : [
        h("p", {}, h("strong", {}, slot.feasible ? "The rules refuse it: " : "It cannot be had: "), local(slot.reason)),
        passes && h("p", {}, `By the rule of notice it would pass from ${clock(quote.notice_earliest_ms)} on. `,
          h("button", { type: "button", onclick: () => choose(quote.notice_earliest_ms) }, "Look at that")),
      ],
      better(slot),
      quote.rules.length > 0 && h("details", {}, h("summary", {}, "The rules and their figures now"), h("ul", { class: "lines" }, quote.rules.map((rule) => h("li", {}, local(rule)))))));
  }

  async function reserve(ask) {
    const body = { ...ask };
    if (repeat.value) {
      body.repeat = starts(ask.start);
      body.rule = `FREQ=${repeat.value};COUNT=${body.repeat.length}`;
      body.as_many_as_fit = true;
      delete body.start;
    }
    try {
      const done = await post("/reservations", body);
      const first = done.reservations[0];
      if (done.conflicts.length > 0) tell(`${done.conflicts.length} of the starts were not possible, the first at ${clock(done.conflicts[0].start_ms)}: ${local(done.conflicts[0].message)}`, true);
      if (first?.state === "held") waitFor(done.reservations);
      else {
        put(offer, done(first, `Booked: ${first.name}, ${clock(first.start_ms)}.`));
      }
    } catch (e) {
      tell(local(e.message), true);
    }
    lists.again();
    hours.again();
  }

  /** A hold with what is left of it. */
  function waitFor(all) {
    clearInterval(held);
    const one = all[0];
    // The controller's clock counts; this one may be wrong.
    const off = Date.now() - one.now_ms;
    const left = h("span", { class: "countdown" });
    const tick = () => {
      const ms = one.hold_until_ms + off - Date.now();
      put(left, ms > 0 ? span(ms) : "over");
      if (ms <= 0) {
        clearInterval(held);
        put(offer, h("div", { class: "card offer no" }, h("p", {}, "The hold is over, and the time is free for others again.")));
        lists.again();
      }
    };
    const end = async (what, words, confirmed = false) => {
      try {
        await what();
        clearInterval(held);
        if (confirmed) put(offer, done(one, words));
        else {
          tell(words);
          put(offer);
        }
      } catch (e) {
        tell(local(e.message), true);
      }
      lists.again();
      hours.again();
    };
    put(offer, h("div", { class: "card offer" },
      h("h2", {}, `Held: ${one.name}`),
      h("p", {}, `${clock(one.start_ms)} to ${clock(one.end_ms)} on ${one.nodes}, ${su(one.price)}${all.length > 1 ? `; ${all.length} times` : ""}.`),
      h("p", {}, "Nobody else gets it for ", left, ". Confirm it, or it is given back by itself."),
      h("div", { class: "buttons" },
        h("button", { type: "button", class: "main", onclick: () => end(() => Promise.all(all.map((r) => post(`/reservations/${r.id}/confirm`))), `Confirmed: ${one.name}, ${clock(one.start_ms)}.`, true) }, "Confirm"),
        h("button", { type: "button", onclick: () => end(() => Promise.all(all.map((r) => del(`/reservations/${r.id}`))), "Given back.") }, "Give it back"))));
    tick();
    held = setInterval(tick, 1000);
    offer.querySelector("button").focus();
  }

  /** What can be done with a booking that was just made. */
  const done = (one, words) => h("div", { class: "card offer" }, h("p", { role: "status" }, h("strong", {}, words)),
    h("p", {}, "Jobs enter with ", h("code", {}, `csub --reservation ${one.id}`), " or from here:"),
    h("p", {}, h("a", { class: "button", href: `/submit?reservation=${one.id}` }, "Submit a job into it"), " ", h("a", { href: `/book/${one.id}` }, "See it")));

  const turn = (days) => () => {
    week.turn(days);
    anew();
  };
  const form = h("form", { class: "card", onsubmit: (e) => { e.preventDefault(); anew(); }, onchange: anew },
    h("h2", {}, "What do you need?"),
    h("div", { class: "fields" },
      field("Nodes", nodes), field("How long", time, "90m, 2h30m, 1d"), field("Cores of a task", cores), field("GPUs of a node", gpus),
      field("Memory of a node", memory, "16G"), field("Queue", queue)),
    h("p", {}, h("label", {}, whole, " whole nodes, shared with nobody")),
    h("details", {}, h("summary", {}, "Name, account, repetition"),
      h("div", { class: "fields" }, field("Name", name), field("Account", account), field("How often", repeat), field("Times", times))),
    wrong,
    h("p", {}, h("button", { type: "submit" }, "See the prices")));
  put(main,
    h("header", {}, h("div", {}, h("h1", {}, "Book time"), told), h("a", { class: "button", href: "/api/v1/reservations.ics", download: "cosy.ics" }, "My bookings as a calendar")),
    h("div", { class: "book" },
      h("div", {}, form, offer),
      h("div", { class: "card" },
        h("div", { class: "filters" },
          h("div", { class: "group" },
            h("button", { type: "button", "aria-label": "Week before", onclick: turn(-7) }, "◀"),
            h("button", { type: "button", onclick: turn(0) }, "From today"),
            h("button", { type: "button", "aria-label": "Week after", onclick: turn(7) }, "▶")),
          h("small", { class: "soft" }, "Choose an hour, or drag over several.")),
        h("div", { class: "scroll" }, week.element),
        h("ul", { class: "legend" }, h("li", {}, h("i", { class: "running" }), "how full it is planned to be"), h("li", {}, h("i", { class: "reserved" }), "mine"), h("li", {}, h("i", { class: "good" }), "cheaper than usual"), h("li", {}, h("i", { class: "dear" }), "dearer"), h("li", {}, "numbers: SU for a booking from then"), h("li", {}, "– not possible")))),
    list);

  const hours = keep(async (signal) => {
    const { from, to } = week.range();
    const load = await get(`/plan${query({ from, to, lines: 1, queue: queue.value })}`, signal);
    const percent = load.parts[0].taken;
    const all = [];
    for (let column = 0; column < load.columns; column++) {
      const [, running, planned, reserved] = percent.slice(column * 4, column * 4 + 4);
      all.push(Math.min(100, running + planned + reserved));
    }
    week.tell({ load: all });
    const mine = asked;
    if (known !== mine) {
      await ahead();
      known = mine;
    }
  }, 30000);
  const lists = keep(async (signal) => {
    const { reservations } = await get("/reservations?own=true&ended=true", signal);
    const live = reservations.filter((r) => FREE.has(r.state));
    week.tell({ own: live });
    const before = reservations.filter((r) => !FREE.has(r.state)).slice(-10).reverse();
    put(list, h("div", { class: "card" }, h("h2", {}, "My bookings"), bookings([...live, ...before], () => { lists.again(); hours.again(); }, waitFor)));
  }, 8000);
  fillQueues(queue).catch(() => {});
  return () => {
    clearInterval(held);
    hours.stop();
    lists.stop();
  };
}

function bookings(all, changed, confirmHeld) {
  return table([
    { title: "Booking", cell: (r) => r.id }, { title: "Name", cell: (r) => r.name, cut: true },
    { title: "State", cell: (r) => [h("span", { class: `badge ${tone(r.state)}` }, state(r.state)), r.degraded && h("span", { class: "badge wrong" }, "nodes are lost")] },
    { title: "From", cell: (r) => h("span", { title: exact(r.start_ms) }, `${clock(r.start_ms)} (${away(r.start_ms)})`) },
    { title: "How long", cell: (r) => span(r.end_ms - r.start_ms) }, { title: "Nodes", cell: (r) => r.nodes, cut: true },
    { title: "Price", right: true, cell: (r) => su(r.price) },
    { title: "", cell: (r) => FREE.has(r.state) && !session.me.read_only && h("div", { class: "buttons" },
      r.usable && r.state !== "held" && h("a", { class: "button", href: `/submit?reservation=${r.id}` }, "Submit into it"),
      r.state === "held" && h("button", { type: "button", onclick: () => confirmHeld([r]) }, "Confirm ..."),
      h("button", { type: "button", class: "danger", onclick: async () => {
        const free = r.free_until_ms && r.free_until_ms > r.now_ms;
        const series = r.series !== null && await confirm("The whole series?", "It is one of a repeated booking. Shall those that follow go too?", { yes: "All of them" });
        if (!series && !(await confirm(`Give back ${r.name}?`, free ? "It costs nothing." : "Some of its price may have to be paid.", { yes: "Give it back" }))) return;
        try {
          await del(`/reservations/${r.id}${series ? "?series=true" : ""}`);
          tell("Given back.");
        } catch (e) {
          tell(e.message, true);
        }
        changed();
      } }, "Give back")) },
  ], all, { to: (r) => `/book/${r.id}`, caption: "Bookings", empty: "You have booked nothing. Choose an hour in the calendar." });
}

function one(main, id) {
  const body = h("div");
  put(main, body);
  const asked = keep(async (signal) => {
    let r;
    try {
      r = await get(`/reservations/${encodeURIComponent(id)}`, signal);
    } catch (e) {
      if (e.status !== 404 && e.status !== 400) throw e;
      put(body, h("h1", {}, `Booking ${id}`), h("p", {}, e.message), h("p", {}, h("a", { href: "/book" }, "Book time")));
      return;
    }
    const facts = [
      ["When", `${clock(r.start_ms)} to ${clock(r.end_ms)} (${span(r.end_ms - r.start_ms)}, ${away(r.start_ms)})`],
      ["Nodes", `${r.nodes} (${count(r.node_count, "node")}, ${count(r.cores, "core")}${r.gpus ? `, ${count(r.gpus, "GPU")}` : ""})`],
      ["Queue", r.queue], ["Of", r.user], ["Account", r.account || "none"], ["Price", `${su(r.price)}: ${su(r.base)} for the time, ${su(r.extra)} for the delay of others`],
      ["Charged", su(r.charged)], ["It delayed", r.delayed_jobs ? `${count(r.delayed_jobs, "job")}, ${seconds(r.total_delay)} in all` : "nobody"],
      ["Free to give back until", r.free_until_ms && clock(r.free_until_ms)], ["Used", r.used_core_seconds ? `${Math.round((r.used_core_seconds / (r.cores * (r.end_ms - r.start_ms) / 1000)) * 100)} % of its core hours` : null],
      ["Shared with", [...r.users, ...r.groups.map((g) => `@${g}`), ...r.accounts].join(", ")], ["Rule", r.rule], ["Comment", r.comment], ["Note", r.note && local(r.note)],
      ["Job", r.job && h("a", { href: `/jobs/${r.job}` }, r.job)],
    ].filter(([, value]) => value !== null && value !== undefined && value !== "");
    put(body, h("header", {}, h("h1", {}, `${r.name} `, h("span", { class: `badge ${tone(r.state)}` }, state(r.state)))),
      h("div", { class: "card" }, h("dl", { class: "facts" }, facts.map(([title, value]) => [h("dt", {}, title), h("dd", {}, value)]))),
      r.usable && FREE.has(r.state) && h("div", { class: "card" }, h("header", { class: "filters" }, h("h2", {}, "Jobs into it"), !session.me.read_only && r.state !== "held" && h("a", { class: "button", href: `/submit?reservation=${r.id}` }, "Submit a job into it")),
        r.state === "held" && h("p", {}, "It is only held: confirm it first."),
        h("pre", { tabindex: "0" }, `csub --reservation ${r.id} script.sh\nsbatch --reservation=${r.id} script.sh\nsrun --reservation=${r.id} --pty bash`)),
      h("p", {}, h("a", { href: "/book" }, "All my bookings")));
  }, 5000);
  return asked.stop;
}

