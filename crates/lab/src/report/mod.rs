//! Reports: one HTML file that explains itself, with charts that scale.
//!
//! In: text, tables, charts. Out: a page without any outside reference, and SVG.
//! Why our own SVG and not a plotting library: a chart here has to follow the reader's light or dark theme, to shrink to a
//! phone without its letters shrinking below legibility, to be told apart without colours, and to be the same bytes on
//! every machine. Libraries write fixed colours, fixed pixels and measured fonts into every element.
//! Holds: whatever comes in as text is escaped; the same input gives the same bytes.
//! Not here: what is reported (`paper`, `classical`).

pub mod chart;
mod escape;
mod page;
mod scale;

pub(crate) use escape::escaped;
pub use page::Page;
