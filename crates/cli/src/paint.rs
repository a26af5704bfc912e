//! Colours on a terminal, and columns that line up with or without them.

use std::io::IsTerminal as _;

use crate::args::Color;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    pub(crate) fn new(when: Color) -> Self {
        let on = match when {
            Color::Always => true,
            Color::Never => false,
            // See https://no-color.org.
            Color::Auto => std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        Self { on }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Rows under headings; a column is as wide as its widest cell. Numeric columns are right-aligned.
pub(crate) struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<Cell>>,
}

/// The text of a cell, without and with colour.
struct Cell {
    text: String,
    painted: String,
}

impl Table {
    /// Columns whose heading begins with `>` are right-aligned.
    pub(crate) fn new<H: AsRef<str>>(headings: &[H], paint: Paint) -> Self {
        let right = headings.iter().map(|heading| heading.as_ref().starts_with('>')).collect();
        let mut table = Self { right, rows: Vec::new() };
        table.row(headings.iter().map(|heading| heading.as_ref().trim_start_matches('>').to_owned()), |text| {
            paint.dim(text)
        });
        table
    }

    /// Adds a row, all of it in one colour.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>, painted: impl Fn(&str) -> String) {
        let cells = cells.into_iter().map(|text| Cell { painted: painted(&text), text });
        self.rows.push(cells.collect());
    }

    /// The table, indented by two spaces.
    pub(crate) fn text(&self) -> String {
        let columns = 0..self.right.len();
        let width = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(Cell::width).max();
        let widths: Vec<usize> = columns.map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), right) in row.iter().zip(&widths).zip(&self.right) {
                let space = " ".repeat(width - cell.width());
                line += "  ";
                line += &if *right { space + &cell.painted } else { cell.painted.clone() + &space };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

impl Cell {
    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_colours_do_not_count() {
        let text = |paint| {
            let mut table = Table::new(&["name", ">n"], paint);
            table.row(["ä".to_owned(), "1".to_owned()], |text| paint.green(text));
            table.row(["long".to_owned(), "10".to_owned()], str::to_owned);
            table.text()
        };
        assert_eq!(text(Paint { on: false }), "  name   n\n  ä      1\n  long  10\n");
        let coloured = text(Paint { on: true });
        assert!(coloured.contains("\x1b[32mä\x1b[0m     "), "{coloured:?}");
    }
}
