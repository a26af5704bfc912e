//! `rqld` and `ydld` in a loop: a client asks servers to take and to give up the leadership.

use std::io;
use std::time::{Duration, Instant};

use super::{Attack, EnsembleAttack, Findings, Target, no_preparation};

/// With a whitelist of `*`, which does not include these commands.
pub(super) const REFUSED: Attack = Attack::on_ensemble(
    "rqld-loop",
    "rqld and ydld in a loop, with a whitelist of `*`, which must not include them",
    EnsembleAttack { config: &["4lw.commands.whitelist=*"], ..EnsembleAttack::new(no_preparation, run) },
);

/// With a whitelist that names these commands.
pub(super) const COOLED_DOWN: Attack = Attack::on_ensemble(
    "rqld-cooldown",
    "rqld and ydld in a loop, named in the whitelist: they must be cooled down",
    EnsembleAttack {
        config: &["4lw.commands.whitelist=*,rqld,ydld"],
        elections_max: 2,
        ..EnsembleAttack::new(no_preparation, run)
    },
);

fn run(target: &Target) -> io::Result<Findings> {
    let start = Instant::now();
    let mut asked = 0;
    while start.elapsed() < LENGTH {
        for probe in target.probes() {
            let _ = probe.ask("rqld");
            let _ = probe.ask("ydld");
            asked += 2;
        }
    }
    Ok(Findings::note(format!("{asked} commands in {LENGTH:?}")))
}

const LENGTH: Duration = Duration::from_secs(5);
