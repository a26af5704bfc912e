//! Words of four letters.

use crate::shared::Shared;
use crate::status::Role;

/// The answer to a word; none: the connection is closed without one.
pub(crate) async fn answer(shared: &Shared, word: [u8; 4]) -> Option<String> {
    let word = std::str::from_utf8(&word).ok()?;
    match word {
        "ruok" => Some("imok".into()),
        "srvr" => {
            let mode = match shared.status.role() {
                Role::Serving { .. } if shared.settings.voters == 1 => "standalone",
                Role::Serving { leader, .. } if leader == shared.settings.me => "leader",
                Role::Serving { .. } => "follower",
                Role::Starting | Role::Looking { .. } => {
                    return Some("This ZooKeeper instance is not currently serving requests\n".into());
                }
            };
            Some(format!(
                "Zookeeper version: 3.8.0-pole, built on now\nMode: {mode}\nNode count: {}\n",
                shared.tree.read().node_count()
            ))
        }
        _ => None,
    }
}
