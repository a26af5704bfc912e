//! Four-letter words: plain-text commands without a session, sent by people with `nc` and by monitoring tools.
//!
//! The answers match Apache's byte for byte, because tools parse them. A word that is not in the whitelist is refused
//! with a sentence; an unknown word gets no answer.
//!
//! The same commands as JSON are in `admin`, the metrics themselves in `metrics`.

pub(crate) mod connections;
mod leadership;
pub(crate) mod server;
pub(crate) mod watches;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::listing;
use crate::metrics::{NodeStats, mode};
use crate::shared::Shared;

/// An answer. The permit of a long list must be kept until the answer is sent.
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

impl<T: Into<String>> From<T> for Answer {
    fn from(text: T) -> Self {
        Self { text: text.into(), permit: None }
    }
}

/// Answers the word at the start of `arrived`. `None` closes the connection without an answer.
pub(crate) async fn answer(shared: &Arc<Shared>, from: SocketAddr, arrived: &[u8]) -> Option<Answer> {
    let (word, rest) = arrived.split_at_checked(4)?;
    let word = WORDS.into_iter().find(|known| known.as_bytes() == word)?;
    if !shared.settings.four_letter_words.allows(word) {
        return Some(format!("{word} is not executed because it is not in the whitelist.\n").into());
    }
    match word {
        "ruok" => return Some("imok".into()),
        "envi" => return Some(server::environment().into()),
        "gtmk" => return Some(TRACE_MASK.to_string().into()),
        "stmk" => return set_trace_mask(rest).map(Answer::from),
        _ => {}
    }
    let mode = mode(shared);
    if mode == "looking" {
        return Some(if word == "isro" { "null" } else { NOT_SERVING }.into());
    }
    let text = match word {
        "srvr" => server::statistics(shared, mode),
        "mntr" => server::metrics(shared, NodeStats::query(shared).await.as_ref()),
        "conf" => server::configuration(shared).await,
        "dirs" => server::directories(shared).await,
        "hash" => server::digest(shared),
        "isro" => if mode == "read-only" { "ro" } else { "rw" }.into(),
        "srst" => {
            shared.status.reset_statistics();
            "Server stats reset.\n".into()
        }
        "crst" => {
            connections::reset(shared);
            "Connection stats reset.\n".into()
        }
        "wchs" => watches::summary(shared),
        "rqld" => leadership::request_leadership(shared),
        "ydld" => leadership::yield_leadership(shared),
        _ => return list(shared, from, word, mode).await,
    };
    Some(text.into())
}

/// Answers a word whose answer is a list.
async fn list(shared: &Arc<Shared>, from: SocketAddr, word: &'static str, mode: &'static str) -> Option<Answer> {
    let entries = match word {
        "stat" | "cons" => connections::count(shared),
        "dump" => connections::dump_count(shared),
        "wchc" | "wchp" => watches::count(shared),
        _ => return None,
    };
    let expiries = if word == "dump" { connections::expiries(shared).await } else { None };
    let list = listing::make(shared, entries, move |shared, budget| match word {
        "stat" => server::statistics_with_clients(shared, mode, from, budget),
        "cons" => connections::list(shared, from, budget),
        "dump" => connections::dump(shared, expiries, budget),
        "wchc" => watches::by_session(shared, budget),
        _ => watches::by_path(shared, budget),
    });
    Some(match list.await {
        Ok(list) => Answer { text: list.content, permit: list.permit },
        Err(busy) => format!("{busy}\n").into(),
    })
}

/// Apache's server would change what it traces. Pole has no trace mask and only echoes it.
fn set_trace_mask(rest: &[u8]) -> Option<String> {
    rest.first_chunk().map(|mask| i64::from_be_bytes(*mask).to_string())
}

/// All words. The last two are Pole's own: request the leadership, and yield it.
const WORDS: [&str; 20] = [
    "ruok", "srvr", "stat", "mntr", "conf", "cons", "dump", "wchs", "wchc", "wchp", "isro", "envi", "dirs", "crst",
    "srst", "hash", "gtmk", "stmk", "rqld", "ydld",
];

/// The default of Apache's server.
pub(crate) const TRACE_MASK: i64 = 306;

/// Apache's answer while a server does not serve. Tools poll until it goes away.
pub(crate) const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";
