// Times, lengths, amounts and states in words.

const pad = (n) => String(n).padStart(2, "0");

/** A point in time as a number, from RFC 3339 or milliseconds. */
export const ms = (time) => (typeof time === "number" ? time : time ? Date.parse(time) : null);

/** 14:05 today, Tue 14:05 this week, else 3 Dec 14:05. */
export function clock(time, now = Date.now()) {
  const at = ms(time);
  if (at === null || Number.isNaN(at)) return "";
  const date = new Date(at);
  const hours = `${pad(date.getHours())}:${pad(date.getMinutes())}`;
  const today = new Date(now);
  if (date.toDateString() === today.toDateString()) return hours;
  const day = date.toLocaleDateString(undefined, { weekday: "short" });
  if (Math.abs(at - now) < 6 * 864e5) return `${day} ${hours}`;
  const month = date.toLocaleDateString(undefined, { day: "numeric", month: "short" });
  const year = date.getFullYear() === today.getFullYear() ? "" : ` ${date.getFullYear()}`;
  return `${month}${year} ${hours}`;
}

/** The whole of it, for what is shown when somebody points at it. */
export const exact = (time) => (time ? new Date(ms(time)).toLocaleString() : "");

/** A length of milliseconds: 45 s, 12 min, 3 h 20 min, 2 d 4 h. */
export function span(length) {
  if (length === null || length === undefined) return "without limit";
  const seconds = Math.round(Math.abs(length) / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** A length of seconds. */
export const seconds = (n) => span(n === null || n === undefined ? null : n * 1000);

/** In 5 min, 3 h ago. */
export function away(time, now = Date.now()) {
  const at = ms(time);
  if (at === null || Number.isNaN(at)) return "";
  if (Math.abs(at - now) < 1000) return "now";
  return at > now ? `in ${span(at - now)}` : `${span(now - at)} ago`;
}

/** A sum of service units, as exact as it matters. */
export function su(sum) {
  if (sum === null || sum === undefined) return "";
  const n = Number(sum);
  const digits = Math.abs(n) >= 100 || Number.isInteger(n) ? 0 : Math.abs(n) >= 10 ? 1 : 2;
  return `${n.toLocaleString(undefined, { maximumFractionDigits: digits })} SU`;
}

/** An amount of MiB. */
export function mib(n) {
  if (n === null || n === undefined) return "";
  if (n < 1024) return `${n} MiB`;
  const gib = n / 1024;
  if (gib < 1024) return `${gib.toFixed(gib < 10 ? 1 : 0)} GiB`;
  return `${(gib / 1024).toFixed(1)} TiB`;
}

/** An amount of bytes. */
export const bytes = (n) => (n < 1048576 ? `${Math.ceil(n / 1024)} KiB` : mib(n / 1048576 < 10 ? Math.round(n / 104857.6) / 10 : Math.round(n / 1048576)));

/** 1 job, 3 jobs. */
export const count = (n, one, many = `${one}s`) => `${Number(n).toLocaleString()} ${n === 1 ? one : many}`;

const TONES = {
  running: "active", completing: "active", active: "active", mixed: "active", busy: "active", open: "active",
  starting: "active", completed: "good", idle: "good", confirmed: "good", done: "good",
  waiting: "waiting", pending: "waiting", held: "waiting", suspended: "waiting", draining: "waiting", planned: "waiting",
  "powering-up": "waiting", "powering-down": "waiting",
  failed: "wrong", timed_out: "wrong", launch_failed: "wrong", preempted: "wrong", node_failed: "wrong", out_of_memory: "wrong", lost: "wrong", down: "wrong",
  unhealthy: "wrong", unknown: "wrong", drained: "wrong", deadline: "wrong",
};

/** What a state is to whoever reads it. */
export const tone = (state) => TONES[state] || "quiet";
export const state = (word) => String(word || "").replaceAll("_", " ");

/** A length as people type it, in seconds: 90m, 2h30m, 1d, 1:30:00, 45 (minutes); null where it is none. */
export function length(text) {
  const t = text.trim().toLowerCase();
  if (/^\d+$/.test(t)) return Number(t) * 60 || null;
  const clockwise = /^(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?$/.exec(t);
  if (clockwise) {
    const [, d = 0, a, b, c = 0] = clockwise;
    return Number(d) * 86400 + Number(a) * 3600 + Number(b) * 60 + Number(c) || null;
  }
  if (!/^(\d+(\.\d+)?\s*(d|h|min|m|s)\s*)+$/.test(t)) return null;
  const unit = { d: 86400, h: 3600, min: 60, m: 60, s: 1 };
  let sum = 0;
  for (const [, n, , u] of t.matchAll(/(\d+(\.\d+)?)\s*(d|h|min|m|s)/g)) sum += Number(n) * unit[u];
  return Math.round(sum) || null;
}

/** Points in time in sentences of the controller, which has them in UTC, by the clock of who reads. */
export const local = (sentence) =>
  String(sentence).replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (time) => clock(time));

/** The beginning of a text that is longer than so many letters. */
export const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** What was typed as a length in seconds. */
export function typedLength(text) {
  const seconds = length(text);
  if (!seconds) throw new Error(`'${text}' is no length: 90m, 2h30m, 1d`);
  return seconds;
}

/** What was typed as an amount of memory in MiB; nothing where nothing was. */
export function typedMemory(text) {
  if (!text.trim()) return null;
  const amount = /^(\d+(?:\.\d+)?)\s*([gmt]?)(?:i?b)?$/i.exec(text.trim());
  if (!amount) throw new Error(`'${text}' is no amount of memory: 16G, 500M`);
  return Math.round(Number(amount[1]) * { g: 1024, t: 1048576, m: 1, "": 1 }[amount[2].toLowerCase()]);
}
