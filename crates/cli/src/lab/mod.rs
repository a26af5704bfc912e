//! The lab's commands: each calls `pole_lab`, prints what a person wants to know, and leaves files for the rest.

pub(crate) mod compare;
