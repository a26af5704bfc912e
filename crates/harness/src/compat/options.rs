//! The arguments of `cargo xtask compat`.

use super::apps::APPS;
use crate::Failure;
use crate::ensemble::Product;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// The selected parts; empty means all.
    parts: Vec<Part>,
    /// Only what fits into `cargo xtask test`: selected tests of kazoo and all scripts, on Pole, compared with the
    /// recording of Apache.
    pub(super) ci: bool,
    /// The servers to run. With Pole alone, the results of Apache are taken from the recording.
    pub(super) products: Vec<Product>,
    pub(super) sizes: Vec<usize>,
    /// Test programs of kazoo that run at the same time, each with its own servers.
    pub(super) jobs: usize,
    /// Record the results of Apache, for runs without it.
    pub(super) record: bool,
    /// Znodes of the part `move`.
    pub(super) nodes: usize,
    /// Sessions with ephemeral nodes of the part `move`.
    pub(super) sessions: usize,
    /// The selected applications of the part `apps`; empty means all.
    pub(super) apps: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The tests of the Python client.
    Kazoo,
    /// The Python client over TLS.
    Tls,
    /// Apache's command line.
    Cli,
    /// Curator's recipes with two contending clients.
    Curator,
    /// One session of Apache's Java client while every server is killed once.
    Failover,
    /// Apache's C client.
    C,
    /// The Python and the Java client with SASL.
    Sasl,
    /// The same with Kerberos.
    Kerberos,
    /// The tests of a client in Rust.
    Rust,
    /// Apache's programs on Pole's files.
    Storage,
    /// The stores of `pole-elect`.
    Elect,
    /// The move from Apache to Pole and back.
    Move,
    /// Applications, unmodified. Only run if named.
    Apps,
}

impl Options {
    /// Parses the arguments after `compat`.
    pub(super) fn parse(args: &[String]) -> Result<Self, Failure> {
        let mut options = Self {
            parts: Vec::new(),
            ci: false,
            products: vec![Product::Apache, Product::Pole],
            sizes: vec![1, 3],
            jobs: JOBS,
            record: false,
            nodes: 2_000,
            sessions: 10,
            apps: Vec::new(),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| Failure::Usage(format!("{arg} needs a value")));
            match arg.as_str() {
                "--part" => options.part(value()?)?,
                "--on" => options.products = products(value()?)?,
                "--servers" => options.sizes = sizes(value()?)?,
                "--jobs" => options.jobs = jobs(value()?)?,
                "--record" => options.record = true,
                "--nodes" => options.nodes = count(arg, value()?)?,
                "--sessions" => options.sessions = count(arg, value()?)?,
                "--app" => options.apps.push(app(value()?)?),
                other => return Err(Failure::Usage(format!("compat does not know `{other}`"))),
            }
        }
        if options.record && !options.products.contains(&Product::Apache) {
            return Err(Failure::Usage("--record writes down what Apache does: add `--on apache`".to_owned()));
        }
        Ok(options)
    }

    fn part(&mut self, text: &str) -> Result<(), Failure> {
        match text {
            "kazoo" => self.parts.push(Part::Kazoo),
            "tls" => self.parts.push(Part::Tls),
            "cli" => self.parts.push(Part::Cli),
            "curator" => self.parts.push(Part::Curator),
            "failover" => self.parts.push(Part::Failover),
            "c" => self.parts.push(Part::C),
            "sasl" => self.parts.push(Part::Sasl),
            "kerberos" => self.parts.push(Part::Kerberos),
            "rust" => self.parts.push(Part::Rust),
            "storage" => self.parts.push(Part::Storage),
            "elect" => self.parts.push(Part::Elect),
            "move" => self.parts.push(Part::Move),
            "apps" => self.parts.push(Part::Apps),
            "ci" => {
                self.ci = true;
                self.products = vec![Product::Pole];
            }
            other => {
                return Err(Failure::Usage(format!(
                    "--part is kazoo, tls, cli, curator, failover, c, sasl, kerberos, rust, storage, elect, move, apps or ci, not `{other}`"
                )));
            }
        }
        Ok(())
    }

    /// The sizes with which a part is run. A single server has no failover, files belong to one server, and the
    /// client in Rust and the contract of `pole-elect` choose the number themselves. In CI, the parts that take long run with three servers, where more
    /// can go wrong.
    pub(super) fn sizes_of(&self, part: Part) -> &[usize] {
        match part {
            Part::Failover | Part::Move | Part::Apps => &[3],
            Part::Rust | Part::Storage | Part::Elect => &[1],
            Part::Kazoo | Part::Tls | Part::Curator | Part::Sasl if self.ci => &[3],
            Part::Kazoo | Part::Tls | Part::Cli | Part::Curator | Part::C | Part::Sasl | Part::Kerberos => &self.sizes,
        }
    }

    /// Whether this part is to be run. The applications run only if they are named: together they need gigabytes of
    /// packages and half an hour. CI leaves out Kerberos, which needs another build, the client in Rust, because building
    /// it with the dependencies of its tests takes minutes, all cases of `pole-elect`, because `cargo test` has the
    /// essential ones, and the move, which needs Apache.
    pub(super) fn selects(&self, part: Part) -> bool {
        let is_excluded = self.ci && matches!(part, Part::Kerberos | Part::Rust | Part::Elect | Part::Move);
        let is_optional = part == Part::Apps;
        self.parts.contains(&part) || self.parts.is_empty() && !is_excluded && !is_optional
    }
}

fn app(name: &str) -> Result<String, Failure> {
    let mut names = APPS.iter().map(|app| app.name);
    if names.any(|known| known == name) {
        return Ok(name.to_owned());
    }
    let names: Vec<_> = APPS.iter().map(|app| app.name).collect();
    Err(Failure::Usage(format!("--app is one of {}, not `{name}`", names.join(", "))))
}

fn products(text: &str) -> Result<Vec<Product>, Failure> {
    match text {
        "apache" => Ok(vec![Product::Apache]),
        "pole" => Ok(vec![Product::Pole]),
        "both" => Ok(vec![Product::Apache, Product::Pole]),
        other => Err(Failure::Usage(format!("--on is apache, pole or both, not `{other}`"))),
    }
}

fn sizes(text: &str) -> Result<Vec<usize>, Failure> {
    match text {
        "1" => Ok(vec![1]),
        "3" => Ok(vec![3]),
        "1,3" => Ok(vec![1, 3]),
        other => Err(Failure::Usage(format!("--servers is 1, 3 or 1,3, not `{other}`"))),
    }
}

fn count(name: &str, text: &str) -> Result<usize, Failure> {
    let number = text.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count));
    number.ok_or_else(|| Failure::Usage(format!("{name} is a number from 1 to {COUNT_MAX}, not `{text}`")))
}

fn jobs(text: &str) -> Result<usize, Failure> {
    let number = text.parse().ok().filter(|jobs| (1..=JOBS_MAX).contains(jobs));
    number.ok_or_else(|| Failure::Usage(format!("--jobs is a number from 1 to {JOBS_MAX}, not `{text}`")))
}

/// Most tests of kazoo wait for sessions and servers to start, so two of them share two cores without slowing each
/// other down.
const JOBS: usize = 2;
/// Each job has three servers; more would overload the machine.
const JOBS_MAX: usize = 8;

/// More than fits into the memory of a small machine.
const COUNT_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Failure> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn everything_is_run_unless_chosen() {
        let all = parse("").unwrap();
        assert!(all.selects(Part::Kazoo) && all.selects(Part::Failover) && all.selects(Part::Rust));
        assert_eq!(all.products, [Product::Apache, Product::Pole]);
        assert_eq!(all.sizes, [1, 3]);
        assert!(!all.selects(Part::Apps) && parse("--part apps --app patroni").unwrap().selects(Part::Apps));
        let some = parse("--part cli --part curator --servers 3").unwrap();
        assert!(some.selects(Part::Cli) && some.selects(Part::Curator) && !some.selects(Part::Kazoo));
        assert_eq!(some.sizes, [3]);
    }

    #[test]
    fn the_part_for_ci_needs_no_apache() {
        let ci = parse("--part ci").unwrap();
        assert!(ci.ci && ci.selects(Part::Kazoo) && ci.selects(Part::Storage) && !ci.selects(Part::Rust));
        assert!(!ci.selects(Part::Elect));
        assert_eq!(ci.products, [Product::Pole]);
        assert_eq!(ci.sizes_of(Part::Kazoo), [3]);
        assert_eq!(ci.sizes_of(Part::Cli), [1, 3]);
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        for line in [
            "--part",
            "--part x",
            "--on x",
            "--servers 2",
            "--jobs 0",
            "--jobs x",
            "--nodes 0",
            "--part apps --app x",
            "--record --on pole",
            "x",
        ] {
            assert!(matches!(parse(line), Err(Failure::Usage(_))), "{line}");
        }
    }
}
