//! Commands about watches. Events are printed when they arrive.

use std::sync::atomic::Ordering;

use pole_jute::{AddWatchMode, AddWatchRequest, RemoveWatchesRequest, Request, WatcherType};
use serde_json::json;

use super::commands::{Given, find};
use super::nodes::print_done;
use super::{Next, Shell};
use crate::failure::Failure;

pub(super) fn add(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = given.path(0)?;
    let mode = match given.value('m').unwrap_or("PERSISTENT_RECURSIVE").to_ascii_uppercase().as_str() {
        "PERSISTENT" => AddWatchMode::Persistent,
        "PERSISTENT_RECURSIVE" => AddWatchMode::PersistentRecursive,
        _ => return Err(Failure::bad_input(find("addWatch")?.line())),
    };
    shell.ask(path, Request::AddWatch(AddWatchRequest { path: path.to_owned(), mode }))?;
    print_done(shell, || json!({ "watched": path }))
}

pub(super) fn remove(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = given.path(0)?;
    let kind = match (given.has('c'), given.has('d'), given.has('a')) {
        (true, false, false) => WatcherType::Children,
        (false, true, false) => WatcherType::Data,
        (false, false, _) => WatcherType::Any,
        _ => return Err(Failure::bad_input(find("removewatches")?.line())),
    };
    shell.ask(path, Request::RemoveWatches(RemoveWatchesRequest { path: path.to_owned(), kind }))?;
    print_done(shell, || json!({ "unwatched": path }))
}

pub(super) fn print(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    match given.word(0) {
        None => {}
        Some("on") => shell.out.prints_watches.store(true, Ordering::Relaxed),
        Some("off") => shell.out.prints_watches.store(false, Ordering::Relaxed),
        Some(_) => return Err(Failure::bad_input(find("printwatches")?.line())),
    }
    let is_on = shell.out.prints_watches.load(Ordering::Relaxed);
    let text = || format!("printwatches is {}", if is_on { "on" } else { "off" });
    shell.out.result(text, || json!({ "printwatches": is_on }))?;
    Ok(Next::Line)
}
