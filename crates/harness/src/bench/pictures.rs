//! The rows `curve` and `arrivals` as pictures: medians over the number of writers, or over the rate. Both axes are
//! logarithmic.

use pole_chart::{Axes, Panel, Series, stacked};

use super::Samples;
use super::metric::Metric;
use super::report::Summary;
use crate::ensemble::Product;

/// The pictures of what was measured, by file name.
pub(super) fn all(samples: &Samples) -> Vec<(&'static str, String)> {
    let writers = "writers, one outstanding write each";
    let rates = "writes that arrive a second";
    let pictures = [
        (
            "curve-writers.svg",
            "Writers with one write at a time",
            vec![
                panel(samples, "Latency", writers, &[("p50", curve_p50), ("p99", curve_p99)]),
                panel(samples, "CPU of three servers for a write", writers, &[("", curve_cpu)]),
            ],
        ),
        (
            "curve-arrivals.svg",
            "Writes that arrive at a rate",
            vec![
                panel(samples, "Latency", rates, &[("p50", arrivals_p50), ("p99", arrivals_p99)]),
                panel(samples, "CPU of three servers for a write", rates, &[("", arrivals_cpu)]),
            ],
        ),
    ];
    let drawn = pictures.into_iter().filter_map(|(file, title, panels)| {
        let panels: Vec<Panel> = panels.into_iter().flatten().collect();
        (!panels.is_empty()).then(|| (file, stacked(title, &panels)))
    });
    drawn.collect()
}

/// The place of a metric on the x axis, if it belongs to a line.
type Place = fn(Metric) -> Option<u16>;

fn panel(samples: &Samples, heading: &str, x: &str, lines: &[(&str, Place)]) -> Option<Panel> {
    let mut series = Vec::new();
    let mut unit = "";
    for (name, place) in lines {
        for product in [Product::Pole, Product::Apache] {
            let of_product = samples.iter().filter(|((_, of), _)| *of == product);
            let points: Vec<(f64, f64)> = of_product
                .filter_map(|((metric, _), values)| {
                    let x = place(*metric)?;
                    unit = metric.unit();
                    Some((f64::from(x), Summary::of(values)?.median()))
                })
                .collect();
            if !points.is_empty() {
                let name = if name.is_empty() { product.to_string() } else { format!("{product}, {name}") };
                series.push(Series::new(name, points));
            }
        }
    }
    (!series.is_empty()).then(|| Panel::logarithmic_lines(heading, Axes { x, y: unit, events: &[] }, &series))
}

fn curve_p50(metric: Metric) -> Option<u16> {
    if let Metric::CurveP50(writers) = metric { Some(writers) } else { None }
}

fn curve_p99(metric: Metric) -> Option<u16> {
    if let Metric::CurveP99(writers) = metric { Some(writers) } else { None }
}

fn curve_cpu(metric: Metric) -> Option<u16> {
    if let Metric::CurveCpu(writers) = metric { Some(writers) } else { None }
}

fn arrivals_p50(metric: Metric) -> Option<u16> {
    if let Metric::ArrivalsP50(rate) = metric { Some(rate) } else { None }
}

fn arrivals_p99(metric: Metric) -> Option<u16> {
    if let Metric::ArrivalsP99(rate) = metric { Some(rate) } else { None }
}

fn arrivals_cpu(metric: Metric) -> Option<u16> {
    if let Metric::ArrivalsCpu(rate) = metric { Some(rate) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_line_for_each_product_and_is_left_out_if_nothing_was_measured() {
        let mut samples = Samples::new();
        for (writers, ms) in [(1, 0.5), (30, 2.0)] {
            samples.insert((Metric::CurveP50(writers), Product::Apache), vec![ms, ms, 9.0]);
            samples.insert((Metric::CurveP50(writers), Product::Pole), vec![ms / 2.0]);
        }
        let pictures = all(&samples);
        let [(file, svg)] = &pictures[..] else { panic!("{pictures:?}") };
        assert_eq!(*file, "curve-writers.svg");
        assert!(svg.contains("Pole, p50") && svg.contains("Apache, p50") && !svg.contains("p99"), "{svg}");
    }
}
