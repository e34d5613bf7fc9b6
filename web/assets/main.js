// The frame of the page: where one is, who one is, what is shown, and what happens while nobody answers.
import { get, del, post, session, isAway } from "./api.js";
import { h, put, field, tell } from "./dom.js";
import { away, clock } from "./words.js";

const PLACES = [
  ["", "Now", "./now.js"],
  ["plan", "Plan", "./plan.js"],
  ["jobs", "Jobs", "./jobs.js"],
  ["submit", "Submit", "./submit.js"],
  ["interactive", "Interactive", "./interactive.js"],
  ["book", "Book time", "./book.js"],
  ["workflows", "Workflows", "./flows.js"],
  ["nodes", "Nodes", "./nodes.js"],
  ["admin", "Administration", "./admin.js"],
];

const app = document.getElementById("app");
let leave = () => {};
let awaySince = null;

function theme(next) {
  const root = document.documentElement;
  if (next) {
    root.dataset.theme = next;
    localStorage.setItem("cosy-theme", next);
    return;
  }
  const kept = localStorage.getItem("cosy-theme");
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
}

function isDark() {
  const set = document.documentElement.dataset.theme;
  return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function frame() {
  const me = session.me;
  const links = PLACES.filter(([place]) => place !== "admin" || me.administrator).map(([place, title]) =>
    h("a", { class: "place", href: `/${place}`, "data-place": place }, title));
  const change = h("button", { type: "button", onclick: () => theme(isDark() ? "light" : "dark") }, "Dark or light");
  const out = h("button", { type: "button", onclick: logOut }, "Log out");
  put(app,
    h("div", { id: "away", class: "away", role: "status", hidden: true }),
    h("div", { class: "frame" },
      h("nav", { class: "side", "aria-label": "Places" },
        h("div", { class: "brand" }, h("img", { src: "/assets/icon.svg", alt: "" }), h("span", {}, "Cosy", h("small", { class: "soft" }, me.cluster))),
        links,
        h("div", { class: "end" },
          h("span", {}, me.user, me.administrator && h("small", {}, " administrator"), me.read_only && h("small", {}, " only to look at")),
          change, out)),
      h("main", { id: "main", tabindex: "-1" })),
    h("div", { id: "told" }));
}

async function logOut() {
  try {
    await del("/session");
  } catch (e) {
    tell(e.message, true);
    return;
  }
  session.me = null;
  go("/login");
}

function login() {
  leave();
  leave = () => {};
  const token = h("input", { type: "password", autocomplete: "off", spellcheck: "false" });
  const wrong = h("p", { role: "alert" });
  const form = h("form", {
    onsubmit: async (e) => {
      e.preventDefault();
      try {
        await post("/session", { token: token.value });
        const back = sessionStorage.getItem("cosy-back") || "/";
        sessionStorage.removeItem("cosy-back");
        history.replaceState(null, "", back);
        await start();
      } catch (problem) {
        put(wrong, problem.message);
      }
    },
  }, field("Token", token, "of 'cosy token', on the host of this page"), wrong, h("p", {}, h("button", { class: "main", type: "submit" }, "Log in")));
  const used = location.search === "?used";
  document.title = "Log in · Cosy";
  put(app, h("main", { id: "main", class: "login" },
    h("div", { class: "card" },
      h("div", { class: "brand" }, h("img", { src: "/assets/icon.svg", alt: "" }), "Cosy"),
      h("h1", {}, "Log in"),
      used && h("p", { role: "alert" }, "That link was used already, or is older than two minutes."),
      h("p", {}, "Type ", h("code", {}, "cosy web"), " in a shell on the host of this page, and open the link that it prints; or paste a token:"),
      form)), h("div", { id: "told" }));
}

/** Goes to another place of the page. */
export function go(path, replace = false) {
  if (replace) history.replaceState(null, "", path);
  else history.pushState(null, "", path);
  show();
}

async function show() {
  leave();
  leave = () => {};
  if (!session.me) {
    if (location.pathname !== "/login") {
      sessionStorage.setItem("cosy-back", location.pathname + location.search);
    }
    return login();
  }
  const [, first = "", ...rest] = location.pathname.split("/");
  const place = PLACES.find(([name]) => name === first) || PLACES[0];
  for (const link of document.querySelectorAll("a.place")) {
    if (link.dataset.place === place[0]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${place[1]} · Cosy`;
  const main = document.getElementById("main");
  const here = location.href;
  const module = await import(first === "jobs" && rest[0] ? "./job.js" : place[2]);
  if (location.href !== here) return;
  put(main);
  leave = module.show(main, rest.filter(Boolean).map(decodeURIComponent)) || (() => {});
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

/**
 * Asks again and again as long as the place is shown and the tab is seen, and tells when nobody answers.
 * Gives what stops it; `again()` asks at once.
 */
export function keep(ask, everyMs) {
  let timer = null, stopped = false, asking = false, wanted = false;
  const abort = new AbortController();
  const run = async () => {
    clearTimeout(timer);
    if (stopped) return;
    if (asking) {
      // What is asked for now may not have what is wanted.
      wanted = true;
      return;
    }
    if (!document.hidden) {
      asking = true;
      try {
        await ask(abort.signal);
        answered();
      } catch (e) {
        if (stopped || e.name === "AbortError") return;
        if (isAway(e)) lost(e);
        else if (e.status !== 401) tell(e.message || String(e), true);
      } finally {
        asking = false;
      }
    }
    if (!stopped) timer = setTimeout(run, wanted ? 0 : awaySince ? 2000 : everyMs);
    wanted = false;
  };
  const seen = () => { if (!document.hidden) run(); };
  document.addEventListener("visibilitychange", seen);
  run();
  const stop = () => {
    stopped = true;
    clearTimeout(timer);
    abort.abort();
    document.removeEventListener("visibilitychange", seen);
  };
  return { stop, again: run };
}

function lost(e) {
  awaySince ||= Date.now();
  const box = document.getElementById("away");
  if (!box) return;
  box.hidden = false;
  const words = `${e.message[0].toUpperCase()}${e.message.slice(1)} (since ${clock(awaySince)}). What is shown is from then; nothing is lost, and this page goes on by itself.`;
  if (box.textContent !== words) put(box, words);
}

function answered() {
  if (!awaySince) return;
  tell(`There again, after ${away(awaySince).replace(" ago", "")}.`);
  awaySince = null;
  const box = document.getElementById("away");
  if (box) box.hidden = true;
}

async function start() {
  try {
    session.me = await get("/me");
  } catch (e) {
    if (isAway(e)) {
      put(app, h("main", { class: "login" }, h("div", { class: "card" }, h("h1", {}, "Nobody answers"),
        h("p", {}, `${e.message}. This page asks again by itself.`))));
      setTimeout(start, 2000);
      return;
    }
    session.me = null;
  }
  if (session.me) {
    frame();
    if (location.pathname === "/login") history.replaceState(null, "", "/");
  }
  await show();
}

document.addEventListener("cosy-logged-out", () => {
  if (!session.me) return;
  session.me = null;
  sessionStorage.setItem("cosy-back", location.pathname + location.search);
  go("/login", true);
});
document.addEventListener("click", (e) => {
  const link = e.target.closest?.("a[href^='/']");
  if (!link || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || link.hasAttribute("download")) return;
  e.preventDefault();
  go(link.getAttribute("href"));
});
addEventListener("popstate", show);
theme();
start();
