//! `pole explain`: describes an election in sentences.

use std::time::{SystemTime, UNIX_EPOCH};

use pole_api::{Election, Proposal};

use crate::paint::{Paint, Table};

use super::values::{Unit, distinguishable, input, number, servers, with_unit};

/// The elections, newest first.
pub(crate) fn explain(elections: &[Election], paint: Paint) -> String {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let descriptions: Vec<String> = elections.iter().map(|election| describe(election, now_ms, paint)).collect();
    if descriptions.is_empty() { "There has been no election yet.\n".to_owned() } else { descriptions.join("\n") }
}

/// One line: the reason why the winner won.
pub(crate) fn why(election: &Election) -> String {
    let oracle = oracle(election);
    let unit = Unit::of(oracle);
    let score_of =
        |id: Option<u64>| election.proposals.iter().find(|proposal| Some(proposal.id) == id && proposal.known)?.score;
    let second = election.runner_up.map_or_else(|| "any other".to_owned(), |id| format!("server {id}"));
    match election.decided_by.as_deref() {
        Some("score") => match (score_of(election.winner), score_of(election.runner_up)) {
            (Some(first), Some(next)) => {
                let (first, next) = distinguishable(first, next, unit);
                format!("{oracle} of {first}, against {next} of {second}")
            }
            (Some(first), None) => {
                format!("{oracle} of {}; that of {second} is not known", with_unit(first, unit))
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

/// The name of the oracle that decided; empty for a hand-over.
fn oracle(election: &Election) -> &str {
    election.oracle.as_deref().unwrap_or_default()
}

fn describe(election: &Election, now_ms: i64, paint: Paint) -> String {
    let mut text = headline(election, now_ms, paint);
    text += &format!("{}{}\n", cause(&election.cause), participants(election));
    if !election.proposals.is_empty() {
        text += &format!("\n{}", proposals(election, paint));
    }
    text += &format!("\n{}", decision(election));
    if !election.steps.is_empty() {
        text += &format!("{}\n", steps(election));
    }
    text
}

fn headline(election: &Election, now_ms: i64, paint: Paint) -> String {
    // A successor chosen by the last leader was not elected.
    let how = if election.decided_by.is_some() { "was elected" } else { "took over" };
    let headline = match (election.ended.as_str(), election.winner) {
        ("failed", _) => "An election failed".to_owned(),
        (_, Some(winner)) => format!("Server {winner} {how} for epoch {}", election.epoch),
        (_, None) => "An election is under way".to_owned(),
    };
    let is_date = election.at_ms > YEAR_2001_MS;
    let ago = if is_date { format!(", {}", ago(now_ms - election.at_ms)) } else { String::new() };
    format!("{}{ago}.\n", paint.bold(&headline))
}

fn ago(ms: i64) -> String {
    match ms.max(0) / 1_000 {
        0 => "just now".to_owned(),
        seconds @ 1..120 => format!("{seconds} s ago"),
        seconds @ 120..7_200 => format!("{} min ago", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h ago", seconds / 3_600),
        seconds => format!("{} days ago", seconds / 86_400),
    }
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

fn proposals(election: &Election, paint: Paint) -> String {
    let oracle = oracle(election);
    let unit = Unit::of(oracle);
    let mut table = Table::new(&["", "server", &format!(">{oracle}"), "history up to", "measured"], paint);
    for proposal in &election.proposals {
        let won = Some(proposal.id) == election.winner;
        let cells = [
            if won { "→" } else { "" }.to_owned(),
            proposal.id.to_string(),
            score(proposal, unit),
            proposal.zxid.clone(),
            measured(proposal),
        ];
        table.row(cells, |text| if won { paint.green(text) } else { text.to_owned() });
    }
    let version = match election.oracle_version.as_deref() {
        None | Some("" | "0x0") => String::new(),
        Some(version) => format!(", set at {version}"),
    };
    let better = unit.map_or(String::new(), |unit| format!(" ({})", unit.which_is_better()));
    format!("Scores by the oracle {oracle}{better}{version}:\n\n{}", table.text())
}

fn score(proposal: &Proposal, unit: Option<Unit>) -> String {
    match proposal.score.filter(|_| proposal.known) {
        Some(score) => with_unit(score, unit),
        None => "unknown".to_owned(),
    }
}

fn measured(proposal: &Proposal) -> String {
    let mut parts: Vec<String> = proposal.inputs.iter().map(|(name, value)| input(name, *value)).collect();
    if !proposal.able {
        parts.push("had just failed to lead".to_owned());
    }
    parts.join(", ")
}

fn decision(election: &Election) -> String {
    if election.ended == "failed" {
        let reason = if election.reason.is_empty() { "no reason was given" } else { &election.reason };
        return format!("It came to nothing: {reason}.\n");
    }
    let Some(winner) = election.winner else { return String::new() };
    let margin = election.margin.filter(|_| election.decided_by.as_deref() == Some("score"));
    let ahead = margin.zip(election.runner_up).map(|(margin, second)| {
        format!(" That is ahead of server {second} by {}.", with_unit(margin.abs(), Unit::of(oracle(election))))
    });
    format!("Why server {winner}: {}.{}\n", why(election), ahead.unwrap_or_default())
}

/// The duration of each step, and the total.
fn steps(election: &Election) -> String {
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

/// A smaller number is not a date but a count since some start.
const YEAR_2001_MS: i64 = 1_000_000_000_000;

#[cfg(test)]
mod tests {
    use crate::args::Color;

    use super::*;

    fn after_a_crash() -> Election {
        serde_json::from_str(
            r#"{"epoch":3,"at_ms":1700000000000,"cause":"leader-lost","oracle":"latency","oracle_version":"0x0",
                "participants":[1,2,3,4],"proposals":[
                    {"id":3,"score":30.9,"known":true,"zxid":"0x200000007","able":true,"inputs":{"consensus_ms":9.9,"hop_ms":21.0}},
                    {"id":4,"score":38.9,"known":true,"zxid":"0x200000009","able":true,"inputs":{}},
                    {"id":1,"score":null,"known":false,"zxid":"0x200000009","able":false,"inputs":{}}],
                "failed_rounds":0,"winner":3,"decided_by":"score","runner_up":4,"margin":8.0,
                "steps":[{"step":"detected","ms":0.0},{"step":"decided","ms":1.2},{"step":"serving","ms":31.2}],
                "ended":"established","reason":""}"#,
        )
        .unwrap()
    }

    #[test]
    fn an_election_is_described_in_sentences() {
        assert_eq!(
            describe(&after_a_crash(), 1_700_000_090_000, Paint::new(Color::Never)),
            "\
Server 3 was elected for epoch 3, 90 s ago.
It was called because the leader was lost. Servers 1, 2, 3 and 4 took part.

Scores by the oracle latency (lower is better):

     server  latency  history up to  measured
  →  3       30.9 ms  0x200000007    consensus 9.9 ms, hop 21 ms
     4       38.9 ms  0x200000009
     1       unknown  0x200000009    had just failed to lead

Why server 3: latency of 30.9 ms, against 38.9 ms of server 4. That is ahead of server 4 by 8 ms.
It took 31.2 ms: 1.2 ms until decided, 30 ms until serving.
"
        );
    }

    #[test]
    fn a_failed_election_says_why_it_failed() {
        let election = Election { ended: "failed".into(), reason: "no quorum".into(), ..Election::default() };
        let text = describe(&election, 0, Paint::new(Color::Never));
        assert!(text.starts_with("An election failed.\n"), "{text}");
        assert!(text.ends_with("It came to nothing: no quorum.\n"), "{text}");
    }

    #[test]
    fn a_hand_over_is_no_election() {
        let text = r#"{"epoch":2,"cause":"transfer","oracle":null,"proposals":[],
            "winner":1,"decided_by":null,"runner_up":null,"margin":null,"steps":[],"ended":"established"}"#;
        assert_eq!(
            describe(&serde_json::from_str(text).unwrap(), 0, Paint::new(Color::Never)),
            "\
Server 1 took over for epoch 2.
An operator had leadership transferred.

Why server 1: the last leader chose it.
"
        );
    }

    #[test]
    fn every_reason_has_a_sentence() {
        for reason in ["score", "id", "history", "able", "oracle", "only-candidate", "incumbent"] {
            let election = Election { decided_by: Some(reason.into()), ..after_a_crash() };
            assert_ne!(why(&election), reason);
        }
    }

    #[test]
    fn times_are_shown_from_seconds_to_days() {
        let texts = [-5, 1_500, 180_000, 7_200_000, 259_200_000].map(ago);
        assert_eq!(texts, ["just now", "1 s ago", "3 min ago", "2 h ago", "3 days ago"]);
    }
}
