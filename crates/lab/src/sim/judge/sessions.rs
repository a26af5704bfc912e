//! Sessions and time: a leader ends a session only after the whole of its timeout without a word.
//!
//! In: the words of sessions as they reach a leader, by its own clock. Out: nothing, or a sentence with both values.
//! Why by the leader's clock: it is the one that the leader has. What a client may believe is judged in true time, where
//! its beliefs are (`zoo`).

use std::collections::BTreeMap;

use pole_zab::SessionId;

use super::Verdict;

/// What each server has heard while it led.
#[derive(Debug)]
pub(crate) struct Words {
    leaders: Vec<Reign>,
    /// What a server that was handed the lead takes over when it is established.
    handed: Vec<Option<Reign>>,
}

#[derive(Clone, Debug, Default)]
struct Reign {
    /// When it began.
    begun: u64,
    heard: BTreeMap<SessionId, Word>,
}

#[derive(Clone, Copy, Debug)]
struct Word {
    last: u64,
    /// The longest silence between two words.
    silence: u64,
}

impl Words {
    pub(crate) fn new(servers: usize) -> Self {
        Self { leaders: vec![Reign::default(); servers], handed: vec![None; servers] }
    }

    /// A leader hands over: silences go on under the next one. Kept as silences, since each server has its own clock.
    pub(crate) fn hands_over(&mut self, from: usize, to: usize, now: u64) {
        let Reign { begun, heard } = &self.leaders[from];
        let silent = |word: &Word| Word { last: now - word.last, silence: word.silence };
        let heard = heard.iter().map(|(session, word)| (*session, silent(word))).collect();
        self.handed[to] = Some(Reign { begun: now - begun, heard });
    }

    /// A server elects: what it was handed is void.
    pub(crate) fn elects(&mut self, server: usize) {
        self.handed[server] = None;
    }

    /// A server is established.
    pub(crate) fn begins(&mut self, server: usize, now: u64) {
        let handed = self.handed[server].take().unwrap_or_default();
        let since = |silence: u64| now.saturating_sub(silence);
        let word = |word: Word| Word { last: since(word.last), silence: word.silence };
        let heard = handed.heard.into_iter().map(|(session, silent)| (session, word(silent))).collect();
        self.leaders[server] = Reign { begun: since(handed.begun), heard };
    }

    /// A word of a session reaches the leader.
    pub(crate) fn hears(&mut self, server: usize, session: SessionId, now: u64) {
        let Reign { begun, heard } = &mut self.leaders[server];
        let word = heard.entry(session).or_insert(Word { last: *begun, silence: 0 });
        word.silence = word.silence.max(now - word.last);
        word.last = now;
    }

    /// A leader ends a session that may be silent for so long.
    pub(crate) fn ends(&self, server: usize, session: SessionId, timeout: u64, now: u64) -> Verdict {
        let Reign { begun, heard } = &self.leaders[server];
        let word = heard.get(&session).copied().unwrap_or(Word { last: *begun, silence: 0 });
        // It may have been heard again after the leader had decided.
        match (now - word.last).max(word.silence) >= timeout {
            true => Ok(()),
            false => Err(format!(
                "server {} ends session {session}, which may be silent for {} ms and was for {} ms",
                server + 1,
                timeout / 1_000_000,
                (now - word.last) / 1_000_000
            )),
        }
    }
}
