//! The election behind the paper's figures, message by message.

use super::Report;
use crate::player::Player;
use pole_sim::recording::Recording;
use pole_sim::script::{Find, find, watch};

impl Report<'_> {
    /// Deployment 1 loses its leader: from the crash until all running servers follow the next one.
    pub(super) fn election(&mut self) {
        let Some(recording) = election() else { return };
        self.page.section("election", "An election, message by message");
        self.page.text(
            "Deployment 1 under `latency`: p5 dies, and each of the others proposes itself (P) until it hears of a better one. \
             A server that sees that a quorum holds the best proposal, and that nobody else can still have a better one, has elected; \
             then the winner opens an epoch and brings the others level. A line down for each server, thick while it leads; an \
             arrow for each message that arrived. The buttons, the slider and the arrow keys go through it.",
        );
        let caption = "An election: p5 dies in deployment 1, and p3, nearest to all that are left, leads.";
        let command = format!("pole lab watch {SCRIPT}");
        self.page.figure("fig-election", &Player(&recording).controls(caption, usize::MAX), caption, &command);
        self.figures.insert("election".to_owned(), Player(&recording).diagram(caption, usize::MAX));
    }
}

/// The part of the script that the page shows.
fn election() -> Option<Recording> {
    let Find::One(_, script) = find(SCRIPT) else { return None };
    let recording = watch(script, false).ok()?.recording;
    let crash =
        recording.steps.iter().position(|step| step.is_turn() && recording.describe(step).starts_with("> crash"))?;
    let end = recording.next_turn(recording.next_turn(crash));
    Some(recording.part(crash..end))
}

const SCRIPT: &str = "60-deployment-1-loses-its-leader";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_the_death_of_p5_and_the_rise_of_p3() {
        let recording = election().expect("the script");
        let last = recording.steps.last().expect("steps");
        assert_eq!(last.views_summary(&recording.names), "1:3 2:3 3:* 4:3 5:x");
        assert!(
            Player(&recording).controls("", usize::MAX).matches("class=\"row\"").count() < 150,
            "it has to be read"
        );
    }
}
