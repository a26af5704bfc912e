//! Checks session expiry: a leader ends a session only after its whole timeout of silence.
//!
//! Silence is measured by the leader's own clock, the only one that a leader has. What a client may assume about its
//! session is checked in true time, in `zk`.

use std::collections::BTreeMap;

use pole_types::SessionId;

use super::CheckResult;

/// When each server, while it led, was last reached by each session.
#[derive(Debug)]
pub(crate) struct SessionActivity {
    leaders: Vec<LeaderTerm>,
    /// What the target of a hand-over takes over when it is established. Holds durations, not instants.
    handed: Vec<Option<LeaderTerm>>,
}

#[derive(Clone, Debug, Default)]
struct LeaderTerm {
    /// When the server was established.
    established_at: u64,
    sessions: BTreeMap<SessionId, Activity>,
    /// When one of the leaders that handed over to this one last had a fault, in true time. 0 if none ever had. The times of
    /// the sessions are theirs, and a leader whose clock jumps counts up to a tick of the jump as silence.
    earlier_fault: u64,
}

#[derive(Clone, Copy, Debug)]
struct Activity {
    last: u64,
    /// The longest silence so far.
    silence: u64,
}

impl SessionActivity {
    pub(crate) fn new(servers: usize) -> Self {
        Self { leaders: vec![LeaderTerm::default(); servers], handed: vec![None; servers] }
    }

    /// A leader, whose last fault was at `last_fault`, hands over: silences continue under the next one. They are kept as
    /// durations, since each server has its own clock.
    pub(crate) fn handed_over(&mut self, from: usize, to: usize, now: u64, last_fault: u64) {
        let LeaderTerm { established_at, sessions, earlier_fault } = &self.leaders[from];
        let earlier_fault = last_fault.max(*earlier_fault);
        let silent = |activity: &Activity| Activity { last: now - activity.last, silence: activity.silence };
        let sessions = sessions.iter().map(|(session, activity)| (*session, silent(activity))).collect();
        self.handed[to] = Some(LeaderTerm { established_at: now - established_at, sessions, earlier_fault });
    }

    /// A server starts an election: a hand-over to it is void.
    pub(crate) fn election_started(&mut self, server: usize) {
        self.handed[server] = None;
    }

    /// A server is established.
    pub(crate) fn leader_established(&mut self, server: usize, now: u64) {
        let handed = self.handed[server].take().unwrap_or_default();
        let since = |silence: u64| now.saturating_sub(silence);
        let activity = |activity: Activity| Activity { last: since(activity.last), silence: activity.silence };
        let sessions = handed.sessions.into_iter().map(|(session, silent)| (session, activity(silent))).collect();
        let (established_at, earlier_fault) = (since(handed.established_at), handed.earlier_fault);
        self.leaders[server] = LeaderTerm { established_at, sessions, earlier_fault };
    }

    /// When one of the leaders that handed over to this one last had a fault.
    pub(crate) fn earlier_fault(&self, server: usize) -> u64 {
        self.leaders[server].earlier_fault
    }

    /// The leader hears from a session.
    pub(crate) fn record(&mut self, server: usize, session: SessionId, now: u64) {
        let LeaderTerm { established_at, sessions, .. } = &mut self.leaders[server];
        let activity = sessions.entry(session).or_insert(Activity { last: *established_at, silence: 0 });
        activity.silence = activity.silence.max(now - activity.last);
        activity.last = now;
    }

    /// Checks that a session which a leader ends has been silent for its timeout.
    pub(crate) fn check_expiry(&self, server: usize, session: SessionId, timeout: u64, now: u64) -> CheckResult {
        let LeaderTerm { established_at, sessions, .. } = &self.leaders[server];
        let activity = sessions.get(&session).copied().unwrap_or(Activity { last: *established_at, silence: 0 });
        // The session may have become active again after the leader had decided.
        match (now - activity.last).max(activity.silence) >= timeout {
            true => Ok(()),
            false => Err(format!(
                "server {} ends session {session}, which may be silent for {} ms and was for {} ms",
                server + 1,
                timeout / 1_000_000,
                (now - activity.last) / 1_000_000
            )),
        }
    }
}
