//! A custom oracle: servers on batteries, of which the fullest should lead, unless it is far from the clients.
//!
//! Run it: `cargo run -p pole-oracle --example own_oracle`. To adapt it, change `Battery::assess`.

use std::collections::{BTreeMap, BTreeSet};

use pole_election::{Rank, Score, Standing};
use pole_oracle::{
    Assessed, Class, Combined, Decision, Gossip, InvalidScore, Latency, MeasureConfig, Measurements, Moment, Oracle,
    Part, ResignConfig, Resignation, Situation, View, display_inputs,
};
use pole_types::{ServerId, Span, Time, Voters, Zxid};

/// Scores by the missing charge of the battery, in tenths of a percent: smaller is better.
struct Battery {
    /// The charge of this server's battery. A real oracle would read the gauge, or be updated by a thread.
    charge_permille: i64,
}

impl Oracle for Battery {
    fn name(&self) -> &str {
        "battery"
    }

    fn assess(&self, _view: &View, _epoch: u64) -> Option<Assessed> {
        Some(Assessed::new(1000 - self.charge_permille, &[("charge_permille", self.charge_permille)]))
    }

    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        InvalidScore::check(self.name(), score, &[(0, 1000)])
    }
}

/// Latency in classes of 20 ms first; among servers of one class, the battery.
fn oracle(charge_permille: i64) -> Combined {
    let latency = Part { oracle: Box::new(Latency), class: Some(Class::Micros(20_000)) };
    let battery = Part { oracle: Box::new(Battery { charge_permille }), class: None };
    Combined::new(vec![latency, battery]).expect("two parts of one component each")
}

/// Round trips in milliseconds between the three servers, and the battery of each.
const ROUND_TRIPS: [(u64, [u64; 3]); 3] = [(1, [0, 10, 75]), (2, [10, 0, 80]), (3, [75, 80, 0])];
const CHARGES: [(u64, i64); 3] = [(1, 350), (2, 900), (3, 1000)];

fn assess(id: u64, round_trips: [u64; 3], now: Time) -> Assessed {
    let mut measured = Measurements::new(ServerId(id), Voters::new([1, 2, 3].map(ServerId)), MeasureConfig::default());
    for (peer, ms) in (1..).zip(round_trips).filter(|(peer, _)| *peer != id) {
        measured.record_round_trip(ServerId(peer), Span::from_ms(ms), now);
        // The report of the peer; here it contains only a load of a hundred requests per second.
        let nothing = Gossip::unknown(Zxid::ZERO, 0);
        let mut report = measured.report(now, Standing::default(), nothing.clone(), nothing);
        report.rate_milli = 100_000;
        measured.record_report(ServerId(peer), report, now);
    }
    measured.record_requests(1_000, now);
    let leader = Some(ServerId(1));
    let view = measured.view(now, leader, &BTreeSet::new(), Moment::BeforeResignation, Standing::default());
    let (_, charge) = CHARGES[id as usize - 1];
    measured.assess(&oracle(charge), &view, 1).expect("a quorum of round trips is measured")
}

fn main() {
    let oracle = oracle(0);
    println!("oracle {}, fingerprint {:016x}", oracle.describe(), oracle.fingerprint());
    let mut ranks = BTreeMap::new();
    for (id, round_trips) in ROUND_TRIPS {
        let assessed = assess(id, round_trips, Time(10_000_000_000));
        let inputs: Vec<String> =
            display_inputs(&assessed.inputs).iter().map(|(name, value)| format!("{name} {value:.1}")).collect();
        println!("server {id}: score {:?} ({})", assessed.score.components(), inputs.join(", "));
        ranks.insert(ServerId(id), Rank::Known(assessed.score));
    }

    println!("\nserver 1 leads and considers every second:");
    let own = ranks.remove(&ServerId(1)).expect("it was assessed");
    let mut policy = Resignation::new(ResignConfig::default());
    for second in 0.. {
        let situation =
            Situation { oracle: &oracle, own: &own, candidates: &ranks, pause: Span::from_ms(40), rate_milli: 300_000 };
        let decision = policy.consider(Time(second * 1_000_000_000), &situation);
        println!("{second:3} s  {decision}");
        if let Decision::Resign { .. } = decision {
            break;
        }
    }
}
