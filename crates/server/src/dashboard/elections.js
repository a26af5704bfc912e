// The timeline of elections and hand-overs, each with its explanation and its record.

import { byId, clock, duration, el, inputText, ms, roving, setText, withUnit } from "./dom.js";
import { state } from "./state.js";

const rows = new Map();

export function setUpElections() {
  roving(byId("timeline"), "summary");
}

export function drawElections() {
  const list = byId("timeline");
  setText(byId("timeline-empty"), state.elections.length ? "" : "No election is known here yet.");
  const newest = state.elections[0];
  setText(byId("why"), newest ? `${newest.headline}. ${newest.explanation}` : "–");
  const seen = new Set();
  state.elections.forEach((election, index) => {
    const key = keyOf(election);
    seen.add(key);
    const version = JSON.stringify([election.ended, election.steps.length, election.winner]);
    let row = rows.get(key);
    if (!row || row.version !== version) {
      const item = itemOf(election, row?.item.firstChild.open ?? false);
      row?.item.replaceWith(item);
      row = { item, version };
      rows.set(key, row);
    }
    if (list.children[index] !== row.item) list.insertBefore(row.item, list.children[index] ?? null);
  });
  for (const [key, row] of rows) {
    if (!seen.has(key)) {
      row.item.remove();
      rows.delete(key);
    }
  }
  list.querySelectorAll("summary").forEach((summary, index) => summary.setAttribute("tabindex", index === 0 ? "0" : "-1"));
}

/** Clocks of servers differ by a few milliseconds, epochs do not. */
const keyOf = (election) => `${election.epoch} ${election.cause} ${election.failed_rounds} ${election.ended === "failed" ? election.at_ms : ""}`;

/** Refreshes the texts that depend on the time. */
export function drawAges() {
  for (const time of byId("timeline").querySelectorAll("time")) {
    setText(time, `${clock(Number(time.dataset.at))}, ${duration(Date.now() - Number(time.dataset.at))} ago`);
  }
}

function itemOf(election, isOpen) {
  const total = election.steps.at(-1)?.ms;
  const kind = election.decided_by ? (election.ended === "failed" ? "failed" : "elected") : "handed";
  const symbol = { elected: "★", handed: "→", failed: "✕" }[kind];
  return el(
    "li",
    { class: `event event-${kind}` },
    el(
      "details",
      { open: isOpen },
      el(
        "summary",
        {},
        el("span", { class: "event-symbol", "aria-hidden": "true" }, symbol),
        el("strong", {}, election.headline),
        el("span", { class: "event-facts" }, [causeText(election.cause), total === undefined ? null : `${ms(total)}`].filter(Boolean).join(", ")),
        el("time", { "data-at": election.at_ms, datetime: new Date(election.at_ms).toISOString() }),
      ),
      el("p", {}, election.explanation),
      election.proposals.length ? proposals(election) : null,
      election.steps.length ? steps(election) : null,
    ),
  );
}

const causeText = (cause) =>
  ({ start: "start", "leader-lost": "leader lost", "quorum-lost": "quorum lost", resigned: "gave way", transfer: "transfer", retry: "repeated" })[cause] ?? cause;

function proposals(election) {
  const head = ["candidate", election.oracle ?? "score", "history up to", "measured"];
  return el(
    "div",
    { class: "scroll" },
    el(
      "table",
      {},
      el("caption", {}, `Scores by ${election.oracle ?? "an unknown oracle"}${election.better ? ` (${election.better} is better)` : ""}`),
      el("thead", {}, el("tr", {}, ...head.map((text, at) => el("th", { scope: "col", class: at === 1 ? "number" : null }, text)))),
      el(
        "tbody",
        {},
        ...election.proposals.map((proposal) =>
          el(
            "tr",
            { class: proposal.id === election.winner ? "leads" : null },
            el("th", { scope: "row" }, proposal.id === election.winner ? `★ ${proposal.id}` : `${proposal.id}`),
            el("td", { class: "number" }, proposal.known ? withUnit(proposal.score, election.unit) : "unknown"),
            el("td", { class: "code" }, proposal.zxid),
            el("td", {}, [...Object.entries(proposal.inputs).map(([name, value]) => inputText(name, value)), proposal.able ? null : "had just failed to lead"].filter(Boolean).join(", ")),
          ),
        ),
      ),
    ),
  );
}

/** The steps as a bar, whose parts are in proportion to their time, and in words. */
function steps(election) {
  const total = election.steps.at(-1).ms || 1;
  let before = 0;
  const bar = el("div", { class: "steps", "aria-hidden": "true" });
  const list = el("ol", { class: "step-list" });
  election.steps.forEach((step, index) => {
    const part = el("span", { class: `step step-${index % 6}`, title: step.step });
    part.style.flexGrow = Math.max((step.ms - before) / total, 0.005);
    bar.append(part);
    list.append(el("li", {}, el("span", { class: `key step-${index % 6}`, "aria-hidden": "true" }), `${step.step} at ${ms(step.ms)}`));
    before = step.ms;
  });
  return el("div", {}, bar, list);
}
