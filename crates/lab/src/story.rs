//! A demonstration for newcomers: an ensemble over three data centres elects, loses its leader, and reports why the
//! next one won.
//!
//! All numbers are measured in the simulator, on the production code.

use std::io::{self, Write};

use pole_election::{Rank, Record};
use pole_node::{ChangeStatus, LeadershipChange};
use pole_oracle::{Oracle, Spec, display_inputs};
use pole_topology::Topology;

use pole_sim::{MS, SECOND, Setup, World};

/// Runs the demonstration and writes its text.
///
/// # Errors
/// If writing fails, or if the simulation finds a violated invariant.
pub fn write(seed: u64, out: &mut dyn Write) -> io::Result<()> {
    let topology = Topology::preset("d1").ok_or_else(|| io::Error::other("the preset d1 is missing"))?;
    writeln!(out, "Five servers in three data centres, simulated (seed {seed}).\n")?;
    map(&topology, out)?;
    let mut setup = Setup::on(topology.clone(), seed);
    setup.oracle = "latency".to_owned();
    setup.clients = 24;
    let oracle = Spec::parse(&setup.oracle).and_then(|spec| spec.build()).map_err(io::Error::other)?;
    let mut world = World::new(setup, None);
    world.run_until(3 * SECOND);
    let first = leader(&world)?;
    writeln!(out, "Server {first} was elected. Clients begin to write; the oracle `latency` watches where.\n")?;
    world.run_until(20 * SECOND);
    let writes = world.writes();
    writeln!(out, "After 20 s, {writes} writes are acknowledged. Now server {} crashes.\n", leader(&world)?)?;
    let crashed_at = world.now();
    world.kill(leader(&world)? as usize - 1);
    let pause = (wait_for_write(&mut world)? - crashed_at) as f64 / MS as f64;
    world.run_until(world.now() + SECOND);
    let winner = leader(&world)?;
    writeln!(
        out,
        "Server {winner} leads. {pause:.1} ms after the crash the first write was acknowledged again. Why {winner}?\n"
    )?;
    let leadership_change =
        world.last_leadership_change(winner).ok_or_else(|| io::Error::other("the leader has no account"))?;
    explain(&leadership_change, &topology, oracle.as_ref(), out)?;
    world.run_until(40 * SECOND);
    let report = world.into_report();
    match report.failure {
        None => writeln!(
            out,
            "\n{} writes acknowledged in 40 s, none lost, every invariant checked at every step.",
            report.writes
        ),
        Some(failure) => Err(io::Error::other(format!("seed {seed}: {failure}"))),
    }
}

/// Prints the data centres, their servers and the round trips between them.
fn map(topology: &Topology, out: &mut dyn Write) -> io::Result<()> {
    let mut sites: Vec<_> = topology.servers().map(|server| server.site.to_owned()).collect();
    sites.sort_unstable();
    sites.dedup();
    for site in &sites {
        let servers: Vec<_> = topology
            .servers()
            .filter(|server| server.site == site.as_str())
            .map(|server| server.id.to_string())
            .collect();
        write!(out, "  {site}  servers {:<6}", servers.join(" "))?;
        for other in sites.iter().filter(|other| *other != site) {
            if let Some(link) = topology.link_of_sites(site, other) {
                write!(out, "  {other} {:>6.2} ms", link.rtt_ns as f64 / MS as f64)?;
            }
        }
        writeln!(out)?;
    }
    writeln!(out)
}

/// Prints the record of an election, in the units of its oracle.
fn explain(
    leadership_change: &LeadershipChange,
    topology: &Topology,
    oracle: &dyn Oracle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(record) = &leadership_change.record else { return writeln!(out, "  {leadership_change}") };
    candidates(record, topology, oracle, out)?;
    let participants: Vec<_> = record.participants.iter().map(ToString::to_string).collect();
    writeln!(
        out,
        "\n  decided by {}; heard {} of {} voters; ended because {}",
        record.decided_by,
        participants.join(" "),
        record.voters,
        record.end_reason
    )?;
    let steps: Vec<_> = leadership_change.steps.iter().map(|(step, after)| format!("{step} {after}")).collect();
    writeln!(out, "  {}", steps.join(", "))?;
    if let ChangeStatus::Established(epoch) = leadership_change.status {
        writeln!(out, "  established in epoch {epoch}")?;
    }
    Ok(())
}

fn candidates(record: &Record, topology: &Topology, oracle: &dyn Oracle, out: &mut dyn Write) -> io::Result<()> {
    for ranked in &record.proposals {
        let proposal = &ranked.proposal;
        let site = topology.site(proposal.id.0).unwrap_or("?");
        let score = match &proposal.rank {
            Rank::Known(score) => format!("{:.1} {}", oracle.value(score), oracle.scale().unit),
            Rank::Unknown => "unknown".to_owned(),
        };
        let inputs: Vec<_> = proposal.inputs.iter().map(|input| (input.name.clone(), input.value)).collect();
        let inputs: Vec<_> = display_inputs(&inputs).iter().map(|(name, value)| format!("{name} {value:.1}")).collect();
        let marker = if proposal.id == record.winner { "→" } else { " " };
        writeln!(out, "  {marker} server {} in {site}: {score:<10} ({})", proposal.id, inputs.join(", "))?;
    }
    Ok(())
}

fn leader(world: &World) -> io::Result<u64> {
    world.leader().map(|server| server as u64 + 1).ok_or_else(|| io::Error::other("there is no leader"))
}

/// Runs until the next leader has acknowledged a write. Returns the time.
fn wait_for_write(world: &mut World) -> io::Result<u64> {
    let limit = world.now() + 10 * SECOND;
    let mut writes = None;
    while writes.is_none_or(|writes| world.writes() == writes) {
        if world.now() >= limit {
            return Err(io::Error::other("no write was acknowledged within 10 s"));
        }
        world.run_until(world.now() + MS / 10);
        if world.leader().is_some() {
            writes.get_or_insert(world.writes());
        }
    }
    Ok(world.now())
}
