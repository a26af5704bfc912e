// What the page can do, if the first event of the stream says so.

import { byId, el, ms, number, setText } from "./dom.js";
import { state, view } from "./state.js";

let drawn = "";

const may = (action) => state.capabilities.actions.includes(action);

/** Sends a request, and says what came of it. */
async function act(what, method, path, body) {
  const output = byId("action-result");
  output.className = "wait";
  setText(output, `${what} …`);
  const token = byId("token").value;
  const headers = { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  try {
    const response = await fetch(path, { method, headers, body: JSON.stringify(body) });
    const text = await response.text();
    const answer = text ? JSON.parse(text) : {};
    output.className = response.ok ? "good" : "bad";
    setText(output, response.ok ? `${what}: done${outcome(answer)}.` : `${what}: ${answer.error ?? response.status}`);
  } catch (error) {
    output.className = "bad";
    setText(output, `${what}: ${error.message}`);
  }
}

const outcome = (answer) => (answer.pause_ms === undefined ? "" : `; no write was answered for ${ms(answer.pause_ms)}`);

/** The buttons of a server in the table of servers. */
export function serverActions(server, td) {
  const process = state.up?.servers.find((other) => other.id === server.id);
  const isDown = process?.state === "down";
  const isPaused = process?.state === "paused";
  const isLeader = view()?.ensemble.leader === server.id;
  const key = [state.capabilities.actions, isDown, isPaused, isLeader].join();
  if (td.dataset.key === key) return undefined;
  const hadFocus = td.contains(document.activeElement) ? document.activeElement.textContent : null;
  td.dataset.key = key;
  const button = (text, label, run) => el("button", { type: "button", class: "small", "aria-label": `${label} server ${server.id}`, onclick: run }, text);
  const up = (action) => () => act(`${action} server ${server.id}`, "POST", `/v1/up/${action}`, { server: server.id });
  const buttons = [];
  if (may("transfer") && !isLeader && !isDown && !isPaused) {
    buttons.push(button("Lead", "Hand leadership to", () => act(`hand over to server ${server.id}`, "POST", "/v1/transfer", { to: server.id })));
  }
  if (may("kill") && !isDown) buttons.push(button("Kill", "Kill", up("kill")));
  if (may("pause") && !isDown) buttons.push(isPaused ? button("Resume", "Resume", up("resume")) : button("Pause", "Pause", up("pause")));
  if (may("restart")) buttons.push(button(isDown ? "Start" : "Restart", isDown ? "Start" : "Restart", up("restart")));
  td.className = "actions";
  td.replaceChildren(...buttons);
  if (hadFocus) (buttons.find((item) => item.textContent === hadFocus) ?? buttons[0])?.focus();
  return undefined;
}

/** The panel with what concerns more than one server. Built when its content changes, so that inputs keep theirs. */
export function drawActions() {
  const panel = byId("actions");
  panel.hidden = state.capabilities.actions.length === 0;
  document.body.classList.toggle("acts", !panel.hidden);
  const current = view();
  if (panel.hidden || !current) return;
  const sites = [...new Set(state.up?.servers.map((server) => server.site) ?? [])].sort();
  const cut = state.up?.links.map((link) => `${link.a}${link.b}${link.cut}`).join();
  const key = JSON.stringify([state.capabilities.actions, Object.keys(current.scores.oracles), current.scores.active, sites, cut]);
  if (key !== drawn) {
    drawn = key;
    const parts = [];
    if (may("oracle")) parts.push(oracleForm(current));
    if (may("load")) parts.push(loadForm(sites));
    if (may("link")) parts.push(linkForm());
    if (may("cut")) parts.push(cutForm(sites));
    byId("action-forms").replaceChildren(...parts);
  }
  // An ensemble of `pole up` is there to be played with.
  const isExperiment = state.capabilities.server === null;
  setText(byId("actions-title"), isExperiment ? "Try it" : "Changes");
  byId("token-form").hidden = isExperiment;
  drawLoad();
  drawTour();
}

function form(title, submit, ...children) {
  return el(
    "form",
    {
      class: "action",
      onsubmit: (event) => {
        event.preventDefault();
        submit(event.submitter);
      },
    },
    el("h3", {}, title),
    ...children,
  );
}

function oracleForm(current) {
  const names = Object.keys(current.scores.oracles).filter((name) => !["preference", "combined"].includes(name));
  const select = el("select", { id: "oracle" }, ...names.map((name) => el("option", { value: name, selected: name === current.scores.active }, name)));
  return form(
    "What makes a good leader",
    () => act(`switch the oracle to ${select.value}`, "PUT", "/v1/oracle", { name: select.value }),
    el("label", { for: "oracle" }, "Oracle"),
    select,
    el("button", {}, "Switch"),
  );
}

/** The load of all sites together goes to one of them, or is shared by all. */
function loadForm(sites) {
  const rate = el("input", { id: "load-rate", type: "number", min: "0", max: "5000", step: "10", value: String(state.up?.load.rate || 100) });
  const place = el(
    "select",
    { id: "load-site" },
    ...sites.map((site) => el("option", { value: site }, `in ${site}`)),
    el("option", { value: "", selected: true }, "in all sites"),
  );
  return form(
    "The load",
    () => act(`load of ${rate.value} writes/s ${place.selectedOptions[0].textContent}`, "POST", "/v1/up/load", { rate: Number(rate.value), site: place.value || null }),
    el("label", { for: "load-rate" }, "Writes a second"),
    rate,
    el("label", { for: "load-site" }, "Place"),
    place,
    el("button", {}, "Move the load"),
  );
}

function drawLoad() {
  const load = state.up?.load;
  const text = !load?.rate
    ? ""
    : `The load: ${number(load.done_rate)} of ${number(load.rate)} writes a second ${load.site ? `in ${load.site}` : "in all sites"}, ` +
      `${ms(load.mean_ms)} each. ${number(load.done)} done, ${number(load.repeated)} repeated at another server, ${number(load.failed)} failed.`;
  setText(byId("load-text"), text);
}

function drawTour() {
  const tour = state.up?.tour;
  byId("tour").hidden = !tour;
  if (!tour) return;
  setText(byId("tour-step"), `Tour, step ${tour.step} of ${tour.of}`);
  setText(byId("tour-text"), tour.text);
}

function linkForm() {
  const links = state.up?.links ?? [];
  const select = el("select", { id: "link" }, ...links.map((link, at) => el("option", { value: at }, `${link.a} – ${link.b}`)));
  const rtt = el("input", { id: "link-rtt", type: "number", min: "0.1", max: "1000", step: "0.1", value: String(links[0]?.rtt_ms ?? 10) });
  select.addEventListener("change", () => (rtt.value = state.up.links[Number(select.value)].rtt_ms));
  return form(
    "A link",
    () => {
      const link = state.up.links[Number(select.value)];
      act(`${link.a} – ${link.b}: ${rtt.value} ms`, "POST", "/v1/up/link", { a: link.a, b: link.b, rtt_ms: Number(rtt.value) });
    },
    el("label", { for: "link" }, "Between"),
    select,
    el("label", { for: "link-rtt" }, "Round trip in ms"),
    rtt,
    el("button", {}, "Change"),
  );
}

function cutForm(sites) {
  const isCut = (site) => {
    const own = (state.up?.links ?? []).filter((link) => link.a !== link.b && (link.a === site || link.b === site));
    return own.length > 0 && own.every((link) => link.cut);
  };
  const buttons = sites.map((site) =>
    isCut(site) ? el("button", { value: site, name: "reconnect" }, `Reconnect ${site}`) : el("button", { value: site, name: "cut" }, `Cut off ${site}`),
  );
  return form(
    "A site",
    (button) => act(`${button.textContent}`, "POST", "/v1/up/cut", { site: button.value, cut: button.name === "cut" }),
    el("div", { class: "buttons" }, ...buttons),
  );
}
