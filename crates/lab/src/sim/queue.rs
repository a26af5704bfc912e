//! What is going to happen, in order of time, and of asking where times are equal.
//!
//! The heap holds numbers only; what happens lies beside it, so that a message is not moved about as others come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Things to happen.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    things: Vec<Option<T>>,
    free: Vec<u32>,
    asked: u64,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), things: Vec::new(), free: Vec::new(), asked: 0 }
    }

    pub(crate) fn push(&mut self, at: u64, thing: T) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.things[slot as usize] = Some(thing);
                slot
            }
            None => {
                self.things.push(Some(thing));
                (self.things.len() - 1) as u32
            }
        };
        self.asked += 1;
        self.heap.push(Reverse((at, self.asked, slot)));
    }

    /// The next thing, if it happens by `until`, and when.
    pub(crate) fn pop(&mut self, until: u64) -> Option<(u64, T)> {
        let Reverse((at, _, slot)) = *self.heap.peek()?;
        if at > until {
            return None;
        }
        self.heap.pop();
        self.free.push(slot);
        self.things[slot as usize].take().map(|thing| (at, thing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_in_order_of_time_and_then_of_asking() {
        let mut queue = Queue::new();
        for (at, name) in [(5, "b"), (3, "a"), (5, "c"), (9, "late")] {
            queue.push(at, name);
        }
        let mut came = Vec::new();
        while let Some((_, name)) = queue.pop(8) {
            came.push(name);
        }
        assert_eq!(came, ["a", "b", "c"]);
    }
}
