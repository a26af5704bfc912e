// The map: sites at distances that follow their round trips, servers in them, links between them.

import { byId, figure, ms, svg } from "./dom.js";
import { fresh, state, view } from "./state.js";

const HEIGHT = 400;
const BOX = { height: 140, above: 62 };

let layout = { key: "", places: new Map() };

export function drawMap() {
  const current = view();
  if (!current) return;
  const sites = sitesOf(current.ensemble.servers);
  const links = linksOf(sites);
  const root = byId("map");
  // One unit is one pixel, so that text has its size on every screen.
  const width = Math.max(root.parentElement.clientWidth - 30, 300);
  root.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const places = placesOf(sites, links, width);
  const parts = [];
  for (const link of links) parts.push(drawLink(link, places));
  for (const site of sites) parts.push(drawSite(site, places.get(site.name), current));
  for (const link of links) parts.push(...drawLinkLabel(link, places));
  root.replaceChildren(...parts);
  root.setAttribute("aria-label", describe(sites, links, current));
}

/** Servers by site. A server without a site stands alone. */
function sitesOf(servers) {
  const sites = new Map();
  for (const server of servers) {
    const name = server.site ?? `server ${server.id}`;
    if (!sites.has(name)) sites.set(name, { name, servers: [] });
    sites.get(name).servers.push(server);
  }
  return [...sites.values()].sort((a, b) => a.name.localeCompare(b.name));
}

/** One link for each pair of sites, with the median of the round trips that their servers measured. */
function linksOf(sites) {
  const links = [];
  sites.forEach((a, index) => {
    for (const b of sites.slice(index + 1)) {
      const trips = [];
      for (const one of a.servers) {
        for (const other of b.servers) {
          trips.push(one.rtt_ms[other.id], other.rtt_ms[one.id]);
        }
      }
      const known = trips.filter((trip) => trip !== undefined).sort((x, y) => x - y);
      const given = state.up?.links.find((link) => isBetween(link, a.name, b.name));
      links.push({ a: a.name, b: b.name, rtt: known[known.length >> 1] ?? null, isCut: given?.cut ?? false });
    }
  });
  return links;
}

const isBetween = (link, a, b) => (link.a === a && link.b === b) || (link.a === b && link.b === a);

/** Places sites so that longer round trips are longer lines. Computed anew only if they differ much. */
function placesOf(sites, links, width) {
  const key = width + sites.map((site) => site.name).join() + links.map((link) => Math.round(Math.log2((link.rtt ?? 1) + 1))).join();
  if (key === layout.key) return layout.places;
  const points = sites.map((site, index) => {
    const angle = (2 * Math.PI * index) / sites.length - Math.PI / 2;
    return { x: Math.cos(angle), y: Math.sin(angle) };
  });
  const wanted = links.map((link) => ({
    from: sites.findIndex((site) => site.name === link.a),
    to: sites.findIndex((site) => site.name === link.b),
    length: Math.log2((link.rtt ?? 1) + 2) + 1.5,
  }));
  const longest = Math.max(...wanted.map((link) => link.length), 1);
  for (let round = 0; round < 400; round += 1) {
    for (const { from, to, length } of wanted) {
      const [a, b] = [points[from], points[to]];
      const [dx, dy] = [b.x - a.x, b.y - a.y];
      const distance = Math.hypot(dx, dy) || 0.001;
      const move = (0.05 * (distance - (2 * length) / longest)) / distance;
      a.x += dx * move;
      a.y += dy * move;
      b.x -= dx * move;
      b.y -= dy * move;
    }
  }
  const range = (pick) => [Math.min(...points.map(pick)), Math.max(...points.map(pick))];
  const [left, right] = range((point) => point.x);
  const [top, bottom] = range((point) => point.y);
  const scale = (value, low, high, from, to) => (high - low < 0.01 ? (from + to) / 2 : from + ((value - low) / (high - low)) * (to - from));
  const boxes = sites.map((site, index) => {
    const half = boxWidth(site) / 2 + 4;
    return {
      x: scale(points[index].x, left, right, half, width - half),
      y: scale(points[index].y, top, bottom, BOX.above + 4, HEIGHT - (BOX.height - BOX.above) - 4),
      half,
    };
  });
  separate(boxes, width);
  const places = new Map(sites.map((site, index) => [site.name, boxes[index]]));
  layout = { key, places };
  return places;
}

const boxWidth = (site) => Math.max(site.servers.length * 76, 92);

/** Moves boxes apart that overlap, within the map. */
function separate(boxes, width) {
  for (let round = 0; round < 60; round += 1) {
    boxes.forEach((a, index) => {
      for (const b of boxes.slice(index + 1)) {
        const across = a.half + b.half + 26 - Math.abs(a.x - b.x);
        const down = BOX.height + 30 - Math.abs(a.y - b.y);
        if (across <= 0 || down <= 0) continue;
        const axis = down * 1.2 < across ? "y" : "x";
        const move = (axis === "y" ? down : across) / 4;
        const sign = a[axis] <= b[axis] ? 1 : -1;
        a[axis] -= sign * move;
        b[axis] += sign * move;
      }
    });
    for (const box of boxes) {
      box.x = Math.min(Math.max(box.x, box.half), width - box.half);
      box.y = Math.min(Math.max(box.y, BOX.above + 4), HEIGHT - (BOX.height - BOX.above) - 4);
    }
  }
}

function drawLink(link, places) {
  const [a, b] = [places.get(link.a), places.get(link.b)];
  return svg("line", { class: link.isCut ? "link cut" : "link", x1: a.x, y1: a.y, x2: b.x, y2: b.y });
}

/** In the middle of what is seen of the line, and above the sites, so that none hides it. */
function drawLinkLabel(link, places) {
  const [a, b] = [places.get(link.a), places.get(link.b)];
  const share = (edge(a, b) + 1 - edge(b, a)) / 2;
  const [x, y] = [a.x + share * (b.x - a.x), a.y + share * (b.y - a.y)];
  const text = link.isCut ? "cut" : ms(link.rtt);
  const width = text.length * 7.2 + 14;
  return [
    svg("rect", { class: "link-label", x: x - width / 2, y: y - 11, width, height: 22, rx: 11 }),
    svg("text", { class: "link-text", x, y: y + 4.5, "text-anchor": "middle" }, text),
  ];
}

/** The share of the way from one site to another at which the line leaves the box of the first. */
function edge(from, to) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const height = dy > 0 ? BOX.height - BOX.above : BOX.above;
  return Math.min(from.half / Math.abs(dx), height / Math.abs(dy), 0.5);
}

function drawSite(site, { x, y }, current) {
  const width = boxWidth(site);
  const group = svg(
    "g",
    { class: "site" },
    svg("rect", { class: "site-box", x: x - width / 2, y: y - BOX.above, width, height: BOX.height, rx: 12 }),
    svg("text", { class: "site-name", x, y: y - 42, "text-anchor": "middle" }, site.name),
  );
  site.servers.forEach((server, index) => {
    group.append(drawServer(server, x + (index - (site.servers.length - 1) / 2) * 72, y, current));
  });
  return group;
}

function drawServer(server, x, y, current) {
  const mode = modeOf(server, current);
  const shape = {
    leader: () => svg("path", { class: "server leader", d: star(x, y, 25, 18) }),
    standalone: () => svg("path", { class: "server leader", d: star(x, y, 25, 18) }),
    looking: () => svg("path", { class: "server looking", d: `M${x} ${y - 22}l22 22l-22 22l-22-22z` }),
    down: () => svg("circle", { class: "server down", cx: x, cy: y, r: 19 }),
    paused: () => svg("rect", { class: "server down", x: x - 18, y: y - 18, width: 36, height: 36, rx: 4 }),
  }[mode];
  const rate = state.snapshots.get(server.id)?.writes.rate ?? server.write_rate;
  const isUp = mode !== "down" && mode !== "paused";
  return svg(
    "g",
    { class: "server-group", "data-server": server.id },
    svg("title", {}, `Server ${server.id}: ${mode}`),
    shape ? shape() : svg("circle", { class: "server follower", cx: x, cy: y, r: 19 }),
    svg("text", { class: "server-id", x, y: y + 5.5, "text-anchor": "middle" }, server.id),
    svg("text", { class: "server-mode", x, y: y + 44, "text-anchor": "middle" }, mode),
    svg("text", { class: "server-rate", x, y: y + 61, "text-anchor": "middle" }, isUp && rate !== null ? `${figure(rate)} w/s` : ""),
  );
}

/** A star with eight points, so that the leader is known by its shape. */
function star(x, y, outer, inner) {
  const points = Array.from({ length: 16 }, (_, at) => {
    const radius = at % 2 ? inner : outer;
    const angle = (Math.PI * at) / 8 - Math.PI / 2;
    return `${(x + radius * Math.cos(angle)).toFixed(1)} ${(y + radius * Math.sin(angle)).toFixed(1)}`;
  });
  return `M${points.join("L")}z`;
}

/** The mode of a server: as `pole up` knows its process, as it says itself, or as the leader sees it. */
export function modeOf(server, current) {
  const process = state.up?.servers.find((other) => other.id === server.id);
  if (process && (process.state === "down" || process.state === "paused")) return process.state;
  const own = fresh().find((snapshot) => snapshot.health.id === server.id);
  if (own) return own.health.mode;
  if (!server.alive && server.id !== current.health.id) return "down";
  return server.mode ?? "down";
}

function describe(sites, links, current) {
  const places = sites.map(
    (site) => `${site.name}: ${site.servers.map((server) => `server ${server.id} (${modeOf(server, current)})`).join(", ")}`,
  );
  const trips = links.map((link) => `${link.a} to ${link.b} ${link.isCut ? "cut" : ms(link.rtt)}`);
  return `Map of the ensemble. ${places.join(". ")}. Round trips: ${trips.join(", ") || "none"}.`;
}
