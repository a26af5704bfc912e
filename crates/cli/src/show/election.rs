//! `pole explain`: describes an election in sentences.

use std::time::{SystemTime, UNIX_EPOCH};

use pole_api::words::{self, input, oracle, with_unit};
use pole_api::{Election, Proposal};
use pole_oracle::Spec;

use crate::paint::{Paint, Table};

/// The elections, newest first.
pub(crate) fn explain(elections: &[Election], paint: Paint) -> String {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let descriptions: Vec<String> = elections.iter().map(|election| describe(election, now_ms, paint)).collect();
    if descriptions.is_empty() { "There has been no election yet.\n".to_owned() } else { descriptions.join("\n") }
}

/// One line: the reason why the winner won.
pub(crate) fn why(election: &Election) -> String {
    words::why(&complete(election))
}

/// Adds the unit of the scores, which servers of the first release did not send.
fn complete(election: &Election) -> Election {
    let mut election = election.clone();
    if election.better.is_empty()
        && let Some(scale) =
            Spec::parse(oracle(&election)).and_then(|spec| spec.build()).ok().map(|oracle| oracle.scale())
    {
        (election.unit, election.better) = (scale.unit.to_owned(), scale.better.as_str().to_owned());
    }
    election
}

fn describe(election: &Election, now_ms: i64, paint: Paint) -> String {
    let election = &complete(election);
    let is_date = election.at_ms > YEAR_2001_MS;
    let ago = if is_date { format!(", {}", ago(now_ms - election.at_ms)) } else { String::new() };
    let mut text = format!("{}{ago}.\n", paint.bold(&words::headline(election)));
    text += &format!("{}\n", words::circumstances(election));
    if !election.proposals.is_empty() {
        text += &format!("\n{}", proposals(election, paint));
    }
    let lines = [words::decision(election), words::steps(election)];
    text += "\n";
    lines.iter().filter(|line| !line.is_empty()).for_each(|line| text += &format!("{line}\n"));
    text
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

fn proposals(election: &Election, paint: Paint) -> String {
    let oracle = oracle(election);
    let mut table = Table::new(&["", "server", &format!(">{oracle}"), "history up to", "measured"], paint);
    for proposal in &election.proposals {
        let won = Some(proposal.id) == election.winner;
        let cells = [
            if won { "→" } else { "" }.to_owned(),
            proposal.id.to_string(),
            score(proposal, &election.unit),
            proposal.zxid.clone(),
            measured(proposal),
        ];
        table.row(cells, |text| if won { paint.green(text) } else { text.to_owned() });
    }
    let version = match election.oracle_version.as_deref() {
        None | Some("" | "0x0") => String::new(),
        Some(version) => format!(", set at {version}"),
    };
    let better = match election.better.as_str() {
        "" => String::new(),
        better => format!(" ({better} is better)"),
    };
    format!("Scores by the oracle {oracle}{better}{version}:\n\n{}", table.text())
}

fn score(proposal: &Proposal, unit: &str) -> String {
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
    fn times_are_shown_from_seconds_to_days() {
        let texts = [-5, 1_500, 180_000, 7_200_000, 259_200_000].map(ago);
        assert_eq!(texts, ["just now", "1 s ago", "3 min ago", "2 h ago", "3 days ago"]);
    }
}
