//! `pole migrate`: the move from Apache ZooKeeper, in place or side by side.

mod args;
mod check;
mod ensemble;
mod follow;
mod stop_command;
mod take_over;

pub(crate) use args::MigrateCommand;

use pole_types::Zxid;

use crate::failure::Failure;
use crate::paint::Paint;

pub(crate) fn run(command: &MigrateCommand, json: bool, paint: Paint) -> Result<(), Failure> {
    match command {
        MigrateCommand::Check(args) => check::run(args, json, paint),
        MigrateCommand::Follow(args) => follow::run(args, json),
        MigrateCommand::TakeOver(args) => take_over::run(args, json),
    }
}

fn hex(zxid: Zxid) -> String {
    format!("{:#x}", zxid.0)
}
