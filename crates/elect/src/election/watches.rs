//! The records that are watched, and those whose watch failed and is due again later.

use std::collections::{BTreeMap, BTreeSet};

use pole_types::{Span, Time};

use super::event::Effect;
use crate::store::Target;

#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    active: BTreeSet<Target>,
    /// When to begin again.
    failed: BTreeMap<Target, Time>,
}

impl Watches {
    /// Begins and ends watches so that exactly the wanted records are watched.
    pub(super) fn update(&mut self, now: Time, wanted: &BTreeSet<Target>, effects: &mut Vec<Effect>) {
        self.failed.retain(|target, at| wanted.contains(target) && *at > now);
        for target in self.active.iter().filter(|target| !wanted.contains(target)) {
            effects.push(Effect::Unwatch(*target));
        }
        self.active.retain(|target| wanted.contains(target));
        for target in wanted {
            if !self.failed.contains_key(target) && self.active.insert(*target) {
                effects.push(Effect::Watch(*target));
            }
        }
    }

    pub(super) fn fail(&mut self, now: Time, target: Target, retry: Span) {
        if self.active.remove(&target) {
            self.failed.insert(target, now + retry);
        }
    }

    pub(super) fn is_active(&self, target: Target) -> bool {
        self.active.contains(&target)
    }

    pub(super) fn wake_at(&self) -> Option<Time> {
        self.failed.values().min().copied()
    }
}
