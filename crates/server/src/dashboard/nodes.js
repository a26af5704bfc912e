// The node browser: read-only, with the permissions of the identity that the visitor gives.

import { byId, bytes, dateTime, el, roving, setText } from "./dom.js";
import { state } from "./state.js";

let path = "/";
let credentials = null;
/** Answers that arrive after a newer request are dropped. */
let request = 0;

export function setUpNodes() {
  byId("node-form").addEventListener("submit", (event) => {
    event.preventDefault();
    open(byId("node-path").value.trim() || "/");
  });
  byId("node-auth").addEventListener("submit", (event) => {
    event.preventDefault();
    const user = byId("node-user").value;
    credentials = user ? `digest:${user}:${byId("node-password").value}` : null;
    setText(byId("node-who"), user ? `as ${user}` : "as anyone");
    open(path);
  });
  byId("node-more").addEventListener("click", more);
  roving(byId("node-children"), "button");
  byId("node-children").addEventListener("keydown", (event) => {
    if (event.key === "Backspace" || event.key === "ArrowLeft") open(parent(path), true);
    if (event.key === "ArrowRight" && event.target.closest("button")) event.target.closest("button").click();
  });
}

/** Shows the root as soon as it is known that nodes can be read. */
export function offerNodes() {
  byId("nodes").hidden = !state.capabilities.nodes;
  if (state.capabilities.nodes && !byId("node-stat").hasChildNodes()) open("/");
}

const parent = (of) => of.slice(0, Math.max(of.lastIndexOf("/"), 0)) || "/";
const join = (above, name) => (above === "/" ? `/${name}` : `${above}/${name}`);

async function load(of, after) {
  const query = new URLSearchParams({ path: of, limit: "200" });
  if (after) query.set("after", after);
  const bytesOf = (text) => String.fromCharCode(...new TextEncoder().encode(text));
  const headers = credentials ? { Authorization: `ZooKeeper ${btoa(bytesOf(credentials))}` } : {};
  const response = await fetch(`/v1/nodes?${query}`, { headers });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

async function open(of, takeFocus = false) {
  request += 1;
  const mine = request;
  byId("node-path").value = of;
  try {
    const node = await load(of, "");
    if (mine !== request) return;
    path = of;
    setText(byId("node-error"), "");
    show(node);
    if (takeFocus) (byId("node-children").querySelector("button") ?? byId("node-path")).focus();
  } catch (error) {
    if (mine === request) setText(byId("node-error"), error.message);
  }
}

async function more() {
  const list = byId("node-children");
  const last = list.lastElementChild?.firstElementChild;
  if (!last) return;
  request += 1;
  const mine = request;
  try {
    const node = await load(path, last.dataset.name);
    if (mine !== request) return;
    addChildren(node);
    last.parentElement.nextElementSibling?.firstElementChild.focus();
  } catch (error) {
    if (mine === request) setText(byId("node-error"), error.message);
  }
}

function show(node) {
  crumbs(node.path);
  byId("node-children").replaceChildren();
  addChildren(node);
  const data = byId("node-data");
  const shown = node.text ?? (node.hex ? node.hex.replace(/(..)/g, "$1 ").replace(/(.{48})/g, "$1\n") : "");
  setText(data, shown || "(no data)");
  data.classList.toggle("empty", !shown);
  const cut = node.is_cut ? ", of which the beginning is shown" : "";
  setText(byId("node-data-size"), `${bytes(node.stat.data_length)}${node.hex ? ", not text" : ""}${cut}`);
  const stat = [
    ["created", `${dateTime(node.stat.ctime_ms)} by ${node.stat.czxid}`],
    ["data changed", `${dateTime(node.stat.mtime_ms)} by ${node.stat.mzxid}`],
    ["children changed by", node.stat.pzxid],
    ["versions", `data ${node.stat.version}, children ${node.stat.cversion}, ACL ${node.stat.aversion}`],
    ["owner", node.stat.ephemeral_owner ? `session ${node.stat.ephemeral_owner} (ephemeral)` : "none"],
    ["ACL", node.acl.map((entry) => `${entry.scheme}:${entry.id} ${entry.perms}`).join(", ")],
  ];
  byId("node-stat").replaceChildren(...stat.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function addChildren(node) {
  const list = byId("node-children");
  const isFirst = !list.hasChildNodes();
  const items = node.children.map((name, index) =>
    el(
      "li",
      {},
      el("button", { type: "button", "data-name": name, tabindex: isFirst && index === 0 ? "0" : "-1", onclick: () => open(join(path, name), true) }, name),
    ),
  );
  list.append(...items);
  const all = node.stat.num_children;
  const text = all === 0 ? "no children" : `${list.children.length} of ${all} ${all === 1 ? "child" : "children"}`;
  setText(byId("node-count"), text);
  byId("node-more").hidden = !node.has_more;
}

function crumbs(of) {
  const parts = of === "/" ? [] : of.slice(1).split("/");
  const crumb = (text, to) => el("li", {}, el("button", { type: "button", class: "crumb", onclick: () => open(to) }, text));
  let at = "";
  const items = parts.map((part) => {
    at = `${at}/${part}`;
    return crumb(part, at);
  });
  byId("node-crumbs").replaceChildren(crumb("/", "/"), ...items);
}
