//! Reports: a self-contained HTML file with scalable charts.
//!
//! We write our own SVG instead of using a plotting library because a chart has to follow the reader's light or dark
//! theme, shrink to a phone with legible text, be readable without colours, and be the same bytes on every machine.
//! Libraries write fixed colours, fixed pixels and measured fonts into every element.
//!
//! All text is escaped, and the same input gives the same bytes. What is reported is in `paper` and `classical`.

pub mod chart;
mod escape;
mod page;
mod scale;

pub(crate) use escape::escaped;
pub use page::Page;
