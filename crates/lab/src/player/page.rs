//! A recording as an HTML page.

use super::Player;
use crate::report::Page;

impl Player<'_> {
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
        page.figure("play", &self.controls(title, ROWS_MAX), &caption, command);
        page.finish()
    }
}

/// The most rows that a browser draws without getting slow.
const ROWS_MAX: usize = 3_000;

#[cfg(test)]
mod tests {
    use super::Player;

    #[test]
    fn a_page_of_a_recording_escapes_what_the_script_says_and_names_its_command() {
        let recording =
            pole_sim::script::watch("ensemble\nelect\nwrite 1 \"<b>\" \"&\"\n", false).expect("a script").recording;
        let html = Player(&recording).page("<x>", "<y>", "pole lab watch '<z>'");
        assert!(!["<b>", "<x>", "<y>", "<z>"].iter().any(|raw| html.contains(raw)), "{html}");
        assert!(html.contains("Repeat it: <code>pole lab watch"), "{html}");
    }
}
