//! `rqld` and `ydld` in a loop: a client asks servers to take and to give up the leadership.

use std::io;
use std::time::{Duration, Instant};

use super::{Attack, Found, Service, Target, nothing};

/// Not in the whitelist by a star.
pub(super) const REFUSED: Attack = Attack::service(
    "rqld-loop",
    "rqld and ydld in a loop, with a whitelist of `*`, which must not include them",
    Service { config: &["4lw.commands.whitelist=*"], ..Service::new(nothing, strike) },
);

/// Named in the whitelist.
pub(super) const COOLED_DOWN: Attack = Attack::service(
    "rqld-cooldown",
    "rqld and ydld in a loop, named in the whitelist: they must be cooled down",
    Service { config: &["4lw.commands.whitelist=*,rqld,ydld"], elections_max: 2, ..Service::new(nothing, strike) },
);

fn strike(target: &Target) -> io::Result<Found> {
    let start = Instant::now();
    let mut asked = 0;
    while start.elapsed() < LENGTH {
        for probe in target.probes() {
            let _ = probe.ask("rqld");
            let _ = probe.ask("ydld");
            asked += 2;
        }
    }
    Ok(Found::note(format!("{asked} commands in {LENGTH:?}")))
}

const LENGTH: Duration = Duration::from_secs(5);
