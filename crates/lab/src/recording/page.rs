//! A recording as an HTML page.

use super::Recording;
use crate::report::Page;

impl Recording {
    /// The page: a description, the diagram with its controls, and the command that reproduces it.
    #[must_use]
    pub fn page(&self, title: &str, about: &str, command: &str) -> String {
        let mut page = Page::new(title, about);
        page.section("diagram", "Message diagram");
        page.text(
            "A line down for each server, thick while it thinks that it leads; an arrow for each message that arrived, dashed if it \
             was lost or waits. The buttons, the slider and the arrow keys go through it.",
        );
        let caption = format!("{title}: who sends what to whom, and who believes what.");
        page.figure("play", &self.player(title, ROWS_MAX), &caption, command);
        page.finish()
    }
}

/// The most rows that a browser draws without getting slow.
const ROWS_MAX: usize = 3_000;
