//! The curves as pictures. Both axes are logarithmic: a figure that grows in proportion is a straight line.

use pole_chart::{Axes, Panel, Series, stacked};

use super::table::{Figure, Table};
use super::{Curve, children, servers, sessions, watches, znodes};
use crate::ensemble::Product;

/// The picture of one curve, with one chart for each unit.
pub(super) struct Picture {
    curve: Curve,
    /// The label under its charts.
    x: &'static str,
    charts: &'static [Chart],
}

/// Figures of one unit.
struct Chart {
    heading: &'static str,
    figures: &'static [(Figure, &'static str)],
}

impl Picture {
    pub(super) fn file_name(&self) -> String {
        format!("growth-{}.svg", self.curve.name())
    }

    /// None if nothing was measured.
    pub(super) fn svg(&self, table: &Table) -> Option<String> {
        let panels: Vec<Panel> = self.charts.iter().filter_map(|chart| chart.panel(self, table)).collect();
        (!panels.is_empty()).then(|| stacked(&format!("Growth: {}", self.curve.name()), &panels))
    }
}

impl Chart {
    fn panel(&self, picture: &Picture, table: &Table) -> Option<Panel> {
        let mut series = Vec::new();
        for (figure, name) in self.figures {
            for product in [Product::Pole, Product::Apache] {
                let line = table.line(picture.curve, *figure, product);
                let points: Vec<(f64, f64)> = line.into_iter().map(|(size, value)| (f64::from(size), value)).collect();
                if !points.is_empty() {
                    let name = if name.is_empty() { product.to_string() } else { format!("{product}, {name}") };
                    series.push(Series::new(name, points));
                }
            }
        }
        let (_, unit) = self.figures.first().map(|(figure, _)| (figure.name, figure.unit))?;
        let axes = Axes { x: picture.x, y: unit, events: &[] };
        (!series.is_empty()).then(|| Panel::logarithmic_lines(self.heading, axes, &series))
    }
}

pub(super) const ALL: &[Picture] = &[
    Picture {
        curve: Curve::Znodes,
        x: "znodes of 100 bytes",
        charts: &[
            Chart { heading: "Memory of a server", figures: &[(znodes::MEMORY, "")] },
            Chart { heading: "Data directory of a server", figures: &[(znodes::DIRECTORY, "")] },
            Chart { heading: "Start from disk to the first write", figures: &[(znodes::START, "")] },
            Chart {
                heading: "No write after the leader is lost",
                figures: &[(znodes::KILL, "kill -9"), (znodes::HAND_OVER, "SIGTERM")],
            },
            Chart {
                heading: "Longest write of 500 a second",
                figures: &[
                    (znodes::LONGEST_WRITE_SNAPSHOT, "snapshots"),
                    (znodes::LONGEST_WRITE_JOIN, "a server joins"),
                ],
            },
        ],
    },
    Picture {
        curve: Curve::Sessions,
        x: "sessions",
        charts: &[
            Chart { heading: "Memory of a server", figures: &[(sessions::MEMORY, "")] },
            Chart { heading: "All sessions connected", figures: &[(sessions::CONNECT, "")] },
            Chart { heading: "CPU of three servers under pings", figures: &[(sessions::CPU, "")] },
            Chart {
                heading: "The leader is killed",
                figures: &[(sessions::NO_WRITE, "no write"), (sessions::LONGEST_WRITE, "longest write")],
            },
        ],
    },
    Picture {
        curve: Curve::Watches,
        x: "watches",
        charts: &[
            Chart { heading: "Memory of a server", figures: &[(watches::MEMORY, "")] },
            Chart {
                heading: "One transaction fires 100,000",
                figures: &[(watches::ARRIVED, "all arrived"), (watches::LONGEST_WRITE_FIRED, "longest write")],
            },
        ],
    },
    Picture {
        curve: Curve::Children,
        x: "children of one znode",
        charts: &[
            Chart { heading: "Creates a second", figures: &[(children::CREATE_RATE, "")] },
            Chart { heading: "getChildren", figures: &[(children::LIST, "")] },
        ],
    },
    Picture {
        curve: Curve::Servers,
        x: "servers",
        charts: &[
            Chart { heading: "Writes a second", figures: &[(servers::RATE, "")] },
            Chart {
                heading: "Latency",
                figures: &[(servers::P50, "under load"), (servers::LONE_P50, "one at a time")],
            },
            Chart { heading: "CPU of all servers for a write", figures: &[(servers::CPU, "")] },
        ],
    },
];
