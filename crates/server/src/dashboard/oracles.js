// Who should lead: the ranking of each oracle, and the latency that was predicted beside the one that was measured.

import { LineChart, leaderMarks } from "./chart.js";
import { Rows, byId, el, inputText, ms, number, seriesClass, seriesDash, setText, withUnit } from "./dom.js";
import { fresh, ids, state, totals, view } from "./state.js";

let chart;
let ranking;
let columns = "";

export function setUpOracles() {
  chart = new LineChart(byId("predicted"), "ms");
  byId("predicted-oracle").addEventListener("change", drawPrediction);
}

export function drawRanking() {
  const current = view();
  if (!current) return;
  const servers = ids();
  const table = byId("ranking");
  if (columns !== servers.join()) {
    columns = servers.join();
    const head = ["oracle", "chooses", ...servers.map((id) => `server ${id}`)];
    table.tHead.replaceChildren(
      el("tr", {}, ...head.map((text, at) => el("th", { scope: "col", class: at > 1 ? "number" : null }, text))),
    );
    table.tBodies[0].replaceChildren();
    ranking = new Rows(table.tBodies[0], [
      { head: true, cell: (row) => (row.isActive ? `${row.name} (in force)` : row.name) },
      { cell: (row) => (row.winner === null ? "–" : `server ${row.winner}`) },
      ...servers.map((id) => ({ number: true, cell: (row, td) => scoreCell(row, id, td) })),
    ]);
  }
  const rows = Object.entries(current.scores.oracles).map(([name, oracle]) => ({
    ...oracle,
    name,
    isActive: name === current.scores.active,
    leader: current.ensemble.leader,
  }));
  rows.sort((a, b) => b.isActive - a.isActive || a.name.localeCompare(b.name));
  ranking.update(rows, (row) => row.name, (row, tr) => tr.classList.toggle("active", row.isActive));
}

function scoreCell(row, id, td) {
  const score = row.servers[id];
  td.classList.toggle("winner", row.winner === id);
  td.classList.toggle("leads", row.leader === id);
  const inputs = Object.entries(score?.inputs ?? {}).map(([name, value]) => inputText(name, value));
  td.title = inputs.length ? `${row.better} is better: ${inputs.join(", ")}` : `${row.better} is better`;
  if (!score?.known) return "?";
  return `${row.winner === id ? "✓ " : ""}${withUnit(score.score, row.unit)}`;
}

export function drawPrediction() {
  const current = view();
  if (!current) return;
  const select = byId("predicted-oracle");
  const offered = Object.entries(current.scores.oracles).filter(([, oracle]) => oracle.unit === "ms");
  const names = offered.map(([name]) => name);
  if ([...select.options].map((option) => option.value).join() !== names.join()) {
    const chosen = names.includes(select.value) ? select.value : names.includes("latency") ? "latency" : names[0];
    select.replaceChildren(...names.map((name) => el("option", { value: name, selected: name === chosen }, name)));
  }
  const name = select.value;
  const { history } = state;
  const times = history.map((point) => point.at);
  const servers = ids();
  const leader = current.ensemble.leader;
  const predicted = (id) => history.map((point) => point.predicted[name]?.[id] ?? null);
  const series = servers.map((id) => ({
    name: id === leader ? `${id} (leads)` : `${id}`,
    class: seriesClass(servers, id),
    dash: seriesDash(servers, id),
    width: id === leader ? 2.2 : 1.4,
    values: predicted(id),
  }));
  series.push({
    name: "measured",
    class: "measured",
    width: 3,
    values: history.map((point) => point.writes?.mean_ms ?? null),
  });
  // A peak of the measured latency, as during an election, would hide the differences between the servers.
  const highest = 2.5 * Math.max(...series.slice(0, -1).flatMap((line) => line.values).filter((value) => value !== null), 1);
  const isCut = series.at(-1).values.some((value) => value > highest);
  const text = summary(name, current, leader) + (isCut ? " Peaks of the measured latency are cut off." : "");
  chart.draw(times, series, leaderMarks(history), text, highest);
  compare(current, leader);
}

function summary(name, current, leader) {
  const scores = current.scores.oracles[name]?.servers ?? {};
  const known = ids().filter((id) => scores[id]?.known);
  const parts = known.map((id) => `${ms(scores[id].score)} under server ${id}`);
  const measured = totals().writes.mean_ms;
  const now = leader === null ? "nobody leads" : `server ${leader} leads`;
  const writes = measured === null ? "nothing is written" : `writes take ${ms(measured)} on average`;
  return `Predicted by ${name}: ${parts.join(", ") || "nothing yet"}. Now ${now}, and ${writes}.`;
}

/** For each server: what its clients should wait for a write under the present leader, and what they wait. */
function compare(current, leader) {
  const inputs = current.scores.oracles.latency?.servers[leader]?.inputs ?? {};
  const rows = current.ensemble.servers.map((server) => {
    const hop = server.id === leader ? 0 : (server.rtt_ms[leader] ?? null);
    const expected = inputs.consensus_ms === undefined || hop === null ? null : inputs.consensus_ms + hop;
    // The last figures of a server that is down are no measurement.
    const measured = fresh().find((snapshot) => snapshot.health.id === server.id)?.writes ?? null;
    return { server, expected, measured };
  });
  comparison ??= new Rows(byId("comparison").tBodies[0], [
    { head: true, cell: ({ server }) => (server.site ? `${server.id} (${server.site})` : `${server.id}`) },
    { number: true, cell: ({ expected }) => ms(expected) },
    { number: true, cell: ({ measured }) => ms(measured?.mean_ms) },
    { number: true, cell: ({ expected, measured }) => errorText(expected, measured?.mean_ms) },
    { number: true, cell: ({ measured }) => ms(measured?.p99_ms) },
  ]);
  comparison.update(rows, ({ server }) => server.id);
  const known = rows.filter((row) => row.expected !== null && row.measured?.mean_ms > 0);
  const worst = Math.max(...known.map((row) => Math.abs(row.measured.mean_ms / row.expected - 1)), 0);
  const text = known.length
    ? `The prediction is off by at most ${number(worst * 100)} % at the servers that are measured.`
    : "No writes are measured now, so there is nothing to compare.";
  setText(byId("comparison-text"), text);
}

let comparison;

function errorText(expected, measured) {
  if (expected === null || !measured) return "–";
  const percent = (measured / expected - 1) * 100;
  return `${percent > 0 ? "+" : ""}${number(Math.round(percent))} %`;
}
