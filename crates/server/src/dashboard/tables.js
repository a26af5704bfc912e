// Servers, throughput and latency, clients, disks and links.

import { serverActions } from "./actions.js";
import { LineChart, leaderMarks } from "./chart.js";
import { Rows, byId, bytes, duration, el, figure, ms, number, perSecond, roving, setText } from "./dom.js";
import { modeOf } from "./map.js";
import { age, fresh, ids, state, totals, view } from "./state.js";

let servers;
let clients;
let disks;
let links;
let latency;
let throughput;
let linkColumns = "";

export function setUpTables() {
  latency = new LineChart(byId("latency"), "ms");
  throughput = new LineChart(byId("throughput"), "requests/s");
  const table = byId("servers");
  servers = new Rows(table.tBodies[0], [
    { head: true, cell: ({ server }) => `${server.id}` },
    { cell: ({ server }) => server.site ?? "–" },
    { cell: ({ mode }, td) => modeCell(mode, td) },
    { number: true, cell: ({ server, mode, own }) => (isOff(mode) ? "–" : figure(own?.interval_ms ? own.writes.rate : server.write_rate)) },
    { number: true, cell: ({ own }) => figure(own?.interval_ms ? own.reads.rate : null) },
    { number: true, cell: ({ own }) => ms(own?.writes.p50_ms) },
    { number: true, cell: ({ own }) => ms(own?.writes.p99_ms) },
    { cell: ({ server }, td) => serverActions(server, td) },
  ]);
  roving(table.tBodies[0], "tr");
  clients = new Rows(byId("clients").tBodies[0], [
    { head: true, cell: (own) => `${own.health.id}` },
    { number: true, cell: (own) => number(own.clients.connections) },
    { number: true, cell: (own) => number(own.clients.watches) },
    { number: true, cell: (own) => number(own.clients.outstanding) },
    { number: true, cell: (own) => duration(own.uptime_ms) },
  ]);
  disks = new Rows(byId("disks").tBodies[0], [
    { head: true, cell: (server) => `${server.id}` },
    { number: true, cell: (server) => ms(server.fsync_p50_ms) },
    { number: true, cell: (server) => ms(server.fsync_p99_ms) },
    { number: true, cell: (server) => figure(snapshotOf(server)?.fsync.rate ?? null) },
    { cell: (server, td) => diskCell(server, td) },
    { cell: (server) => server.zxid ?? "–" },
  ]);
}

const snapshotOf = (server) => fresh().find((snapshot) => snapshot.health.id === server.id);

const isOff = (mode) => mode === "down" || mode === "paused";

function modeCell(mode, td) {
  td.className = `mode mode-${mode}`;
  return { leader: "★ leader", standalone: "★ standalone", follower: "● follower", looking: "◆ looking", down: "✕ down", paused: "❙❙ paused" }[mode] ?? mode;
}

/** A disk is slow if it holds up commits: longer than the round trips that they wait for anyway. */
function diskCell(server, td) {
  const slow = server.fsync_p99_ms > 100 ? "very slow" : server.fsync_p99_ms > 20 ? "slow" : "good";
  const text = server.fsync_p99_ms === null || !server.alive ? "unknown" : slow;
  td.className = `health health-${text.replace(" ", "-")}`;
  return text;
}

export function drawTables() {
  const current = view();
  if (!current) return;
  const { ensemble } = current;
  const rows = ensemble.servers.map((server) => ({
    server,
    mode: modeOf(server, current),
    own: fresh().find((snapshot) => snapshot.health.id === server.id),
  }));
  servers.update(rows, ({ server }) => server.id, ({ server, mode }, tr) => {
    tr.dataset.server = server.id;
    tr.classList.toggle("leads", mode === "leader");
    if (!tr.hasAttribute("tabindex")) tr.setAttribute("tabindex", tr.rowIndex === 1 ? "0" : "-1");
  });
  clients.update(fresh(), (own) => own.health.id);
  disks.update(ensemble.servers, (server) => server.id);
  drawLinks(ensemble.servers);
  drawHeadline(current);
}

function drawHeadline(current) {
  const { ensemble } = current;
  const alive = ensemble.servers.filter((server) => !isOff(modeOf(server, current))).length;
  const all = ensemble.servers.length;
  const site = ensemble.servers.find((server) => server.id === ensemble.leader)?.site;
  const leads =
    ensemble.leader === null ? "There is no leader" : `Server ${ensemble.leader}${site ? ` (${site})` : ""} leads epoch ${ensemble.epoch}`;
  setText(byId("leader-text"), `${leads}. The oracle is ${ensemble.oracle.name}.`);
  byId("leader-text").classList.toggle("bad", ensemble.leader === null);
  const sum = totals();
  setText(byId("fact-servers"), `${alive} of ${all}`);
  setText(byId("fact-writes"), perSecond(sum.writes.rate));
  setText(byId("fact-latency"), ms(sum.writes.mean_ms));
  setText(byId("fact-reads"), perSecond(sum.reads.rate));
  setText(byId("fact-sessions"), number(current.clients.sessions));
  setText(byId("fact-connections"), number(sum.connections));
  setText(byId("fact-watches"), number(sum.watches));
  setText(byId("fact-nodes"), number(current.clients.nodes));
  setText(byId("fact-data"), bytes(current.clients.data_bytes));
  setText(byId("fact-ephemerals"), number(current.clients.ephemerals));
}

function drawLinks(all) {
  const table = byId("links");
  if (linkColumns !== ids().join()) {
    linkColumns = ids().join();
    const head = ["from", ...ids().map((id) => `to ${id}`)];
    table.tHead.replaceChildren(el("tr", {}, ...head.map((text, at) => el("th", { scope: "col", class: at ? "number" : null }, text))));
    table.tBodies[0].replaceChildren();
    links = new Rows(table.tBodies[0], [
      { head: true, cell: (server) => (server.alive ? `${server.id}` : `${server.id} (down)`) },
      ...ids().map((id) => ({
        number: true,
        cell: (server, td) => {
          const bandwidth = server.bandwidth_mbit[id];
          td.title = bandwidth ? `${number(bandwidth)} Mbit/s in the last bulk transfer` : "";
          return server.id === id ? "" : ms(server.rtt_ms[id] ?? null);
        },
      })),
    ]);
  }
  links.update(all, (server) => server.id);
}

export function drawCharts() {
  const { history } = state;
  const times = history.map((point) => point.at);
  const marks = leaderMarks(history);
  const pick = (kind, figure) => history.map((point) => point[kind]?.[figure] ?? null);
  const { writes, reads, servers: measured } = totals();
  const of = state.capabilities.server === null ? `all ${measured} servers` : `server ${state.capabilities.server}`;
  latency.draw(
    times,
    [
      { name: "mean", class: "series-0", width: 2.4, values: pick("writes", "mean_ms") },
      { name: "p99", class: "series-1", dash: "6 3", values: pick("writes", "p99_ms") },
      { name: "reads", class: "series-2", dash: "2 3", values: pick("reads", "mean_ms") },
    ],
    marks,
    `Clients of ${of}: ${latencyText(writes, reads)}.`,
  );
  throughput.draw(
    times,
    [
      { name: "writes", class: "series-0", width: 2.4, values: pick("writes", "rate") },
      { name: "reads", class: "series-2", dash: "2 3", values: pick("reads", "rate") },
    ],
    marks,
    `Clients of ${of}: ${figure(writes.rate)} writes and ${figure(reads.rate)} reads a second.`,
  );
}

function latencyText(writes, reads) {
  const known = [];
  if (writes.mean_ms !== null) known.push(`writes take ${ms(writes.mean_ms)} on average and ${ms(writes.p99_ms)} at the 99th percentile`);
  if (reads.mean_ms !== null) known.push(known.length ? `reads ${ms(reads.mean_ms)}` : `reads take ${ms(reads.mean_ms)} on average`);
  return known.join(", ") || "no requests in the last second";
}

export function drawConnection() {
  const old = state.snapshots.size ? age() : null;
  const [text, kind] =
    old === null
      ? ["connecting", "wait"]
      : !state.connected
        ? [`disconnected; trying again. The data is ${duration(old)} old`, "bad"]
        : old > 4000
          ? [`no news for ${duration(old)}`, "bad"]
          : ["live", "good"];
  const element = byId("connection");
  setText(element, text);
  element.className = `connection ${kind}`;
}
