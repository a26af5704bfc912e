//! The operations in groups, with request and reply of each next to each other.

pub(crate) mod access;
pub(crate) mod auth;
pub(crate) mod children;
pub(crate) mod content;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod multi;
pub(crate) mod reconfig;
pub(crate) mod session;
pub(crate) mod watch;
