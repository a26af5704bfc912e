//! The end of `pole explain`: what would make another server the best leader.

use pole_api::words::{number, servers};
use pole_api::{WhatIf, WhatIfs};

/// The nearest changes of each kind; empty if there are none.
pub(crate) fn what_if(answer: &WhatIfs) -> String {
    let (Some(best), false) = (answer.best, answer.changes.is_empty()) else { return String::new() };
    let nearest = |kind: &'static str| answer.changes.iter().filter(move |change| change.kind == kind).take(EACH_MAX);
    let lines = nearest("rate").chain(nearest("round-trip")).map(|change| format!("  {}\n", sentence(change)));
    let lines: String = lines.collect();
    format!("Server {best} is the best by {} now. What would make another one the best:\n{lines}", answer.oracle)
}

/// The same, where an empty answer has to be said.
pub(crate) fn what_if_alone(answer: &WhatIfs) -> String {
    match (answer.best, answer.changes.is_empty()) {
        (None, _) => format!("Too little is measured for {} yet.\n", answer.oracle),
        (Some(best), true) => format!(
            "Server {best} is the best by {} now, and no change of the load or of one link by less than twentyfold would \
             change that.\n",
            answer.oracle
        ),
        (Some(_), false) => what_if(answer),
    }
}

fn sentence(change: &WhatIf) -> String {
    let WhatIf { from, to, winner, .. } = change;
    let what = match change.kind.as_str() {
        "rate" => {
            let whose = match &change.site {
                Some(site) => format!("the clients of site {site}"),
                None => format!("the clients of {}", servers(&change.servers)),
            };
            match is_any(*from, *to) {
                true => format!("if {whose} wrote anything at all"),
                false => format!("if {whose} wrote {}", compared(*from, *to)),
            }
        }
        "round-trip" => {
            let ends: Vec<String> = change.servers.iter().map(u64::to_string).collect();
            format!(
                "if the round trip between {} were {} ms instead of {}",
                ends.join(" and "),
                number(*to),
                number(*from)
            )
        }
        other => format!("if {other} were {} {} instead of {}", number(*to), change.unit, number(*from)),
    };
    format!("{what}, server {winner} would be")
}

/// Whether nothing is written there now, and a rate that would be shown as zero changes the result: without a load, any
/// write counts.
fn is_any(from: f64, to: f64) -> bool {
    from == 0.0 && to > 0.0 && to < 0.005
}

/// `40 % more`, `nothing`, `3.2 times as much`; with the numbers.
fn compared(from: f64, to: f64) -> String {
    let numbers = format!("{}/s instead of {}/s", number(to), number(from));
    match (from > 0.0, to / from.max(f64::MIN_POSITIVE)) {
        (false, _) => numbers,
        (true, ratio) if ratio < 0.005 => format!("nothing ({numbers})"),
        (true, ratio) if ratio < 1.0 => format!("{:.0} % less ({numbers})", (1.0 - ratio) * 100.0),
        (true, ratio) if ratio < 3.0 => format!("{:.0} % more ({numbers})", (ratio - 1.0) * 100.0),
        (true, ratio) => format!("{ratio:.1} times as much ({numbers})"),
    }
}

/// Of each kind; more would hide the nearest.
const EACH_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: &str, site: Option<&str>, from: f64, to: f64) -> WhatIf {
        let (kind, site) = (kind.to_owned(), site.map(str::to_owned));
        WhatIf { kind, servers: vec![4, 5], site, from, to, unit: "ms".to_owned(), winner: 1 }
    }

    #[test]
    fn without_a_load_any_write_counts() {
        let said = sentence(&change("rate", Some("D3"), 0.0, 0.000_1));
        assert_eq!(said, "if the clients of site D3 wrote anything at all, server 1 would be");
    }

    #[test]
    fn changes_are_sentences_with_numbers() {
        let changes = vec![
            change("rate", Some("D1"), 100.0, 140.0),
            change("rate", None, 100.0, 25.0),
            change("round-trip", None, 9.88, 25.14),
            change("rate", Some("D1"), 100.0, 450.0),
            change("rate", Some("D1"), 0.0, 450.0),
        ];
        let answer = WhatIfs { oracle: "latency".to_owned(), best: Some(3), changes };
        assert_eq!(
            what_if(&answer),
            "\
Server 3 is the best by latency now. What would make another one the best:
  if the clients of site D1 wrote 40 % more (140/s instead of 100/s), server 1 would be
  if the clients of servers 4 and 5 wrote 75 % less (25/s instead of 100/s), server 1 would be
  if the clients of site D1 wrote 4.5 times as much (450/s instead of 100/s), server 1 would be
  if the round trip between 4 and 5 were 25.1 ms instead of 9.9, server 1 would be
"
        );
    }

    #[test]
    fn without_an_answer_nothing_is_said_unless_it_was_asked_for() {
        let none = WhatIfs { oracle: "history".to_owned(), best: Some(3), changes: Vec::new() };
        assert_eq!(what_if(&none), "");
        assert!(what_if_alone(&none).starts_with("Server 3 is the best by history now, and no change"));
        assert_eq!(what_if_alone(&WhatIfs { best: None, ..none }), "Too little is measured for history yet.\n");
    }
}
