// What is known of the ensemble: the newest snapshot of each server, and a history of figures.
//
// A server sends its own snapshots only. `pole up` sends those of all its servers. Either way the view of the leader
// counts, or of the server with the newest epoch if the leader is silent.

const HISTORY = 300;
const FRESH_MS = 4000;

export const state = {
  capabilities: { actions: [], nodes: false, server: null },
  snapshots: new Map(),
  elections: [],
  up: null,
  history: [],
  connected: false,
};

/**
 * Connects to the stream of events and calls `changed` with the name of each event.
 *
 * A browser opens six connections to a port, and keeps pages that were left for a while. So a page that is left gives its
 * stream up; otherwise the seventh visit would wait for the first.
 */
export function connect(changed) {
  let source = open(changed);
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => {
    if (event.persisted) source = open(changed);
  });
}

function open(changed) {
  const source = new EventSource("/v1/events");
  const listen = (name, take) =>
    source.addEventListener(name, (event) => {
      state.connected = true;
      take(JSON.parse(event.data));
      changed(name);
    });
  listen("capabilities", (data) => (state.capabilities = data));
  listen("snapshot", (data) => state.snapshots.set(data.health.id, { ...data, received: performance.now() }));
  listen("elections", (data) => (state.elections = data));
  listen("up", (data) => (state.up = data));
  source.addEventListener("error", () => {
    state.connected = false;
    changed("connection");
  });
  return source;
}

/** The snapshots that are not stale, by id. */
export function fresh() {
  const now = performance.now();
  const isUp = ({ health }) => (state.up?.servers.find((server) => server.id === health.id)?.state ?? "running") === "running";
  const all = [...state.snapshots.values()].filter((snapshot) => now - snapshot.received < FRESH_MS && isUp(snapshot));
  return all.sort((a, b) => a.health.id - b.health.id);
}

/** The snapshot whose view of the ensemble counts. */
export function view() {
  const rank = (snapshot) =>
    (snapshot.health.quorum ? 1e6 : 0) + snapshot.health.epoch * 10 + (snapshot.health.leader === snapshot.health.id ? 1 : 0);
  const candidates = fresh().sort((a, b) => rank(b) - rank(a));
  return candidates[0] ?? [...state.snapshots.values()].sort((a, b) => b.received - a.received)[0];
}

export const ids = () => view()?.ensemble.servers.map((server) => server.id) ?? [];

/** How old the newest snapshot is, in milliseconds. */
export function age() {
  const newest = Math.max(...[...state.snapshots.values()].map((snapshot) => snapshot.received));
  return performance.now() - newest;
}

/** The figures of all servers together. Means are weighted by the number of requests. */
export function totals() {
  const snapshots = fresh().filter((snapshot) => snapshot.interval_ms > 0);
  const sum = (pick) => snapshots.reduce((all, snapshot) => all + (pick(snapshot) ?? 0), 0);
  const mean = (kind) => {
    const rate = sum((snapshot) => (snapshot[kind].mean_ms === null ? 0 : snapshot[kind].rate));
    return rate > 0 ? sum((snapshot) => snapshot[kind].rate * (snapshot[kind].mean_ms ?? 0)) / rate : null;
  };
  const worst = (kind) => {
    const known = snapshots.map((snapshot) => snapshot[kind].p99_ms).filter((value) => value !== null);
    return known.length ? Math.max(...known) : null;
  };
  return {
    servers: snapshots.length,
    writes: { rate: sum((s) => s.writes.rate), mean_ms: mean("writes"), p99_ms: worst("writes") },
    reads: { rate: sum((s) => s.reads.rate), mean_ms: mean("reads"), p99_ms: worst("reads") },
    connections: sum((s) => s.clients.connections),
    watches: sum((s) => s.clients.watches),
  };
}

/** Adds the present figures to the history. Called once a second. */
export function sample() {
  const current = view();
  if (!current) return;
  const all = totals();
  const predicted = {};
  for (const [name, oracle] of Object.entries(current.scores.oracles)) {
    if (oracle.unit !== "ms") continue;
    predicted[name] = Object.fromEntries(
      Object.entries(oracle.servers).map(([id, server]) => [id, server.known ? server.score : null]),
    );
  }
  const isStale = age() > FRESH_MS;
  state.history.push({
    at: Date.now(),
    leader: isStale ? null : current.ensemble.leader,
    predicted,
    writes: isStale ? null : all.writes,
    reads: isStale ? null : all.reads,
  });
  if (state.history.length > HISTORY) state.history.shift();
}
