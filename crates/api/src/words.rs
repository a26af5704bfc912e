//! An election in sentences, the same in the command line and in the dashboard.
//!
//! Numbers have the digits that matter and the unit of the oracle, which the server sends along.

use crate::Election;

/// The reason why the winner won, without a full stop.
pub fn why(election: &Election) -> String {
    let oracle = oracle(election);
    let score_of =
        |id: Option<u64>| election.proposals.iter().find(|proposal| Some(proposal.id) == id && proposal.known)?.score;
    let second = election.runner_up.map_or_else(|| "any other".to_owned(), |id| format!("server {id}"));
    match election.decided_by.as_deref() {
        Some("score") => match (score_of(election.winner), score_of(election.runner_up)) {
            (Some(first), Some(next)) => {
                let (first, next) = distinguishable(first, next, &election.unit);
                format!("{oracle} of {first}, against {next} of {second}")
            }
            (Some(first), None) => {
                format!("{oracle} of {}; that of {second} is not known", with_unit(first, &election.unit))
            }
            (None, _) => format!("the best score by {oracle}"),
        },
        Some("id") => format!("its id, as {oracle} scores no other better"),
        Some("history") => "its history, after scores had failed to bring a leader".to_owned(),
        Some("able") => format!("{second} was better, but had just failed to lead"),
        Some("oracle") => format!("{second} was scored by an older oracle"),
        Some("only-candidate") => "no other stood for election".to_owned(),
        Some("incumbent") => "it led already".to_owned(),
        Some(other) => other.to_owned(),
        None => "the last leader chose it".to_owned(),
    }
}

/// What happened, in a few words and without a full stop.
pub fn headline(election: &Election) -> String {
    // A successor chosen by the last leader was not elected.
    let how = if election.decided_by.is_some() { "was elected" } else { "took over" };
    match (election.ended.as_str(), election.winner) {
        ("failed", _) => "An election failed".to_owned(),
        (_, Some(winner)) => format!("Server {winner} {how} for epoch {}", election.epoch),
        (_, None) => "An election is under way".to_owned(),
    }
}

/// Why it was called, and who took part.
pub fn circumstances(election: &Election) -> String {
    format!("{}{}", cause(&election.cause), participants(election))
}

/// Why the winner won and by how much, or why nobody did. Empty while that is open.
pub fn decision(election: &Election) -> String {
    if election.ended == "failed" {
        let reason = if election.reason.is_empty() { "no reason was given" } else { &election.reason };
        return format!("It came to nothing: {reason}.");
    }
    let Some(winner) = election.winner else { return String::new() };
    // The difference of two transactions is no number of transactions if their epochs differ.
    let is_margin = election.decided_by.as_deref() == Some("score") && election.unit != "zxid";
    let margin = election.margin.filter(|_| is_margin);
    let ahead = margin.zip(election.runner_up).map(|(margin, second)| {
        format!(" That is ahead of server {second} by {}.", with_unit(margin.abs(), &election.unit))
    });
    format!("Why server {winner}: {}.{}", why(election), ahead.unwrap_or_default())
}

/// How long it took, in all and by step. Empty if no step is known.
pub fn steps(election: &Election) -> String {
    if election.steps.is_empty() {
        return String::new();
    }
    let mut before = 0.0;
    let mut parts = Vec::new();
    for step in &election.steps {
        if step.ms > before {
            parts.push(format!("{} ms until {}", number(step.ms - before), step.step));
        }
        before = step.ms;
    }
    let all = format!("It took {} ms", number(before));
    if parts.is_empty() { format!("{all}.") } else { format!("{all}: {}.", parts.join(", ")) }
}

/// All sentences about an election except its headline.
pub fn explanation(election: &Election) -> String {
    let sentences = [circumstances(election), decision(election), steps(election)];
    sentences.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The name of the oracle that decided; empty for a hand-over.
pub fn oracle(election: &Election) -> &str {
    election.oracle.as_deref().unwrap_or_default()
}

fn cause(cause: &str) -> String {
    match cause {
        "start" => "It was called because the server started.".to_owned(),
        "leader-lost" => "It was called because the leader was lost.".to_owned(),
        "quorum-lost" => "It was called because the leader lost its quorum.".to_owned(),
        "resigned" => "The last leader gave way to a better one.".to_owned(),
        "transfer" => "An operator had leadership transferred.".to_owned(),
        "retry" => "It was called because the round before brought no leader.".to_owned(),
        other => format!("It was called for this cause: {other}."),
    }
}

fn participants(election: &Election) -> String {
    let mut text = match &election.participants[..] {
        [] => String::new(),
        ids => {
            let servers = servers(ids);
            format!(" {}{} took part.", servers[..1].to_uppercase(), &servers[1..])
        }
    };
    match election.failed_rounds {
        0 => {}
        1 => text += " One round before it failed.",
        failed => text += &format!(" {failed} rounds before it failed."),
    }
    text
}

/// `30.9 ms`. A transaction is hexadecimal, as everywhere else.
pub fn with_unit(value: f64, unit: &str) -> String {
    if unit == "zxid" && value >= 0.0 {
        return format!("{:#x}", value as u64);
    }
    format!("{} {unit}", number(value)).trim_end().to_owned()
}

/// Formats two values with enough digits to show that they differ.
fn distinguishable(one: f64, other: f64, unit: &str) -> (String, String) {
    let plain = (with_unit(one, unit), with_unit(other, unit));
    if plain.0 != plain.1 || one == other {
        return plain;
    }
    let fine = |value: f64| format!("{value:.3} {unit}").trim_end().to_owned();
    (fine(one), fine(other))
}

/// Formats a number with its significant digits.
pub fn number(value: f64) -> String {
    match value.abs() {
        // Histories and ids are counts.
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats `consensus_ms` with value 9.9 as `consensus 9.9 ms`.
pub fn input(name: &str, value: f64) -> String {
    match name.strip_suffix("_ms") {
        Some(stem) => format!("{} {} ms", stem.replace('_', " "), number(value)),
        None => format!("{} {}", name.replace('_', " "), number(value)),
    }
}

/// `1`, `1 and 2`, `1, 2 and 3`.
pub fn list(ids: &[u64]) -> String {
    let words: Vec<String> = ids.iter().map(u64::to_string).collect();
    match &words[..] {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// `server 1`, `servers 1 and 2`.
pub fn servers(ids: &[u64]) -> String {
    format!("server{} {}", if ids.len() == 1 { "" } else { "s" }, list(ids))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        let shown = [0.123, 9.876, 77.06, 166.04, 3.0, -2.5].map(number);
        assert_eq!(shown, ["0.12", "9.9", "77.1", "166", "3", "-2.5"]);
    }

    #[test]
    fn values_that_differ_look_different() {
        let apart = |one, other| distinguishable(one, other, "ms");
        assert_eq!(apart(16.9, 17.2), ("16.9 ms".into(), "17.2 ms".into()));
        assert_eq!(apart(16.91, 16.93), ("16.910 ms".into(), "16.930 ms".into()));
        assert_eq!(apart(16.91, 16.91), ("16.9 ms".into(), "16.9 ms".into()));
    }

    #[test]
    fn lists_read_like_sentences() {
        assert_eq!([list(&[]), list(&[1]), list(&[1, 2]), list(&[1, 2, 3])], ["none", "1", "1 and 2", "1, 2 and 3"]);
        assert_eq!([servers(&[1]), servers(&[1, 2])], ["server 1", "servers 1 and 2"]);
    }

    #[test]
    fn measurements_have_their_unit() {
        assert_eq!(with_unit(30.9, "ms"), "30.9 ms");
        assert_eq!(with_unit(30.9, ""), "30.9");
        assert_eq!(with_unit(8_589_935_678.0, "zxid"), "0x20000043e");
        assert_eq!(input("consensus_ms", 9.88), "consensus 9.9 ms");
        assert_eq!(input("rate", 12.0), "rate 12");
    }

    #[test]
    fn every_reason_has_a_sentence() {
        for reason in ["score", "id", "history", "able", "oracle", "only-candidate", "incumbent"] {
            let election = Election { decided_by: Some(reason.into()), ..Election::default() };
            assert_ne!(why(&election), reason);
        }
    }

    #[test]
    fn an_explanation_leaves_out_what_is_not_known() {
        let election = Election { cause: "transfer".into(), winner: Some(1), ..Election::default() };
        let text = "An operator had leadership transferred. Why server 1: the last leader chose it.";
        assert_eq!(explanation(&election), text);
    }
}
