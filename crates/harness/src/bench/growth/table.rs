//! The figures of all curves, as a file of values, as tables and as pictures, and the goals.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use super::{Curve, pictures, sessions, watches, znodes};
use crate::Failure;
use crate::bench::metric::Goal;
use crate::bench::report::{Summary, figure, machine};
use crate::command::target_dir;
use crate::ensemble::Product;

/// A measured value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
}

impl Figure {
    pub(super) const fn new(name: &'static str, unit: &'static str) -> Self {
        Self { name, unit }
    }
}

/// All values, in the order in which they were measured.
#[derive(Debug)]
pub(super) struct Table {
    samples: Vec<Sample>,
    folder: PathBuf,
}

#[derive(Clone, Debug)]
struct Sample {
    curve: Curve,
    size: u32,
    product: Product,
    figure: Figure,
    /// The value, or why there is none.
    value: Result<f64, String>,
}

/// One product at one size of one curve.
pub(super) struct Point<'a> {
    table: &'a mut Table,
    curve: Curve,
    size: u32,
    product: Product,
}

impl Point<'_> {
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Prints a value and stores it. Several values of one figure are repetitions.
    pub(super) fn record(&mut self, figure: &Figure, value: f64) -> Result<(), Failure> {
        println!("  {:<58} {:>12} {}", figure.name, self::figure(value), figure.unit);
        self.add(*figure, Ok(value))
    }

    /// States why there is no value.
    pub(super) fn note(&mut self, figure: &Figure, why: &str) -> Result<(), Failure> {
        println!("  {:<58} {why}", figure.name);
        self.add(*figure, Err(why.to_owned()))
    }

    /// States that the product does not hold this size.
    pub(super) fn not_held(&mut self, why: &str) -> Result<(), Failure> {
        self.note(&HELD, why)
    }

    fn add(&mut self, figure: Figure, value: Result<f64, String>) -> Result<(), Failure> {
        let Self { curve, size, product, .. } = *self;
        self.table.samples.push(Sample { curve, size, product, figure, value });
        self.table.write("growth.csv", &self.table.csv())
    }
}

impl Table {
    /// An empty table, whose files are in `target/bench`.
    pub(super) fn new() -> Result<Self, Failure> {
        let folder = target_dir().join("bench");
        fs::create_dir_all(&folder).map_err(|why| Failure::io("create", &folder, &why))?;
        Ok(Self { samples: Vec::new(), folder })
    }

    pub(super) fn point(&mut self, curve: Curve, size: u32, product: Product) -> Point<'_> {
        Point { table: self, curve, size, product }
    }

    /// Writes tables and pictures, prints the tables, and returns the number of goals that Pole missed.
    pub(super) fn finish(&self) -> Result<usize, Failure> {
        let (goals, misses) = self.goals();
        let text = format!("{}{goals}\n{}\n", self.markdown(), machine());
        self.write("growth.md", &text)?;
        for picture in pictures::ALL {
            if let Some(svg) = picture.svg(self) {
                self.write(&picture.file_name(), &svg)?;
            }
        }
        println!("\n{text}\nwritten to {}", self.folder.join("growth.csv").display());
        Ok(misses)
    }

    /// The median at each size, in the order of the sizes.
    pub(super) fn line(&self, curve: Curve, figure: Figure, product: Product) -> Vec<(u32, f64)> {
        let median = |size| Some((size, self.summary(curve, size, figure, product)?.median()));
        self.sizes(curve).into_iter().filter_map(median).collect()
    }

    fn sizes(&self, curve: Curve) -> Vec<u32> {
        let mut sizes: Vec<u32> = self.of(curve).map(|sample| sample.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn of(&self, curve: Curve) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.curve == curve)
    }

    fn summary(&self, curve: Curve, size: u32, figure: Figure, product: Product) -> Option<Summary> {
        let is_it = |sample: &&Sample| sample.size == size && sample.figure == figure && sample.product == product;
        let values: Vec<f64> = self.of(curve).filter(is_it).filter_map(|sample| sample.value.clone().ok()).collect();
        Summary::of(&values)
    }

    fn csv(&self) -> String {
        let mut text = "curve,size,product,figure,unit,value,note\n".to_owned();
        for Sample { curve, size, product, figure, value } in &self.samples {
            let (value, note) = match value {
                Ok(value) => (value.to_string(), String::new()),
                Err(why) => (String::new(), quoted(why)),
            };
            let (curve, name, unit) = (curve.name(), quoted(figure.name), figure.unit);
            let _ = writeln!(text, "{curve},{size},{product},{name},{unit},{value},{note}");
        }
        text
    }

    /// A table for each curve, with both products in a cell.
    fn markdown(&self) -> String {
        let mut curves: Vec<Curve> = self.samples.iter().map(|sample| sample.curve).collect();
        curves.sort_unstable();
        curves.dedup();
        curves.into_iter().map(|curve| self.markdown_of(curve)).collect()
    }

    fn markdown_of(&self, curve: Curve) -> String {
        let sizes = self.sizes(curve);
        let mut figures: Vec<Figure> = Vec::new();
        for sample in self.of(curve).filter(|sample| sample.value.is_ok()) {
            if !figures.contains(&sample.figure) {
                figures.push(sample.figure);
            }
        }
        let heads: String = sizes.iter().map(|size| format!(" {} |", thousands(*size))).collect();
        let rule: String = sizes.iter().map(|_| " ---: |").collect();
        let mut text = format!("| {}: Apache / Pole |{heads}\n| --- |{rule}\n", curve.name());
        for found in figures {
            let unit = if found.unit.is_empty() { String::new() } else { format!(" ({})", found.unit) };
            let _ = write!(text, "| {}{unit} |", found.name);
            for size in &sizes {
                let cell = |product| {
                    let summary = self.summary(curve, *size, found, product);
                    summary.map_or_else(|| "–".to_owned(), |summary| figure(summary.median()))
                };
                let _ = write!(text, " {} / {} |", cell(Product::Apache), cell(Product::Pole));
            }
            text += "\n";
        }
        for sample in self.of(curve) {
            if let Err(why) = &sample.value {
                let why = why.lines().next().unwrap_or_default();
                let (size, product, name) = (thousands(sample.size), sample.product, sample.figure.name);
                let _ = write!(text, "\n{product}, {size} {}: {name}: {why}\n", curve.name());
            }
        }
        text + "\n"
    }

    /// The goals that could be judged, as lines, and the number of those that were missed. That Pole does not hold a
    /// size is a miss, too.
    fn goals(&self) -> (String, usize) {
        let (mut text, mut misses) = (String::new(), 0);
        for (curve, of_size, figure, goal) in GOALS {
            for size in self.sizes(*curve).into_iter().filter(|size| of_size.is_none_or(|wanted| wanted == *size)) {
                let median = |product| self.summary(*curve, size, *figure, product).map(|summary| summary.median());
                let Some(pole) = median(Product::Pole) else { continue };
                let Some(reached) = goal.reached(pole, median(Product::Apache)) else { continue };
                misses += usize::from(!reached);
                let verdict = if reached { "reached" } else { "MISSED" };
                let (size, curve, name) = (thousands(size), curve.name(), figure.name);
                let _ = writeln!(text, "- {size} {curve}: {name}: {}: {verdict}", goal.text());
            }
        }
        let not_held = |sample: &&Sample| sample.product == Product::Pole && sample.figure == HELD;
        misses += self.samples.iter().filter(not_held).count();
        (text, misses)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|why| Failure::io("write", &path, &why))
    }
}

/// Goals by curve and size; without a size, at every size.
const GOALS: &[(Curve, Option<u32>, Figure, Goal)] = &[
    (Curve::Znodes, Some(1_000_000), znodes::SNAPSHOT_ADDS, Goal::Max(100.0)),
    (Curve::Sessions, None, sessions::EXPIRED, Goal::Max(0.0)),
    (Curve::Sessions, Some(50_000), sessions::MEMORY, Goal::Part(0.25)),
    (Curve::Sessions, Some(50_000), sessions::CPU, Goal::Part(0.25)),
    (Curve::Watches, Some(1_000_000), watches::MEMORY, Goal::Part(0.25)),
    (Curve::Watches, Some(1_000_000), watches::CPU_PER_EVENT, Goal::Part(0.25)),
];

/// Only with a reason why not.
const HELD: Figure = Figure::new("not held", "");

/// A field of the file that may contain commas and lines.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\"").replace('\n', " "))
}

/// A number with commas.
fn thousands(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(samples: &[(Curve, u32, Product, Figure, f64)]) -> Table {
        let sample =
            |&(curve, size, product, figure, value): &_| Sample { curve, size, product, figure, value: Ok(value) };
        Table { samples: samples.iter().map(sample).collect(), folder: PathBuf::new() }
    }

    #[test]
    fn a_goal_counts_at_its_size_only() {
        let measured = |size, pole| {
            table(&[
                (Curve::Watches, size, Product::Apache, watches::MEMORY, 400.0),
                (Curve::Watches, size, Product::Pole, watches::MEMORY, pole),
            ])
        };
        assert_eq!(measured(1_000_000, 100.0).goals().1, 0);
        assert_eq!(measured(1_000_000, 101.0).goals().1, 1);
        assert_eq!(measured(10_000, 101.0).goals().1, 0);
    }

    #[test]
    fn a_lost_session_is_a_miss_at_every_size() {
        assert_eq!(table(&[(Curve::Sessions, 7, Product::Pole, sessions::EXPIRED, 1.0)]).goals().1, 1);
    }

    #[test]
    fn a_size_that_is_not_held_is_said_and_counted() {
        let mut table = table(&[(Curve::Znodes, 10, Product::Pole, znodes::START, 5.0)]);
        let why = Err("no \"write\", never".to_owned());
        table.samples.push(Sample {
            curve: Curve::Znodes,
            size: 1000,
            product: Product::Pole,
            figure: HELD,
            value: why,
        });
        assert_eq!(table.goals().1, 1);
        assert!(table.markdown().contains("| start from disk to the first write (ms) | – / 5.00 | – / – |"));
        assert!(table.markdown().contains("Pole, 1,000 znodes: not held: no \"write\", never"));
        assert!(table.csv().ends_with("znodes,1000,Pole,\"not held\",,,\"no \"\"write\"\", never\"\n"));
    }
}
