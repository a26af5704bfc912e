//! What a client usually asks, and so where it is served best.
//!
//! In: its requests. Out: whether its connection should move to another thread.
//! Why: who asks for one write at a time waits for every step of it, and the step from the thread of a connection to that of
//! the node is a tenth of the whole. On the node's own thread there is no such step; but there a client also waits while the node
//! waits for the disk, so whoever reads, or asks for much at once, is served elsewhere.
//! Holds: a move costs about as much as one request saves, so a habit has to show before, and nobody moves to and fro.

use pole_jute::OpCode;

/// Where a connection is served, and how long its client has seemed to be at home there.
#[derive(Debug, Default)]
pub(super) struct Habit {
    place: Place,
    /// Grows with every write that is asked for alone, shrinks faster with everything else.
    lone_writes: u8,
}

/// Where a connection is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    /// On one of the threads for clients, for good: that is all that TLS can do.
    #[default]
    Fixed,
    /// On one of the threads for clients.
    Clients,
    /// On the thread of the node.
    Node,
}

impl Habit {
    /// A connection is served here from now on.
    pub(super) fn settle(&mut self, place: Place) {
        // Who found no room at the node tries again some writes later.
        if place != Place::Node {
            self.lone_writes = 0;
        }
        self.place = place;
    }

    /// Some requests came together, the last of them this one; and nothing was under way before them.
    pub(super) fn learn(&mut self, requests: u64, last: i32, is_alone: bool) {
        let is_write = OpCode::from_number(last).is_some_and(pole_tree::is_write);
        self.lone_writes = if is_write && requests == 1 && is_alone {
            LONE_WRITES_MAX.min(self.lone_writes + 1)
        } else if last == OpCode::Ping.number() {
            // It rests.
            0
        } else {
            self.lone_writes.saturating_sub(OTHER_REQUEST_COSTS)
        };
    }

    /// Whether it would be served better elsewhere.
    pub(super) fn is_to_move(&self) -> bool {
        match self.place {
            Place::Fixed => false,
            Place::Clients => self.lone_writes >= LONE_WRITES_MIN,
            Place::Node => self.lone_writes == 0,
        }
    }

    /// Where.
    pub(super) fn next_place(&self) -> Place {
        match self.place {
            Place::Fixed => Place::Fixed,
            Place::Clients => Place::Node,
            Place::Node => Place::Clients,
        }
    }
}

/// So many make a habit.
const LONE_WRITES_MIN: u8 = 8;

/// And so many are remembered.
const LONE_WRITES_MAX: u8 = 16;

/// Who reads once in five requests stays where it is; who does so more often stays away, or leaves in the end.
const OTHER_REQUEST_COSTS: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: i32 = 5;
    const READ: i32 = 4;
    const PING: i32 = 11;

    fn at(place: Place) -> Habit {
        Habit { place, lone_writes: if place == Place::Node { LONE_WRITES_MIN } else { 0 } }
    }

    /// How often a client moves that goes on with this.
    fn moves(mut habit: Habit, pattern: &[i32]) -> usize {
        let mut moves = 0;
        for op in pattern.iter().cycle().take(1_000) {
            habit.learn(1, *op, true);
            if habit.is_to_move() {
                habit.settle(habit.next_place());
                moves += 1;
            }
        }
        moves
    }

    #[test]
    fn who_asks_for_one_write_at_a_time_moves_once_and_stays() {
        assert_eq!(moves(at(Place::Clients), &[WRITE]), 1);
        assert_eq!(moves(at(Place::Clients), &[WRITE, WRITE, WRITE, WRITE, WRITE, WRITE, WRITE, WRITE, READ]), 1);
    }

    #[test]
    fn who_reads_or_rests_stays_away_and_leaves() {
        for pattern in [&[READ][..], &[WRITE, READ], &[WRITE, WRITE, READ], &[WRITE, WRITE, PING]] {
            assert_eq!(moves(at(Place::Clients), pattern), 0, "{pattern:?}");
            assert_eq!(moves(at(Place::Node), pattern), 1, "{pattern:?}");
        }
    }

    #[test]
    fn who_asks_for_much_at_once_stays_away() {
        let mut habit = at(Place::Clients);
        for _ in 0..100 {
            habit.learn(2, WRITE, true);
            habit.learn(1, WRITE, false);
            assert!(!habit.is_to_move());
        }
    }

    #[test]
    fn a_connection_with_tls_never_moves() {
        assert_eq!(moves(Habit::default(), &[WRITE]), 0);
    }
}
