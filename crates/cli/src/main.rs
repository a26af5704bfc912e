//! The `pole` command.
fn main() {}
