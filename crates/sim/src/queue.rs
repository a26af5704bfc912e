//! The event queue: ordered by time, then by insertion.
//!
//! The heap holds only numbers; the events are stored beside it, so that they are not moved when others are pushed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Items ordered by time, and at the same time by the order in which they were pushed.
#[derive(Debug)]
pub struct Queue<T> {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    items: Vec<Option<T>>,
    free: Vec<u32>,
    pushed: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), items: Vec::new(), free: Vec::new(), pushed: 0 }
    }
}

impl<T> Queue<T> {
    /// Adds an item that is due at a time.
    pub fn push(&mut self, at: u64, item: T) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.items[slot as usize] = Some(item);
                slot
            }
            None => {
                self.items.push(Some(item));
                (self.items.len() - 1) as u32
            }
        };
        self.pushed += 1;
        self.heap.push(Reverse((at, self.pushed, slot)));
    }

    /// The next item and its time, if it is due by `until`.
    pub fn pop(&mut self, until: u64) -> Option<(u64, T)> {
        let Reverse((at, _, slot)) = *self.heap.peek()?;
        if at > until {
            return None;
        }
        self.heap.pop();
        self.free.push(slot);
        self.items[slot as usize].take().map(|item| (at, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_in_order_of_time_and_then_of_asking() {
        let mut queue = Queue::default();
        for (at, name) in [(5, "b"), (3, "a"), (5, "c"), (9, "late")] {
            queue.push(at, name);
        }
        let mut order = Vec::new();
        while let Some((_, name)) = queue.pop(8) {
            order.push(name);
        }
        assert_eq!(order, ["a", "b", "c"]);
    }
}
