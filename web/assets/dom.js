// Elements out of names, attributes and children. Text only ever becomes text: nothing here reads markup,
// so that what a job is called cannot become part of the page.

import { local } from "./words.js";

/** Text without what nobody sees: control characters, and marks that turn the direction of writing around. */
export const plain = (text) =>
  String(text).replaceAll(/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "value") element.value = value;
    else if (name === "href" && !/^(\/|#|https?:)/.test(value)) continue;
    else if (name === "title" || name === "aria-label") element.setAttribute(name, plain(value));
    else element.setAttribute(name, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

/** Adds children: elements, texts, lists of them; nothing where there is none. */
export function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(plain(child)));
  }
}

/** An element of the page. */
export const h = (name, attributes, ...children) =>
  fill(document.createElement(name), attributes, children);

/** An element of a picture. */
export const s = (name, attributes, ...children) =>
  fill(document.createElementNS(SVG, name), attributes, children);

/** Puts new children in the place of the old ones. */
export function put(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** A table; `columns` are {title, cell, right}. Rows are links where `to` says where. */
export function table(columns, rows, { to, caption, empty = "There is nothing to show." } = {}) {
  if (rows.length === 0) return h("p", { class: "empty" }, empty);
  const head = columns.map((c) =>
    h("th", { scope: "col", class: c.right && "right" }, c.title));
  const line = (row) => {
    const place = to && to(row);
    const cells = columns.map((c, at) => {
      const inside = c.cell(row);
      const linked = place && at === 0 ? h("a", { href: place }, inside) : inside;
      return h("td", { class: [c.right && "right", c.cut && "cut", c.wrap && "wrap"].filter(Boolean).join(" ") }, linked);
    });
    return h("tr", { class: row.own && "own" }, cells);
  };
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption || "table" },
    h("table", {}, caption && h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map(line))));
}

/** A field of a form with its label. */
export function field(label, input, hint) {
  const id = `f${++field.count}`;
  input.id = id;
  return h("div", { class: "field" }, h("label", { for: id }, label), input,
    hint && h("small", {}, hint));
}
field.count = 0;

/** Asks whether it is meant; gives what was typed where something is asked for, else true or false. */
export function confirm(title, text, { yes = "Yes", ask } = {}) {
  return new Promise((resolve) => {
    const input = ask && h("input", { value: ask.value || "", required: ask.required });
    const end = (value) => () => {
      dialog.close();
      dialog.remove();
      resolve(value());
    };
    const no = end(() => (ask ? null : false));
    const dialog = h("dialog", { "aria-labelledby": "dialog-title", oncancel: no },
      h("form", { method: "dialog", onsubmit: (e) => { e.preventDefault(); end(() => (ask ? input.value : true))(); } },
        h("h2", { id: "dialog-title" }, title), h("p", {}, text), ask && field(ask.label, input),
        h("div", { class: "buttons" },
          h("button", { type: "button", onclick: no }, "Leave it"),
          h("button", { type: "submit", class: "main" }, yes))));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Tells something in a corner, and to who cannot see it. */
export function tell(text, wrong = false) {
  const place = document.getElementById("told");
  const note = h("div", { class: wrong ? "note wrong" : "note", role: wrong ? "alert" : "status" }, text);
  place.append(note);
  setTimeout(() => note.remove(), wrong ? 12000 : 6000);
}

/** Does something and tells that it was done, or why not. */
export async function attempt(what, words) {
  try {
    await what();
    tell(words);
  } catch (e) {
    tell(local(e.message), true);
  }
}

/** A figure with its title, perhaps as a part of something in hundredths, and a word more; `warns`: much is not good. */
export function figure(title, text, share = null, more = null, warns = false) {
  return h("div", { class: "card figure" }, h("span", { class: "what" }, title), h("b", {}, text),
    share !== null && h("div", { class: "meter" }, h("i", { class: warns && share > 90 && "much", style: { width: `${share}%` } })),
    more && h("small", {}, more));
}

/** Buttons that turn the pages of a list; `to` is called with the first line of another one. */
export function turns(skip, rows, further, to) {
  const button = (word, at) => h("button", { type: "button", onclick: () => to(at) }, word);
  return [skip > 0 && button("◀ Before", Math.max(0, skip - rows)), further && button("More ▶", skip + rows)];
}
