// A terminal: the screen is kept by the server, which tells what has changed; keys go there as bytes. What
// programs write never comes here as they wrote it, only as characters and colours.
import { del, post } from "./api.js";
import { h, put, tell } from "./dom.js";

const KEYS = {
  Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", Delete: "\x1b[3~", Insert: "\x1b[2~",
  PageUp: "\x1b[5~", PageDown: "\x1b[6~", F1: "\x1bOP", F2: "\x1bOQ", F3: "\x1bOR", F4: "\x1bOS",
  F5: "\x1b[15~", F6: "\x1b[17~", F7: "\x1b[18~", F8: "\x1b[19~", F9: "\x1b[20~", F10: "\x1b[21~", F11: "\x1b[23~", F12: "\x1b[24~",
};
const MOVES = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };

/** What a key sends, or nothing where it is text or the browser's. */
export function keyBytes(e, applicationKeys) {
  if (e.isComposing || e.metaKey) return null;
  const modifier = 1 + (e.shiftKey ? 1 : 0) + (e.altKey ? 2 : 0) + (e.ctrlKey ? 4 : 0);
  if (MOVES[e.key]) {
    if (modifier > 1) return `\x1b[1;${modifier}${MOVES[e.key]}`;
    return `\x1b${applicationKeys ? "O" : "["}${MOVES[e.key]}`;
  }
  if (e.key === "Tab" && e.shiftKey) return "\x1b[Z";
  if (KEYS[e.key] && !e.ctrlKey) return (e.altKey ? "\x1b" : "") + KEYS[e.key];
  if (e.ctrlKey && !e.altKey && e.key.length === 1) {
    // Copying, and pasting, are the browser's.
    if (e.shiftKey && /^[cv]$/i.test(e.key)) return null;
    if (e.key === " " || e.key === "@") return "\0";
    const code = e.key.toUpperCase().charCodeAt(0);
    if (code >= 64 && code < 96) return String.fromCharCode(code - 64);
    return null;
  }
  if (e.altKey && !e.ctrlKey && e.key.length === 1) return `\x1b${e.key}`;
  return null;
}

/** One of the 256 colours. Source: XTerm Control Sequences, 256 colours. */
export function palette(n) {
  if (n >= 232) {
    const grey = 8 + (n - 232) * 10;
    return `rgb(${grey} ${grey} ${grey})`;
  }
  const at = n - 16, part = (i) => (i === 0 ? 0 : 55 + i * 40);
  return `rgb(${part(Math.floor(at / 36))} ${part(Math.floor(at / 6) % 6)} ${part(at % 6)})`;
}

function run([text, front, back, looks]) {
  const classes = ["b", "i", "u", "r", "d"].filter((_, at) => looks & (1 << at)).map((word) => `t-${word}`);
  const style = {};
  const [f, g] = looks & 8 ? [back, front] : [front, back];
  const set = (what, value) => {
    if (value === null) return;
    if (typeof value === "number" && value < 16) classes.push(`t-${what}${value}`);
    else style[what === "f" ? "color" : "backgroundColor"] = typeof value === "number" ? palette(value) : value;
  };
  set("f", f);
  set("g", g);
  return h("span", { class: classes.join(" ") || null, style }, text);
}

/** Shows a shell; gives what takes it away. `over` is told how it ended. */
export function terminal(place, shell, over) {
  const screen = h("div", { class: "screen", role: "region", "aria-label": "Screen of the shell", tabindex: "0" });
  const keys = h("textarea", { class: "keys", "aria-label": "Keys for the shell; Shift and Escape leaves it", autocapitalize: "off", autocomplete: "off", autocorrect: "off", spellcheck: "false", rows: 1 });
  const probe = h("span", { class: "probe", "aria-hidden": "true" }, "M".repeat(10));
  const title = h("span", { class: "soft" });
  const box = h("div", { class: "terminal" }, screen, keys, probe);
  put(place, box, h("p", { class: "soft" }, "Keys go to the shell; Shift and Escape leaves it, Ctrl, Shift and V pastes. ", title));
  let lines = [], mode = {}, waits = "", sending = false, size = null, above = 0, source = null, stopped = false;

  const send = async (text) => {
    waits += text;
    if (sending) return;
    sending = true;
    while ((waits || size) && !stopped) {
      const body = { ...(size || {}) };
      const part = waits.slice(0, 8000);
      if (part) body.text = part;
      waits = waits.slice(part.length);
      size = null;
      try {
        await post(`/shells/${shell.id}`, body);
      } catch (e) {
        if (e.code === "busy") {
          waits = part + waits;
          await new Promise((resolve) => setTimeout(resolve, 400));
        } else {
          waits = "";
          if (e.status !== 404 && !stopped) tell(e.message, true);
        }
      }
    }
    sending = false;
  };

  const fit = () => {
    const one = probe.getBoundingClientRect();
    if (!one.width) return;
    const columns = Math.max(20, Math.floor((screen.clientWidth - 16) / (one.width / 10)));
    const rows = Math.max(8, Math.floor((screen.clientHeight - 12) / one.height));
    if (columns === mode.columns && rows === mode.lines) return;
    size = { lines: rows, columns };
    send("");
  };

  const draw = (told) => {
    if (told.lines !== mode.lines) {
      lines = Array.from({ length: told.lines }, () => h("div"));
      put(screen, lines);
    }
    mode = told;
    for (const [at, runs] of Object.entries(told.rows)) if (lines[at]) put(lines[at], runs.map(run), runs.length === 0 && "\u00a0");
    screen.querySelector(".cursor")?.remove();
    if (told.cursor) {
      const one = probe.getBoundingClientRect();
      const cursor = h("i", { class: "cursor", style: { left: `${8 + told.cursor[1] * (one.width / 10)}px`, top: `${6 + told.cursor[0] * one.height}px`, width: `${one.width / 10}px`, height: `${one.height}px` } });
      screen.append(cursor);
      Object.assign(keys.style, { left: cursor.style.left, top: cursor.style.top });
    }
    put(title, told.above ? `${told.above} lines above the last ones` : told.title ? `Title: ${told.title}` : "");
    if (told.ended) {
      source.close();
      stopped = true;
      over(told.ended);
    }
  };

  const watch = () => {
    source?.close();
    source = new EventSource(`/api/v1/shells/${encodeURIComponent(shell.id)}/screen${above ? `?above=${above}` : ""}`);
    const mine = source;
    mode = { ...mode, lines: null };
    source.onmessage = (e) => draw(JSON.parse(e.data));
    source.onerror = () => {
      if (mine === source && source.readyState === EventSource.CLOSED && !stopped) {
        stopped = true;
        over("the page lost it");
      }
    };
  };
  const scroll = (by) => {
    const next = Math.max(0, Math.min(mode.kept || 0, above + by));
    if (next === above) return;
    above = next;
    clearTimeout(scroll.timer);
    scroll.timer = setTimeout(watch, 60);
  };

  keys.addEventListener("keydown", (e) => {
    if (e.key === "Escape" && e.shiftKey) {
      e.preventDefault();
      keys.blur();
      place.querySelector("button")?.focus();
      return;
    }
    if (e.shiftKey && (e.key === "PageUp" || e.key === "PageDown")) {
      e.preventDefault();
      scroll((e.key === "PageUp" ? 1 : -1) * ((mode.lines || 24) - 1));
      return;
    }
    const bytes = keyBytes(e, mode.application_keys);
    if (bytes === null) return;
    e.preventDefault();
    if (above) scroll(-above);
    send(bytes);
  });
  keys.addEventListener("input", (e) => {
    if (e.isComposing) return;
    const text = keys.value;
    keys.value = "";
    if (text) send(text.replaceAll("\n", "\r"));
  });
  keys.addEventListener("compositionend", () => {
    const text = keys.value;
    keys.value = "";
    if (text) send(text);
  });
  keys.addEventListener("paste", (e) => {
    e.preventDefault();
    // What is pasted cannot end the paste itself.
    const text = (e.clipboardData?.getData("text") || "").replaceAll("\x1b", "").replaceAll(/\r?\n/g, "\r");
    send(mode.bracketed_paste ? `\x1b[200~${text}\x1b[201~` : text);
  });
  screen.addEventListener("wheel", (e) => {
    e.preventDefault();
    const by = Math.sign(e.deltaY) * -3;
    if (mode.kept) scroll(by);
    else send(keyBytes({ key: by > 0 ? "ArrowUp" : "ArrowDown" }, mode.application_keys).repeat(3));
  }, { passive: false });
  screen.addEventListener("mouseup", () => {
    if (!String(getSelection())) keys.focus({ preventScroll: true });
  });
  const sizes = new ResizeObserver(() => {
    clearTimeout(fit.timer);
    fit.timer = setTimeout(fit, 120);
  });
  sizes.observe(screen);
  watch();
  keys.focus({ preventScroll: true });
  return {
    end: () => del(`/shells/${shell.id}`),
    leave: () => {
      stopped = true;
      sizes.disconnect();
      source?.close();
    },
  };
}
