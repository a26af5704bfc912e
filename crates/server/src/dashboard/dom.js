// Elements, text and numbers.

/** Creates an HTML element. Attributes that are null or false are left out. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Creates an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Sets the text of an element if it differs, so that screen readers announce changes only. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A table body whose rows are kept by key, so that focus and selection survive updates. */
export class Rows {
  /** Each column has `cell(row, td)`, which returns a text or changes the cell itself and returns undefined. */
  constructor(body, columns) {
    this.body = body;
    this.columns = columns;
    this.byKey = new Map();
  }

  update(rows, keyOf, decorate = () => {}) {
    const keys = new Set(rows.map(keyOf));
    for (const [key, tr] of this.byKey) {
      if (!keys.has(key)) {
        tr.remove();
        this.byKey.delete(key);
      }
    }
    rows.forEach((row, index) => {
      const key = keyOf(row);
      let tr = this.byKey.get(key);
      if (!tr) {
        const cell = ({ head, number }) =>
          el(head ? "th" : "td", { scope: head ? "row" : null, class: number ? "number" : null });
        tr = el("tr", {}, ...this.columns.map(cell));
        this.byKey.set(key, tr);
      }
      if (this.body.children[index] !== tr) this.body.insertBefore(tr, this.body.children[index] ?? null);
      this.columns.forEach((column, at) => {
        const text = column.cell(row, tr.children[at]);
        if (text !== undefined) setText(tr.children[at], text);
      });
      decorate(row, tr);
    });
  }
}

/** A count, or a number with the digits that matter. */
export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return size >= 1 ? value.toFixed(1) : value.toFixed(2);
}

/** A measured figure: unlike a count it has its decimals even if they are zero, so that columns of them line up. */
export function figure(value) {
  const size = Math.abs(value);
  return Number.isInteger(value) && size > 0 && size < 100 ? value.toFixed(1) : number(value);
}

export function withUnit(value, unit) {
  if (unit === "zxid" && Number.isFinite(value)) return `0x${BigInt(Math.round(value)).toString(16)}`;
  const text = unit ? figure(value) : number(value);
  return text === "–" || !unit ? text : `${text} ${unit}`;
}

export const ms = (value) => withUnit(value, "ms");
/** An input of a score, by its name: `hop 12.3 ms`. */
export const inputText = (name, value) =>
  name.endsWith("_ms") ? `${name.slice(0, -3).replaceAll("_", " ")} ${ms(value)}` : `${name.replaceAll("_", " ")} ${number(value)}`;

export const perSecond = (value) => withUnit(value, "/s");

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${number(value)} ${units[at]}`;
}

export function duration(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

export const clock = (at) => new Date(at).toLocaleTimeString("en-GB");
export const dateTime = (at) => (at ? new Date(at).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC") : "–");

/** The colour class and the line pattern of a server, the same everywhere. */
export const seriesClass = (ids, id) => `series-${ids.indexOf(id) % 8}`;
export const seriesDash = (ids, id) => ["", "7 3", "2 3", "9 3 2 3", "5 2", "12 4", "1 4", "4 4"][ids.indexOf(id) % 8];

/** Lets arrow keys, Home and End move the focus within a list of elements, of which one is in the tab order. */
export function roving(container, selector, onLeave = () => {}) {
  container.addEventListener("keydown", (event) => {
    const items = [...container.querySelectorAll(selector)];
    const at = items.indexOf(event.target.closest(selector));
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 };
    if (at < 0 || !(event.key in steps)) return;
    event.preventDefault();
    const next = items[steps[event.key]];
    if (!next) return onLeave(event.key);
    items.forEach((item) => item.setAttribute("tabindex", item === next ? "0" : "-1"));
    next.focus();
  });
}
