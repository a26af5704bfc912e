//! The study behind `pole lab paper`: its formulas against the paper's table, its files, its report, and resuming it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use pole_lab::paper::{
    Case, DISK_MS, Figure, Formula, LEADERS, ORACLES, Options, PAPER_HEAD, REAL_MORE, RECOVERY_HEAD, REGRET_HEAD,
    RealOutcome, RealPlan, RealRun, SITES_HEAD, STATED, Scale, Share, Summary, random_topology, regrets, run,
};
use pole_sim::{SECOND, Sample};
use pole_topology::Topology;

/// The table of section 5: deployment, load, then for each oracle the winner, the mean, and the worst where it is
/// given.
type Cell = (u64, f64, Option<f64>);

#[rustfmt::skip]
const TABLE: [(&str, Share, [Cell; 6]); 11] = [
    ("two", Share::Permille(0),    [(4, 41.5, None), (1, 20.8, None), (2, 20.8, None), (4, 41.5, None), (2, 20.8, None), (4, 41.5, None)]),
    ("two", Share::Permille(500),  [(4, 31.1, None), (1, 31.1, None), (4, 31.1, None), (4, 31.1, None), (4, 31.1, None), (4, 31.1, None)]),
    ("two", Share::Permille(1000), [(4, 20.8, None), (1, 41.5, None), (4, 20.8, None), (4, 20.8, None), (4, 20.8, None), (4, 20.8, None)]),
    ("d1",  Share::Even,           [(4, 38.9, Some(86.9)), (1, 96.7, Some(130.3)), (4, 38.9, None), (4, 38.9, None), (3, 30.9, Some(63.1)), (3, 30.9, Some(63.1))]),
    ("d1",  Share::Permille(0),    [(4, 14.8, Some(86.9)), (1, 118.4, Some(130.3)), (4, 14.8, None), (4, 14.8, None), (4, 14.8, None), (3, 14.8, Some(63.1))]),
    ("d1",  Share::Permille(1000), [(4, 86.9, None), (1, 53.3, Some(130.3)), (1, 53.3, None), (4, 86.9, None), (1, 53.3, None), (3, 63.1, Some(63.1))]),
    ("d2",  Share::Even,           [(4, 30.9, Some(63.1)), (1, 120.5, Some(154.1)), (4, 30.9, None), (4, 30.9, None), (4, 30.9, None), (4, 30.9, None)]),
    ("d2",  Share::Permille(1000), [(4, 63.1, None), (1, 77.1, None), (1, 77.1, None), (4, 63.1, None), (4, 63.1, None), (4, 63.1, None)]),
    ("d3",  Share::Even,           [(4, 74.3, Some(106.5)), (1, 106.0, Some(154.1)), (4, 74.3, None), (4, 74.3, None), (4, 74.3, None), (4, 74.3, None)]),
    ("d3",  Share::Permille(750),  [(4, 94.4, None), (1, 136.1, None), (3, 69.5, Some(130.3)), (4, 94.4, None), (3, 69.5, None), (4, 94.4, Some(106.5))]),
    ("d3",  Share::Permille(1000), [(4, 106.5, None), (1, 154.1, None), (3, 53.3, None), (4, 106.5, None), (3, 53.3, None), (4, 106.5, None)]),
];

fn case(setting: &'static str, share: Share, oracle: &'static str) -> Case {
    Case { figure: Figure::F7b, setting, share, oracle, seed: 1 }
}

#[test]
fn the_formulas_give_the_table_of_section_5() {
    for (setting, share, cells) in TABLE {
        for (oracle, (winner, mean, worst)) in ORACLES.into_iter().zip(cells) {
            let case = case(setting, share, oracle);
            let topology = case.topology();
            let formula = Formula::after_crash(&topology);
            let place = format!("{setting} {share:?} {oracle}");
            // With the disk in the scores, as servers measure them, and without, as in the table.
            for disk_ms in [0.0, DISK_MS] {
                assert_eq!(formula.winner(&case.spec(), disk_ms).map(|winner| winner.id), Some(winner), "{place}");
            }
            // The table has one decimal, and our round trips within a site are 0.1 ms where the paper has 0.
            let near =
                |got: f64, expected: f64| assert!((got - expected).abs() <= 0.1, "{place}: {got}, not {expected}");
            near(formula.latency_ms(winner), mean);
            if let Some(worst) = worst {
                near(formula.worst_ms(winner), worst);
            }
        }
    }
}

#[test]
fn the_alternatives_of_the_table_are_ties_and_nothing_else_is() {
    let ties = |setting, share, oracle: &'static str| {
        let case = case(setting, share, oracle);
        let topology = case.topology();
        Formula::after_crash(&topology).winner(&case.spec(), DISK_MS).expect("a formula").ties
    };
    assert_eq!(ties("d1", Share::Even, "consensus"), [2, 3, 4]);
    assert_eq!(ties("d3", Share::Permille(1000), "consensus"), [2, 3, 4]);
    assert_eq!(ties("d1", Share::Even, "latency"), [2, 3], "the two servers of one site");
    assert_eq!(ties("d1", Share::Permille(1000), "latency"), [1]);
    assert_eq!(ties("d1", Share::Even, "rotating"), [1]);
}

#[test]
fn a_request_at_the_leaders_own_site_takes_one_round_of_consensus() {
    let topology = case("d1", Share::Even, "latency").topology();
    let formula = Formula::after_crash(&topology);
    assert!((formula.site_ms(4, "D1") - formula.consensus_ms(4)).abs() < 1e-9);
    assert!((formula.site_ms(4, "D3") - formula.worst_ms(4)).abs() < 1e-9);
}

#[test]
fn every_figure_of_the_paper_that_states_a_latency_has_its_run() {
    let scale = Scale::quick(1);
    let cases: Vec<Case> = Figure::ALL.into_iter().flat_map(|figure| figure.cases(&scale)).collect();
    for stated in STATED {
        assert!(cases.iter().any(|case| stated.applies_to(case)), "{stated:?}");
    }
    for (setting, share, _) in TABLE {
        for oracle in ORACLES {
            let is_of = |case: &&Case| (case.setting, case.share, case.oracle) == (setting, share, oracle);
            assert!(cases.iter().any(|case| is_of(&case)), "{setting} {share:?} {oracle}");
        }
    }
}

#[test]
fn direct_acknowledgements_shorten_the_mean_latency_of_every_deployment() {
    // Deployment, leader after the crash, mean latency by the formulas without and with them.
    for (preset, leader, announced, direct) in
        [("two", 4, 31.15, 20.80), ("d1", 3, 30.94, 24.39), ("d2", 4, 30.93, 27.65), ("d3", 4, 74.31, 56.57)]
    {
        let topology = Topology::preset(preset).expect("a preset");
        let formula = Formula::after_crash(&topology);
        let near = |ours: f64, expected: f64| (ours - expected).abs() < 0.01;
        assert!(near(formula.latency_ms(leader), announced), "{preset}: {}", formula.latency_ms(leader));
        let formula = formula.direct(true);
        assert!(near(formula.latency_ms(leader), direct), "{preset}: {}", formula.latency_ms(leader));
        assert!(formula.latency_ms(formula.best()) <= formula.latency_ms(leader));
    }
}

#[test]
fn the_tables_have_the_columns_that_others_rely_on() {
    assert_eq!(
        PAPER_HEAD,
        "figure,setting,p,oracle,seed,winner,mean_ms,worst_ms,predicted_winner,predicted_ms,paper_ms,deviation_percent,\
         direct_winner,direct_ms,direct_predicted_ms"
    );
    assert_eq!(SITES_HEAD, "figure,setting,p,oracle,seed,leader,site,phase,mean_ms,p99_ms,requests");
    assert_eq!(
        RECOVERY_HEAD,
        "figure,rtt_ms,backlog_mb,oracle,seed,leader,recovery_ms,predicted_ms,best_leader,best_ms"
    );
    assert_eq!(REGRET_HEAD, "topology_seed,oracle,leader,mean_ms,best_leader,best_ms,regret_percent");
}

#[test]
fn no_oracle_beats_the_best_leader_and_latency_seldom_misses_it() {
    let all: Vec<_> = (0..100).flat_map(regrets).collect();
    assert!(all.iter().all(|regret| regret.percent() > -1e-9), "the best is the best");
    let missed = |oracle: &str| all.iter().filter(|r| r.oracle == oracle && r.percent() > 5.0).count();
    assert!(missed("latency") <= 3, "{}", missed("latency"));
    assert!(missed("history") > 20 && missed("rotating") > 20, "{} {}", missed("history"), missed("rotating"));
}

#[test]
fn random_topologies_keep_their_bounds() {
    let mut shapes = BTreeSet::new();
    for seed in 0..200 {
        let topology = random_topology(seed);
        let sites: BTreeSet<String> = topology.servers().map(|server| server.site).collect();
        let servers = topology.servers().count();
        assert!((3..=7).contains(&servers) && (2..=5).contains(&sites.len()), "{topology:?}");
        for (a, b) in sites.iter().flat_map(|a| sites.iter().map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let rtt = topology.link_of_sites(a, b).expect("a link").rtt_ns;
            assert!((200_000..=300_100_000).contains(&rtt), "{rtt}");
        }
        shapes.insert((servers, sites.len()));
    }
    assert!(shapes.len() > 12, "every shape comes up: {shapes:?}");
}

/// A small, fast study.
fn small(out: &Path, only: &[Figure], resume: bool) -> Options {
    let scale = Scale {
        load_percent: 10,
        before: 4 * SECOND,
        after: 6 * SECOND,
        shares_permille: vec![500],
        round_trips_us: vec![9_880],
        backlogs_mb: vec![0, 20],
        topologies: 50,
        sampled: 1,
        stay: 100 * SECOND,
        stays: 2,
        ..Scale::quick(3)
    };
    let repeated_by = " --seed 3".to_owned();
    Options { scale, only: only.to_vec(), out: out.to_owned(), resume, threads: 2, repeated_by, case: None, real: None }
}

fn run_silently(options: &Options) -> (Summary, usize, Vec<String>) {
    let (mut runs, mut messages) = (0, Vec::new());
    let summary = run(options, &mut |sentence| messages.push(sentence.to_owned()), &mut |_| runs += 1)
        .expect("a folder to write to");
    (summary, runs, messages)
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let named =
        |path: PathBuf| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap());
    entries.map(named).collect()
}

/// A temporary folder, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("pole-study-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Self(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_same_seed_gives_the_same_files_on_one_thread_or_more() {
    let (one, two) = (Scratch::new("one"), Scratch::new("two"));
    let only = [Figure::F4b, Figure::F8b];
    run_silently(&Options { threads: 1, ..small(&one.0, &only, false) });
    run_silently(&small(&two.0, &only, false));
    let (one, two) = (files(&one.0), files(&two.0));
    let names: Vec<&str> = one.keys().map(String::as_str).collect();
    let expected = [
        "fig4b.svg",
        "fig8b-estimate.svg",
        "fig8b.svg",
        "paper.csv",
        "recovery.csv",
        "regret.csv",
        "report.html",
        "sites.csv",
    ];
    assert_eq!(names, expected);
    assert!(one == two);
    assert_eq!(one["paper.csv"].lines().next(), Some(PAPER_HEAD));
    assert_eq!(one["sites.csv"].lines().next(), Some(SITES_HEAD));
    assert_eq!(one["recovery.csv"].lines().next(), Some(RECOVERY_HEAD));
    assert_eq!(one["regret.csv"].lines().next(), Some(REGRET_HEAD));
    assert_eq!(one["paper.csv"].lines().count(), 1 + ORACLES.len());
    assert_eq!(one["recovery.csv"].lines().count(), 1 + 2 * (LEADERS.len() + ORACLES.len()));
    well_formed(&one["report.html"]);
}

#[test]
fn what_is_done_is_not_done_again_unless_the_scale_is_another() {
    let folder = Scratch::new("resumed");
    let options = small(&folder.0, &[Figure::F4b], true);
    let (summary, runs, _) = run_silently(&options);
    assert_eq!((summary.failed.len(), runs), (0, 2 * ORACLES.len()), "each also with direct acknowledgements");
    let first = files(&folder.0);
    // After an interruption the last line may be cut off.
    let kept = &first["cases.jsonl"];
    fs::write(folder.0.join("cases.jsonl"), &kept[..kept.len() - 20]).expect("it can be written");
    let (_, runs, messages) = run_silently(&options);
    assert_eq!((runs, messages.len()), (1, 1), "only what was cut: {messages:?}");
    let (_, runs, messages) = run_silently(&options);
    assert_eq!((runs, messages.len()), (0, 1), "{messages:?}");
    let again = files(&folder.0);
    assert!(again["report.html"] == first["report.html"] && again["paper.csv"] == first["paper.csv"]);
    let (_, runs, messages) =
        run_silently(&Options { scale: Scale { load_percent: 11, ..options.scale.clone() }, ..options });
    assert_eq!(runs, 2 * ORACLES.len());
    assert!(messages.iter().any(|sentence| sentence.contains("afresh")), "{messages:?}");
}

#[test]
fn a_leader_that_may_resign_follows_the_load_and_serves_it_faster() {
    let folder = Scratch::new("wander");
    let (summary, runs, _) = run_silently(&small(&folder.0, &[Figure::Wander, Figure::Regret], false));
    assert_eq!((summary.failed.len(), runs), (0, 3));
    let page = &files(&folder.0)["report.html"];
    well_formed(page);
    let row = |name: &str| -> Vec<String> {
        let cells = page.split(&format!("<td>{name}</td>")).nth(1).unwrap_or_else(|| panic!("a row {name}"));
        let cells = cells.split("</tr>").next().unwrap_or_default().split("</td>");
        cells.filter_map(|cell| cell.rsplit('>').next()).map(str::to_owned).collect()
    };
    let (follows, stays) = (row("the leader follows"), row("the leader stays"));
    assert_eq!((follows[0].as_str(), stays[0].as_str()), ("1", "0"), "one move for one move of the load");
    let mean = |row: &[String]| row[1].parse::<f64>().expect("a mean");
    assert!(mean(&follows) < 0.9 * mean(&stays), "{follows:?} {stays:?}");
}

/// Checks that tags are closed in order, every id is linked, every link leads to an id, and nothing external is
/// fetched.
fn well_formed(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in html.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap_or_default();
        if tag.starts_with('!') || name == "meta" || tag.ends_with('/') {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed by </{name}>");
        } else {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let values = |attribute: &str| -> BTreeSet<&str> {
        let start = format!(" {attribute}=\"");
        html.split(start.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    };
    let links: BTreeSet<&str> = values("href").into_iter().map(|link| link.trim_start_matches('#')).collect();
    assert_eq!(values("id"), links);
    assert!(values("href").iter().all(|link| link.starts_with('#')), "nothing outside");
    assert!(values("src").is_empty() && !html.contains("url(") && !html.contains("@import"), "nothing fetched");
}

#[test]
fn what_real_servers_did_stands_beside_the_simulator() {
    let folder = Scratch::new("real");
    let plan = RealPlan::one("d1 p=1 latency", Scale::real(3)).unwrap();
    let done = |run: &RealRun| {
        // The formula plus 2 ms: without distance under p4, otherwise under p5 and then under p1.
        let crash = 3 * SECOND;
        let took = |asked: u64| match (run.name.as_str(), asked < crash) {
            ("without distance", _) => 2_180_000,
            (_, true) => 88_900_000,
            (_, false) => 55_300_000,
        };
        let samples = (0..80).map(|n| n * SECOND / 10).map(|asked| Sample { asked, home: 1, took: took(asked) });
        let outcome = run.experiment.outcome(1, samples.collect(), 0, crash);
        RealOutcome { outcome, disk_ms: vec![0.3] }
    };
    let runs = plan.runs().into_iter().map(|run| (run.clone(), Ok(done(&run)))).collect();
    let mut options = small(&folder.0, &[], false);
    options.scale.shares_permille = vec![1000];
    let options = Options { case: plan.single(), real: Some(plan.gathered(runs).unwrap()), ..options };
    let (summary, runs, _) = run_silently(&options);
    assert_eq!(runs, 2, "the one case only, without and with direct acknowledgements");
    assert!(summary.real.is_some_and(|real| real.holds() && real.cells == 1));
    let files = files(&folder.0);
    let table: Vec<&str> = files["real.csv"].lines().collect();
    assert_eq!(table[0], format!("{PAPER_HEAD},{REAL_MORE}"));
    assert_eq!(table[1].split(',').count(), table[0].split(',').count());
    assert!(table[1].contains(",real,88.900,"), "{}", table[1]);
    assert_eq!(files["real-sites.csv"].lines().count(), 3);
    well_formed(&files["report.html"]);
    assert!(files["report.html"].contains("On real servers"));
}
