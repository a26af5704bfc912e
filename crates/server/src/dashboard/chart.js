// A line chart in SVG, with a caption that says the same in words.

import { clock, number, setText, svg } from "./dom.js";

const HEIGHT = 230;
const MARGIN = { left: 48, right: 74, top: 26, bottom: 24 };

export class LineChart {
  /** `figure` holds the chart and ends with a `figcaption`. */
  constructor(figure, unit) {
    this.figure = figure;
    this.unit = unit;
    this.root = svg("svg", { class: "chart", height: HEIGHT, role: "img" });
    this.caption = figure.querySelector("figcaption");
    figure.insertBefore(this.root, this.caption);
  }

  /**
   * Draws series `{name, values, class, dash, width}` over common `times`; a null is a gap. `marks` are changes of the
   * leader, `{at, text}`. Values above `highest` are drawn there.
   */
  draw(times, series, marks, summary, highest = Infinity) {
    // One unit is one pixel, so that text has its size on every screen.
    const width = Math.max(this.figure.clientWidth, 280);
    this.root.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const all = series.flatMap((line) => line.values).filter((value) => value !== null && value !== undefined);
    const { top, steps } = scaleOf(Math.min(Math.max(...all, 0), highest));
    const first = times[0] ?? Date.now();
    const span = Math.max((times[times.length - 1] ?? first) - first, 60_000);
    const x = (at) => MARGIN.left + ((at - first) / span) * (width - MARGIN.left - MARGIN.right);
    const y = (value) => HEIGHT - MARGIN.bottom - (Math.min(value, top) / top) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    const parts = [];
    for (let step = 0; step <= steps; step += 1) {
      const value = (top * step) / steps;
      parts.push(
        svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }),
        svg("text", { class: "tick", x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value)),
      );
    }
    parts.push(svg("text", { class: "tick", x: 2, y: 12 }, this.unit));
    for (const share of [0, 0.5, 1]) {
      const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
      const at = first + span * share;
      parts.push(svg("text", { class: "tick", x: x(at), y: HEIGHT - 6, "text-anchor": anchor }, clock(at)));
    }
    let labelled = -Infinity;
    for (const mark of marks.filter((mark) => mark.at >= first && mark.at <= first + span)) {
      const at = x(mark.at);
      parts.push(svg("line", { class: "mark", x1: at, x2: at, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }));
      // Labels of changes in quick succession would overlap.
      if (at - labelled < 52) continue;
      labelled = at;
      parts.push(svg("text", { class: "tick", x: at + 3, y: MARGIN.top - 4 }, mark.text));
    }
    const labels = [];
    for (const line of series) {
      const path = pathOf(line.values, times, x, y);
      if (!path) continue;
      parts.push(
        svg("path", { d: path, class: `line ${line.class}`, "stroke-dasharray": line.dash || null, "stroke-width": line.width ?? 1.6 }),
      );
      const last = line.values.findLastIndex((value) => value !== null && value !== undefined);
      labels.push({ y: y(line.values[last]), x: x(times[last]) + 5, line });
    }
    for (const { x: left, y: at, line } of spread(labels)) {
      parts.push(svg("text", { class: `label ${line.class}`, x: left, y: at + 4 }, line.name));
    }
    this.root.replaceChildren(...parts);
    this.root.setAttribute("aria-label", summary);
    setText(this.caption, summary);
  }
}

function pathOf(values, times, x, y) {
  let path = "";
  let isDown = false;
  values.forEach((value, index) => {
    if (value === null || value === undefined) {
      isDown = false;
      return;
    }
    path += `${isDown ? "L" : "M"}${x(times[index]).toFixed(1)} ${y(value).toFixed(1)}`;
    isDown = true;
  });
  return path;
}

/** Moves labels apart that would overlap. */
function spread(labels) {
  labels.sort((a, b) => a.y - b.y);
  for (let at = 1; at < labels.length; at += 1) {
    labels[at].y = Math.max(labels[at].y, labels[at - 1].y + 13);
  }
  let limit = HEIGHT - MARGIN.bottom;
  for (let at = labels.length - 1; at >= 0 && labels[at].y > limit; at -= 1) {
    labels[at].y = limit;
    limit -= 13;
  }
  return labels;
}

/** An axis from zero to a little above a value, in at most five steps of 1, 2 or 5 times a power of ten. */
function scaleOf(value) {
  if (value <= 0) return { top: 1, steps: 1 };
  const least = (value * 1.05) / 5;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= least) ?? 10 * power;
  const steps = Math.ceil((value * 1.05) / step);
  return { top: step * steps, steps };
}

/** The moments at which the leader changed, for the marks of a chart. */
export function leaderMarks(history) {
  const marks = [];
  let leader = null;
  for (const point of history) {
    if (point.leader !== null && point.leader !== leader) {
      if (leader !== null) marks.push({ at: point.at, text: `${point.leader} leads` });
      leader = point.leader;
    }
  }
  return marks;
}
