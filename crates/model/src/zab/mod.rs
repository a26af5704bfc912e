//! The model of the agreement: a few production state machines in every order of messages, writes and faults.

mod action;
mod bounds;
mod check;
mod disk;
mod liveness;
mod members;
mod sabotage;
mod step;
mod wire;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use stateright::{Model, Property};

pub(crate) use action::Action;
pub(crate) use bounds::{Bounds, Start};
pub(crate) use members::Members;
pub(crate) use sabotage::Sabotage;
pub(crate) use world::World;

use crate::digest::digest;
use crate::live_states::LiveStates;
use crate::run::{Limit, panic_message};
use crate::violation::{NO_PANIC, Violation};
use check::SAFETY;
use liveness::RECOVERS;

/// The model of the agreement within bounds.
#[derive(Debug)]
pub(crate) struct Agreement {
    pub(crate) bounds: Bounds,
    pub(crate) sabotage: Sabotage,
    limit: Limit,
    live_states: LiveStates,
}

impl Agreement {
    pub(crate) fn new(bounds: Bounds, sabotage: Sabotage, limit: Limit) -> Self {
        Self { bounds, sabotage, limit, live_states: LiveStates::default() }
    }

    /// The world after the action, including a violation.
    fn after(&self, world: &World, action: Action) -> World {
        let mut next = world.clone();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            step::apply(&mut next, &self.bounds, action)?;
            if digest(&next).is_multiple_of(self.bounds.liveness_one_in) {
                liveness::check(&next, &self.live_states)
            } else {
                Ok(())
            }
        }));
        next.violation = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(violation)) => Some(violation),
            Err(panic) => Some(Violation::new(NO_PANIC, panic_message(&*panic))),
        };
        next
    }

    /// Describes a step or, without an action, the violation.
    pub(crate) fn describe(world: &World, action: Option<&Action>) -> String {
        match (action, &world.violation) {
            (Some(action), _) => action.describe(world),
            (None, Some(violation)) => violation.to_string(),
            (None, None) => "nothing is broken".to_owned(),
        }
    }

    /// Whether an epoch above the bound was opened.
    fn is_beyond(&self, world: &World) -> bool {
        world.all().any(|at| world.zab(at).standing().accepted_epoch.0 > self.bounds.epochs)
    }
}

impl Model for Agreement {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut world = World::blank(self.sabotage, &self.bounds);
        if self.bounds.start == Start::Serving {
            liveness::bring_up(&mut world);
        }
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.violation.is_none() && !self.limit.is_over() {
            Action::all(world, &self.bounds, actions);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        Some(self.after(world, action))
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.violation.is_some() || !self.is_beyond(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(SAFETY[0], |_, world| holds(world, SAFETY[0])),
            Property::always(SAFETY[1], |_, world| holds(world, SAFETY[1])),
            Property::always(SAFETY[2], |_, world| holds(world, SAFETY[2])),
            Property::always(SAFETY[3], |_, world| holds(world, SAFETY[3])),
            Property::always(SAFETY[4], |_, world| holds(world, SAFETY[4])),
            Property::always(SAFETY[5], |_, world| holds(world, SAFETY[5])),
            Property::always(SAFETY[6], |_, world| holds(world, SAFETY[6])),
            Property::always(SAFETY[7], |_, world| holds(world, SAFETY[7])),
            Property::always(SAFETY[8], |_, world| holds(world, SAFETY[8])),
            Property::always(RECOVERS, |_, world| holds(world, RECOVERS)),
        ]
    }
}

fn holds(world: &World, property: &'static str) -> bool {
    Violation::property_holds(world.violation.as_ref(), property)
}
