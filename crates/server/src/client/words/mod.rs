//! Words of four letters: questions that need no session, asked by people with `nc` and by tools of all ages.
//!
//! In: a word. Out: a text, byte for byte in the form of Apache's, because tools cut it into pieces by form.
//! Holds: a word outside the list of the operator is refused with one sentence; what is no word gets no answer.
//! Not here: the same as JSON (`admin`), the figures themselves (`metrics`).

pub(crate) mod connections;
mod leading;
pub(crate) mod server;
pub(crate) mod watches;

use std::net::SocketAddr;

use crate::metrics::{Inside, mode};
use crate::shared::Shared;

/// The answer to the word that `arrived` begins with; none: the connection is closed without one.
pub(crate) async fn answer(shared: &Shared, from: SocketAddr, arrived: &[u8]) -> Option<String> {
    let (word, rest) = arrived.split_at_checked(4)?;
    let word = WORDS.into_iter().find(|known| known.as_bytes() == word)?;
    if !shared.settings.words.allow(word) {
        return Some(format!("{word} is not executed because it is not in the whitelist.\n"));
    }
    match word {
        "ruok" => return Some("imok".into()),
        "envi" => return Some(server::environment()),
        "gtmk" => return Some(TRACE_MASK.to_string()),
        "stmk" => return set_trace_mask(rest),
        _ => {}
    }
    let mode = mode(shared);
    if mode == "looking" {
        return Some(if word == "isro" { "null" } else { NOT_SERVING }.into());
    }
    Some(match word {
        "srvr" => server::statistics(shared, mode),
        "stat" => server::statistics_with_clients(shared, mode, from),
        "mntr" => server::figures(shared, Inside::look(shared).await.as_ref()),
        "conf" => server::configuration(shared).await,
        "dirs" => server::directories(shared).await,
        "hash" => server::digest(shared),
        "isro" => if mode == "read-only" { "ro" } else { "rw" }.into(),
        "srst" => {
            shared.status.tally.reset();
            "Server stats reset.\n".into()
        }
        "cons" => connections::list(shared, from),
        "dump" => connections::dump(shared),
        "crst" => {
            connections::reset(shared);
            "Connection stats reset.\n".into()
        }
        "wchs" => watches::summary(shared),
        "wchc" => watches::by_session(shared),
        "wchp" => watches::by_path(shared),
        "rqld" => leading::ask_to_lead(shared),
        "ydld" => leading::give_way(shared),
        _ => return None,
    })
}

/// Apache's server would trace other things with another mask. Here nothing depends on it: it is told back.
fn set_trace_mask(rest: &[u8]) -> Option<String> {
    rest.first_chunk().map(|mask| i64::from_be_bytes(*mask).to_string())
}

/// Every word that there is. The last ones are ours: to ask to lead, and to give way.
const WORDS: [&str; 20] = [
    "ruok", "srvr", "stat", "mntr", "conf", "cons", "dump", "wchs", "wchc", "wchp", "isro", "envi", "dirs", "crst",
    "srst", "hash", "gtmk", "stmk", "rqld", "ydld",
];

/// What Apache's server has unless told otherwise.
const TRACE_MASK: i64 = 306;

/// Apache's sentence, which tools wait to see no more.
pub(crate) const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";
