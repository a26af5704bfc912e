// The dashboard: connects to the stream of events, and redraws what an event changes.

import { drawActions } from "./actions.js";
import { byId } from "./dom.js";
import { drawAges, drawElections, setUpElections } from "./elections.js";
import { drawMap } from "./map.js";
import { offerNodes, setUpNodes } from "./nodes.js";
import { drawPrediction, drawRanking, setUpOracles } from "./oracles.js";
import { connect, sample } from "./state.js";
import { drawCharts, drawConnection, drawTables, setUpTables } from "./tables.js";

const SECOND = 1000;

setUpTheme();
setUpTables();
setUpOracles();
setUpElections();
setUpNodes();

byId("map").addEventListener("click", (event) => {
  const id = event.target.closest("[data-server]")?.dataset.server;
  if (id) byId("servers").querySelector(`tr[data-server="${id}"]`)?.focus();
});

// Nothing is sent by a form itself.
byId("token-form").addEventListener("submit", (event) => event.preventDefault());

let isDue = false;
connect((name) => {
  if (name === "capabilities") offerNodes();
  if (name === "elections") {
    drawElections();
    drawAges();
  }
  drawConnection();
  // Several servers report in the same moment: one redraw for all of them.
  if (!isDue) {
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      draw();
    });
  }
});

setInterval(() => {
  sample();
  drawConnection();
  drawAges();
  if (document.hidden) return;
  drawCharts();
  drawPrediction();
}, SECOND);

addEventListener("resize", () => {
  draw();
  drawCharts();
  drawPrediction();
});

function draw() {
  if (document.hidden) return;
  drawMap();
  drawTables();
  drawRanking();
  drawActions();
  document.body.classList.remove("waiting");
}

/** The theme of the system, unless the visitor has chosen the other one. */
function setUpTheme() {
  const button = byId("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = localStorage.getItem("theme");
  const apply = (isDark) => {
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
    button.setAttribute("aria-pressed", String(isDark));
  };
  apply(stored ? stored === "dark" : system.matches);
  system.addEventListener("change", () => localStorage.getItem("theme") ?? apply(system.matches));
  button.addEventListener("click", () => {
    const isDark = document.documentElement.dataset.theme !== "dark";
    localStorage.setItem("theme", isDark ? "dark" : "light");
    apply(isDark);
  });
}
