//! The output of `pole status`, `pole oracle get` and `pole transfer`.

use pole_api::words::{number, with_unit};
use pole_api::{Ensemble, OracleInForce, OracleScores, Quorum, Scores, Server, Transferred};

use crate::paint::{Paint, Table};

/// The servers, the leader, and the round trips between servers.
pub(crate) fn status(ensemble: &Ensemble, paint: Paint) -> String {
    let mut text = headline(ensemble, paint);
    let measured: Vec<u64> = ensemble.servers.iter().map(|server| server.id).collect();
    let mut headings: Vec<String> = ["server", "site", "mode", "last zxid", ">writes/s"].map(str::to_owned).to_vec();
    headings.extend(measured.iter().map(|id| format!(">to {id} (ms)")));
    let mut table = Table::new(&headings, paint);
    for server in &ensemble.servers {
        let mode = mode(server);
        let mut cells = vec![
            server.id.to_string(),
            server.site.clone().unwrap_or_default(),
            mode.to_owned(),
            server.zxid.clone().unwrap_or_else(unknown),
            server.write_rate.map_or_else(unknown, number),
        ];
        cells.extend(measured.iter().map(|other| rtt(server, *other)));
        table.row(cells, |text| match mode {
            "leader" | "standalone" => paint.green(text),
            "down" => paint.red(text),
            _ => text.to_owned(),
        });
    }
    text += &table.text();
    text
}

fn headline(ensemble: &Ensemble, paint: Paint) -> String {
    let leads = match ensemble.leader {
        Some(leader) => format!("Server {leader} leads in epoch {}", ensemble.epoch),
        None => "There is no leader".to_owned(),
    };
    let survives = survives(&ensemble.quorum);
    format!("{}; the oracle is {}.{survives}\n\n", paint.bold(&leads), in_force(&ensemble.oracle))
}

/// Which failures the ensemble survives, in words. Nothing about a server on its own, which survives none.
fn survives(quorum: &Quorum) -> String {
    let fatal: Vec<_> = quorum.fatal.iter().map(u64::to_string).collect();
    let fatal = fatal.join(" and ");
    match (quorum.voters.len(), quorum.fatal.len()) {
        (0 | 1, _) => String::new(),
        (_, 0) => " There is no quorum.".to_owned(),
        (_, 1) => format!(" It would stop if server {fatal} failed."),
        _ if quorum.survives == 1 => format!(" It survives the failure of any server; of {fatal} together not."),
        _ => format!(" It survives the failure of any {} servers; of {fatal} together not.", quorum.survives),
    }
}

fn in_force(oracle: &OracleInForce) -> String {
    let params = oracle.params.iter().map(|(key, value)| format!(" {key}={value}"));
    oracle.name.clone() + &params.collect::<String>()
}

fn mode(server: &Server) -> &str {
    if server.alive { server.mode.as_deref().unwrap_or("?") } else { "down" }
}

fn rtt(server: &Server, other: u64) -> String {
    if server.id == other {
        return "-".to_owned();
    }
    server.rtt_ms.get(&other).copied().map_or_else(unknown, number)
}

fn unknown() -> String {
    "?".to_owned()
}

/// The current oracle, and the server that each oracle would choose.
pub(crate) fn oracle(ensemble: &Ensemble, scores: &Scores, paint: Paint) -> String {
    let since = match ensemble.oracle.version.as_str() {
        // Not changed at run time yet.
        "0x0" | "" => "as configured".to_owned(),
        version => format!("since {version}"),
    };
    let headline = paint.bold(&format!("The oracle is {}", in_force(&ensemble.oracle)));
    let mut table = Table::new(&["oracle", ">would elect", ">score", "", "better", ">next", ">score", ""], paint);
    for (name, of) in &scores.oracles {
        let mut ranked: Vec<(u64, f64)> = of.servers.iter().filter_map(|(id, s)| Some((*id, s.score?))).collect();
        ranked.retain(|(id, _)| Some(*id) != of.winner);
        let next = ranked.into_iter().reduce(|best, other| if is_better(of, other.1, best.1) { other } else { best });
        let winner = of.winner.and_then(|id| of.servers.get(&id)).filter(|score| score.known);
        let cells = [
            name.clone(),
            of.winner.map_or_else(unknown, |id| id.to_string()),
            winner.and_then(|score| score.score).map_or_else(unknown, |score| value(of, score)),
            unit(of),
            of.better.clone(),
            next.map_or_else(unknown, |(id, _)| id.to_string()),
            next.map_or_else(unknown, |(_, score)| value(of, score)),
            unit(of),
        ];
        let active = *name == ensemble.oracle.name;
        table.row(cells, |text| if active { paint.green(text) } else { text.to_owned() });
    }
    format!("{headline}, {since}.\n\n{}", table.text())
}

/// A score without its unit, which has a column of its own. Transactions have none.
fn value(of: &OracleScores, score: f64) -> String {
    if of.unit == "zxid" { with_unit(score, &of.unit) } else { number(score) }
}

fn unit(of: &OracleScores) -> String {
    if of.unit == "zxid" { String::new() } else { of.unit.clone() }
}

fn is_better(of: &OracleScores, one: f64, other: f64) -> bool {
    if of.better == "lower" { one < other } else { one > other }
}

/// The result of a hand-over.
pub(crate) fn transferred(transferred: &Transferred) -> String {
    let Transferred { leader, pause_ms } = transferred;
    format!("Server {leader} leads. No write was answered for {} ms.\n", number(*pause_ms))
}

#[cfg(test)]
mod tests {
    use crate::args::Color;

    use super::*;

    #[test]
    fn a_score_that_is_a_transaction_is_hexadecimal() {
        let of: Result<OracleScores, _> = serde_json::from_str(r#"{"better":"higher","unit":"zxid","servers":{}}"#);
        let of = of.unwrap();
        assert_eq!((value(&of, 8_589_935_678.0), unit(&of)), ("0x20000043e".to_owned(), String::new()));
    }

    #[test]
    fn status_lines_up_and_says_what_it_does_not_know() {
        let ensemble = serde_json::from_str(
            r#"{"leader":3,"epoch":2,"oracle":{"name":"latency","version":"0x0","params":{}},"servers":[
                {"id":1,"site":"D3","mode":"follower","zxid":"0x200000007","rtt_ms":{"3":53.26},"write_rate":166.0,"alive":true},
                {"id":2,"site":"D2","mode":null,"zxid":null,"rtt_ms":{},"alive":false},
                {"id":3,"site":"D2","mode":"leader","zxid":"0x200000007","rtt_ms":{"1":53.3,"2":0.1},"write_rate":0.5,"alive":true}],
                "quorum":{"voters":[1,2,3],"survives":0,"fatal":[3]}}"#,
        );
        assert_eq!(
            status(&ensemble.unwrap(), Paint::new(Color::Never)),
            "\
Server 3 leads in epoch 2; the oracle is latency. It would stop if server 3 failed.

  server  site  mode      last zxid    writes/s  to 1 (ms)  to 2 (ms)  to 3 (ms)
  1       D3    follower  0x200000007       166          -          ?       53.3
  2       D2    down      ?                   ?          ?          -          ?
  3       D2    leader    0x200000007      0.50       53.3       0.10          -
"
        );
    }

    #[test]
    fn which_failures_are_survived_is_said_in_words() {
        let words = |voters: &[u64], survives, fatal: &[u64]| {
            self::survives(&Quorum { voters: voters.to_vec(), survives, fatal: fatal.to_vec() })
        };
        assert_eq!(words(&[1], 0, &[1]), "");
        assert_eq!(words(&[1, 2, 3], 0, &[]), " There is no quorum.");
        assert_eq!(words(&[1, 2, 3], 1, &[2, 3]), " It survives the failure of any server; of 2 and 3 together not.");
        assert_eq!(
            words(&[1, 2, 3, 4, 5], 2, &[3, 4, 5]),
            " It survives the failure of any 2 servers; of 3 and 4 and 5 together not."
        );
    }

    #[test]
    fn oracles_are_compared_by_whom_they_would_elect() {
        let ensemble = serde_json::from_str(
            r#"{"oracle":{"name":"combined","version":"0x100000002","params":{"combined":"latency/10ms,history"}}}"#,
        );
        let scores = serde_json::from_str(
            r#"{"oracles":{
                "latency":{"better":"lower","unit":"ms","winner":3,"servers":{
                    "1":{"score":80.0,"known":true},"3":{"score":30.9,"known":true},"4":{"score":38.9,"known":true}}},
                "request":{"better":"higher","unit":"1/s","winner":1,"servers":{"1":{"score":12,"known":true},"3":{"known":false}}}}}"#,
        );
        assert_eq!(
            oracle(&ensemble.unwrap(), &scores.unwrap(), Paint::new(Color::Never)),
            "\
The oracle is combined combined=latency/10ms,history, since 0x100000002.

  oracle   would elect  score       better  next  score
  latency            3   30.9  ms   lower      4   38.9  ms
  request            1     12  1/s  higher     ?      ?  1/s
"
        );
    }
}
