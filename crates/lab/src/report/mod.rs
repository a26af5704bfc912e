//! Reports: a self-contained HTML file with scalable charts.
//!
//! All text is escaped, and the same input gives the same bytes. What is reported is in `paper` and `classical`.

mod page;

pub use page::Page;
pub use pole_chart as chart;
pub(crate) use pole_chart::escaped;
