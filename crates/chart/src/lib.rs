//! Charts as SVG: bars, lines, points. For the reports of the lab and for the benchmark's curves.
//!
//! We write our own SVG instead of using a plotting library because a chart has to follow the reader's light or dark
//! theme, shrink to a phone with legible text, be readable without colours, and be the same bytes on every machine.
//! Libraries write fixed colours, fixed pixels and measured fonts into every element.
//!
//! - The SVG is the same inside a page and as a separate file.
//! - It is 340 units wide with a font size of 13, so that text is at least 12 pixels high on a phone of 360 pixels.
//! - Colours come from a palette for colour-blind readers (Okabe and Ito), and lines differ in dash and mark as well,
//!   so that nothing is lost in black and white. The theme is the reader's.
//!
//! ```
//! use pole_chart::{Axes, Series, lines};
//!
//! let times = Series::new("Pole", vec![(3.0, 0.5), (5.0, 0.7)]);
//! let svg = lines("Latency", Axes { x: "servers", y: "ms", events: &[] }, &[times]);
//! assert!(svg.starts_with("<svg"));
//! ```
//!
//! All text is escaped, and the same input gives the same bytes.

mod escape;
mod scale;

use std::fmt::Write as _;

pub use escape::escaped;

use scale::Scale;

/// A named sequence of points, in the order of x.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The points as (x, y).
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Creates a series.
    #[must_use]
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points }
    }
}

/// A group of bars.
#[derive(Clone, Debug)]
pub struct Group {
    /// The label under the group; may have several lines.
    pub name: String,
    /// One bar for each name of the legend.
    pub bars: Vec<f64>,
    /// The label over each bar; may be empty.
    pub labels: Vec<String>,
    /// The position of a dashed line across the group, for a mean.
    pub mark: Option<f64>,
}

/// The labels of the axes.
#[derive(Clone, Copy, Debug)]
pub struct Axes<'a> {
    /// The label under the chart.
    pub x: &'a str,
    /// The label over the left edge.
    pub y: &'a str,
    /// Vertical lines with labels: a crash, a move.
    pub events: &'a [(f64, &'a str)],
}

/// A chart with one line with marks per series.
#[must_use]
pub fn lines(title: &str, axes: Axes<'_>, series: &[Series]) -> String {
    Panel::lines("", axes, series).svg(title)
}

/// Like [`lines`], with both axes logarithmic: what grows in proportion is a straight line, whatever its size.
#[must_use]
pub fn logarithmic_lines(title: &str, axes: Axes<'_>, series: &[Series]) -> String {
    Panel::logarithmic_lines("", axes, series).svg(title)
}

/// A chart of points without lines, with one kind of mark per series.
#[must_use]
pub fn points(title: &str, axes: Axes<'_>, series: &[Series]) -> String {
    Panel::points("", axes, series).svg(title)
}

/// A chart of grouped bars; `names` is the legend, with one name per bar of a group.
#[must_use]
pub fn bars(title: &str, y: &str, names: &[&str], groups: &[Group]) -> String {
    Panel::bars("", y, names, groups).svg(title)
}

/// A figure of several charts, one above the other.
#[must_use]
pub fn stacked(title: &str, panels: &[Panel]) -> String {
    let mut body = String::new();
    let mut top = 0.0;
    for panel in panels {
        let _ = write!(body, "<g transform=\"translate(0 {})\">{}</g>", short(top), panel.body);
        top += panel.height;
    }
    svg_element(title, top, &body)
}

/// One chart, without the enclosing SVG element.
#[derive(Clone, Debug)]
pub struct Panel {
    height: f64,
    body: String,
}

impl Panel {
    /// See [`lines`]; with a heading above.
    #[must_use]
    pub fn lines(heading: &str, axes: Axes<'_>, series: &[Series]) -> Self {
        Self::plot(heading, axes, series, true, Self::linear)
    }

    /// See [`logarithmic_lines`]; with a heading above.
    #[must_use]
    pub fn logarithmic_lines(heading: &str, axes: Axes<'_>, series: &[Series]) -> Self {
        Self::plot(heading, axes, series, true, |all, top| {
            let x = Scale::logarithmic(all.iter().map(|(x, _)| *x), LEFT, RIGHT);
            (x, Scale::logarithmic(all.iter().map(|(_, y)| *y), top + PLOT, top))
        })
    }

    /// See [`points`]; with a heading above.
    #[must_use]
    pub fn points(heading: &str, axes: Axes<'_>, series: &[Series]) -> Self {
        Self::plot(heading, axes, series, false, Self::linear)
    }

    /// The scales of x and y for these points, with the upper end of the plot area.
    fn linear(all: &[(f64, f64)], top: f64) -> (Scale, Scale) {
        let x = Scale::round(all.iter().map(|(x, _)| *x), false, LEFT, RIGHT, 5);
        (x, Scale::round(all.iter().map(|(_, y)| *y), true, top + PLOT, top, 5))
    }

    fn plot(
        heading: &str,
        axes: Axes<'_>,
        series: &[Series],
        joined: bool,
        scales: impl FnOnce(&[(f64, f64)], f64) -> (Scale, Scale),
    ) -> Self {
        let mut panel = Self::with_heading(heading, axes.y);
        let top = panel.height;
        let all: Vec<_> = series.iter().flat_map(|series| series.points.iter().copied()).collect();
        let (x, y) = scales(&all, top);
        panel.draw_axes(Some(&x), &y, axes.x, top);
        for (at, word) in axes.events {
            let at = short(x.at(*at));
            let (low, word) = (short(top + PLOT), escaped(word));
            let _ = write!(panel.body, "<path class=\"event\" d=\"M{at} {}V{low}\"/>", short(top));
            let _ = write!(panel.body, "<text x=\"{at}\" y=\"{}\" dx=\"4\">{word}</text>", short(top + 12.0));
        }
        for (index, series) in series.iter().enumerate() {
            let places: Vec<_> = series.points.iter().map(|(vx, vy)| (x.at(*vx), y.at(*vy))).collect();
            if joined && places.len() > 1 {
                let _ = write!(panel.body, "<path class=\"line s{index}\" d=\"{}\"/>", path(&places));
            }
            // Marks on all of many points would hide the line.
            let every = if joined { (places.len() / 12).max(1) } else { 1 };
            for (px, py) in places.iter().step_by(every) {
                panel.body += &mark(index, *px, *py);
            }
        }
        let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
        panel.draw_legend(&names, |index, x, y| {
            let line = if joined {
                format!("<path class=\"line s{index}\" d=\"M{} {}h20\"/>", short(x), short(y))
            } else {
                String::new()
            };
            line + &mark(index, x + 10.0, y)
        });
        panel
    }

    /// See [`bars`]; with a heading above.
    #[must_use]
    pub fn bars(heading: &str, y_label: &str, names: &[&str], groups: &[Group]) -> Self {
        let mut panel = Self::with_heading(heading, y_label);
        let top = panel.height;
        let values = groups.iter().flat_map(|group| group.bars.iter().copied().chain(group.mark));
        let y = Scale::round(values, true, top + PLOT, top, 5);
        panel.draw_axes(None, &y, "", top);
        let room = (RIGHT - LEFT) / groups.len().max(1) as f64;
        for (at, group) in groups.iter().enumerate() {
            let from = LEFT + room * at as f64;
            panel.draw_group(group, from, room, &y, top);
        }
        let lines = groups.iter().map(|group| group.name.lines().count()).max().unwrap_or(1);
        panel.height += 15.0 * lines.saturating_sub(1) as f64;
        panel.draw_legend(names, |index, x, y| {
            format!(
                "<rect class=\"bar s{index}\" x=\"{}\" y=\"{}\" width=\"14\" height=\"10\"/>",
                short(x + 3.0),
                short(y - 5.0)
            )
        });
        panel
    }

    fn draw_group(&mut self, group: &Group, from: f64, room: f64, y: &Scale, top: f64) {
        let width = (room * 0.8 / group.bars.len().max(1) as f64).min(40.0);
        let left = from + (room - width * group.bars.len() as f64) / 2.0;
        let floor = top + PLOT;
        for (index, value) in group.bars.iter().enumerate() {
            let (x, high) = (left + width * index as f64, y.at(*value));
            let _ = write!(
                self.body,
                "<rect class=\"bar s{index}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                short(x + 0.5),
                short(high),
                short(width - 1.0),
                short(floor - high)
            );
            if let Some(word) = group.labels.get(index).filter(|word| !word.is_empty()) {
                let (x, y) = (short(x + width / 2.0), short(high - 3.0));
                let _ = write!(self.body, "<text class=\"middle\" x=\"{x}\" y=\"{y}\">{}</text>", escaped(word));
            }
        }
        if let Some(mark) = group.mark {
            let _ = write!(
                self.body,
                "<path class=\"mean\" d=\"M{} {}h{}\"/>",
                short(from + 2.0),
                short(y.at(mark)),
                short(room - 4.0)
            );
        }
        for (line, word) in group.name.lines().enumerate() {
            let (x, y) = (short(from + room / 2.0), short(floor + 16.0 + 15.0 * line as f64));
            let _ = write!(self.body, "<text class=\"middle\" x=\"{x}\" y=\"{y}\">{}</text>", escaped(word));
        }
    }

    /// The chart as a complete SVG.
    #[must_use]
    pub fn svg(&self, title: &str) -> String {
        svg_element(title, self.height, &self.body)
    }

    fn with_heading(heading: &str, y_label: &str) -> Self {
        let mut panel = Self { height: 16.0, body: String::new() };
        if !heading.is_empty() {
            let _ = write!(
                panel.body,
                "<text class=\"heading\" x=\"2\" y=\"{}\">{}</text>",
                short(panel.height),
                escaped(heading)
            );
            panel.height += 20.0;
        }
        let _ = write!(panel.body, "<text x=\"2\" y=\"{}\">{}</text>", short(panel.height), escaped(y_label));
        panel.height += 12.0;
        panel
    }

    fn draw_axes(&mut self, x: Option<&Scale>, y: &Scale, x_label: &str, top: f64) {
        let floor = top + PLOT;
        for tick in &y.ticks {
            let at = short(y.at(*tick));
            let _ = write!(self.body, "<path class=\"grid\" d=\"M{LEFT} {at}H{RIGHT}\"/>");
            let label = y.label(*tick);
            let _ = write!(self.body, "<text class=\"end\" x=\"{}\" y=\"{at}\" dy=\"4\">{label}</text>", LEFT - 5.0);
        }
        for tick in x.iter().flat_map(|x| &x.ticks) {
            let Some(x) = x else { continue };
            let at = short(x.at(*tick));
            let _ = write!(self.body, "<path class=\"grid\" d=\"M{at} {}v5\"/>", short(floor));
            let _ = write!(
                self.body,
                "<text class=\"middle\" x=\"{at}\" y=\"{}\">{}</text>",
                short(floor + 18.0),
                x.label(*tick)
            );
        }
        let _ = write!(self.body, "<path class=\"axis\" d=\"M{LEFT} {}H{RIGHT}\"/>", short(floor));
        self.height = floor + 24.0;
        if !x_label.is_empty() {
            let at = short((LEFT + RIGHT) / 2.0);
            let _ = write!(
                self.body,
                "<text class=\"middle\" x=\"{at}\" y=\"{}\">{}</text>",
                short(floor + 34.0),
                escaped(x_label)
            );
            self.height += 16.0;
        }
    }

    /// Draws the legend in two columns, or in one if a name is too long.
    fn draw_legend(&mut self, names: &[&str], sign: impl Fn(usize, f64, f64) -> String) {
        let columns = if names.iter().any(|name| name.chars().count() > 19) { 1 } else { 2 };
        for (index, name) in names.iter().enumerate() {
            let x = 6.0 + (index % columns) as f64 * WIDTH / 2.0;
            let y = self.height + 12.0 + (index / columns) as f64 * 18.0;
            self.body += &sign(index, x, y - 4.0);
            let _ = write!(self.body, "<text x=\"{}\" y=\"{}\">{}</text>", short(x + 26.0), short(y), escaped(name));
        }
        self.height += 18.0 * names.len().div_ceil(columns) as f64 + 6.0;
    }
}

fn svg_element(title: &str, height: f64, body: &str) -> String {
    let (title, height) = (escaped(title), short(height));
    format!(
        "<svg xmlns=\"{SVG}\" class=\"chart\" role=\"img\" viewBox=\"0 0 {WIDTH} {height}\">\
         <title>{title}</title><style>{STYLE}</style>{body}</svg>"
    )
}

fn path(places: &[(f64, f64)]) -> String {
    let steps = places
        .iter()
        .enumerate()
        .map(|(n, (x, y))| format!("{}{} {}", if n == 0 { "M" } else { "L" }, short(*x), short(*y)));
    steps.collect()
}

/// The mark of a series: a distinct shape for each, so that colours are not needed.
fn mark(index: usize, x: f64, y: f64) -> String {
    let (sx, sy) = (short(x), short(y));
    let drawn = |d: &str| format!("<path class=\"mark s{index}\" d=\"M{sx} {sy}{d}\"/>");
    match index % 9 {
        0 => format!("<circle class=\"mark s{index}\" cx=\"{sx}\" cy=\"{sy}\" r=\"3.2\"/>"),
        1 => drawn("m-3 -3h6v6h-6z"),
        2 => drawn("m0 -4l4 7h-8z"),
        3 => drawn("m0 -4.2l4.2 4.2l-4.2 4.2l-4.2 -4.2z"),
        4 => drawn("m0 4l4 -7h-8z"),
        5 => drawn("m-3.5 -3.5l7 7m0 -7l-7 7"),
        6 => drawn("m-4 0h8m-4 -4v8"),
        7 => drawn("m-1.5 -4h3v8h-3z"),
        _ => drawn("m-4 -1.5h8v3h-8z"),
    }
}

/// Formats a coordinate with at most one decimal.
fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The XML namespace of SVG; nothing is fetched from there.
const SVG: &str = "http://www.w3.org/2000/svg";

const WIDTH: f64 = 340.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = 320.0;
/// The height of the plot area.
const PLOT: f64 = 190.0;

/// Inside a page these rules are combined with those of the page, so they select only parts of charts.
const STYLE: &str = "\
.chart{--ink:#1b1f24;--grid:#d5dae1;--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b0508a;--c4:#b87a00;--c5:#3d9bd4;--c6:#4d4d4d;--c7:#7a6a00;--c8:#8c2d04}\
@media(prefers-color-scheme:dark){.chart{--ink:#e6e9ee;--grid:#343b45;--c0:#56b4e9;--c1:#ff8a3d;--c2:#35c398;--c3:#e39bc4;--c4:#f0b429;--c5:#9ad1f5;--c6:#c4c4c4;--c7:#d9cf4a;--c8:#ffb199}}\
@media print{.chart{--ink:#000;--grid:#bbb;--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b0508a;--c4:#b87a00;--c5:#3d9bd4;--c6:#4d4d4d;--c7:#7a6a00;--c8:#8c2d04}}\
.chart text{font:13px system-ui,sans-serif;fill:var(--ink)}.chart .heading{font-weight:600}\
.chart .middle{text-anchor:middle}.chart .end{text-anchor:end}\
.chart path{fill:none}.chart .grid{stroke:var(--grid)}.chart .axis,.chart .event{stroke:var(--ink)}.chart .event{stroke-dasharray:2 3}\
.chart .mean{stroke:var(--ink);stroke-width:1.6;stroke-dasharray:6 3}\
.chart .line{stroke-width:1.8;stroke-linejoin:round}.chart .mark{stroke-width:1.4}\
.chart .s0{stroke:var(--c0);fill:var(--c0)}.chart .s1{stroke:var(--c1);fill:var(--c1)}.chart .s2{stroke:var(--c2);fill:var(--c2)}\
.chart .s3{stroke:var(--c3);fill:var(--c3)}.chart .s4{stroke:var(--c4);fill:var(--c4)}.chart .s5{stroke:var(--c5);fill:var(--c5)}\
.chart .s6{stroke:var(--c6);fill:var(--c6)}.chart .s7{stroke:var(--c7);fill:var(--c7)}.chart .s8{stroke:var(--c8);fill:var(--c8)}\
.chart .line{fill:none}.chart .bar{stroke:none}\
.chart .line.s1{stroke-dasharray:7 3}.chart .line.s2{stroke-dasharray:2 3}.chart .line.s3{stroke-dasharray:9 3 2 3}\
.chart .line.s4{stroke-dasharray:4 4}.chart .line.s5{stroke-dasharray:12 4}.chart .line.s6{stroke-dasharray:1 4}\
.chart .line.s7{stroke-dasharray:6 2 1 2 1 2}.chart .line.s8{stroke-dasharray:3 2}";

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Axes<'static> {
        Axes { x: "p", y: "ms", events: &[(0.5, "crash & more")] }
    }

    #[test]
    fn every_series_and_every_bar_is_drawn_and_named() {
        let series = [Series::new("a<b", vec![(0.0, 1.0), (1.0, 2.0)]), Series::new("c", vec![(0.0, 3.0), (1.0, 1.0)])];
        let svg = lines("t", axes(), &series);
        assert!(svg.contains("line s0") && svg.contains("line s1") && svg.contains("a&lt;b"), "{svg}");
        assert!(svg.contains("crash &amp; more"), "{svg}");
        let groups = [Group {
            name: "p4\nD1".into(),
            bars: vec![1.0, 2.0],
            labels: vec![String::new(), "2".into()],
            mark: Some(1.5),
        }];
        let svg = bars("t", "ms", &["D1", "D2"], &groups);
        assert_eq!(svg.matches("class=\"bar s1\"").count(), 2, "the bar and the legend: {svg}");
        assert!(svg.contains("class=\"mean\"") && svg.contains(">p4</text>") && svg.contains(">D1</text>"), "{svg}");
    }

    #[test]
    fn no_value_is_drawn_outside_of_the_picture() {
        let series = [Series::new("a", (0..50).map(|n| (f64::from(n), f64::from(n * n % 97) * 3.7)).collect())];
        let svg = points("t", axes(), &series);
        let numbers = svg.split("cx=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
        assert!(numbers.into_iter().all(|x| (0.0..=WIDTH).contains(&x)));
    }

    #[test]
    fn a_chart_of_nothing_is_still_a_picture() {
        assert!(lines("t", axes(), &[]).ends_with("</svg>"));
        assert!(bars("t", "ms", &[], &[]).ends_with("</svg>"));
    }
}
