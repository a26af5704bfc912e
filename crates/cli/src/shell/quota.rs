//! Commands about quotas: limits of nodes and bytes in a subtree.
//!
//! A quota is a node `zookeeper_limits` at the path of the subtree below `/zookeeper/quota`, beside a node
//! `zookeeper_stats` in which servers keep what is used. Soft limits (`count`, `bytes`) only warn in the log of a
//! server; hard limits refuse the write. -1 is no limit.

use pole_client::{create, delete as delete_request, exists, get_data, set_data};
use pole_jute::{CreateMode, ErrorCode, Reply};
use serde_json::json;

use super::commands::{Given, find};
use super::nodes::print_done;
use super::output::data_text;
use super::{Next, Shell, refused, unexpected};
use crate::failure::Failure;

pub(super) fn set(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = subject(given)?;
    let (option, field) = only_option(given)?.ok_or_else(usage("setquota"))?;
    let limit: i64 = given.number(option)?.unwrap_or(-1);
    if limit < 0 {
        return Err(Failure::bad_input(format!("the limit must not be negative, got {limit}")));
    }
    if path == "/zookeeper" || path.starts_with("/zookeeper/") {
        return Err(Failure::bad_input("cannot set a quota under /zookeeper"));
    }
    if is_missing(shell, path)? {
        return Err(Failure::failed(format!("{path} does not exist.")));
    }
    check_nesting(shell, path)?;
    let node = limits_node(path);
    match read(shell, &node)? {
        Some(text) => drop(shell.ask(&node, set_data(&node, with_limit(&text, field, limit).as_bytes()))?),
        None => create_quota(shell, path, &with_limit(NO_LIMITS, field, limit))?,
    }
    print_done(shell, || json!({"path": path, field: limit}))
}

pub(super) fn list(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = subject(given)?;
    let (limits, used) = (read(shell, &limits_node(path))?, read(shell, &stats_node(path))?);
    let text = || {
        let head = format!("absolute path is {}", limits_node(path));
        match (&limits, &used) {
            (Some(limits), used) => {
                let used = used.as_deref().unwrap_or_default();
                format!("{head}\nOutput quota for {path} {limits}\nOutput stat for {path} {used}")
            }
            (None, _) => format!("{head}\nquota for {path} does not exist."),
        }
    };
    shell.out.result(text, || json!({"path": path, "quota": limits, "stat": used}))?;
    Ok(Next::Line)
}

pub(super) fn delete(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = subject(given)?;
    let node = limits_node(path);
    let missing = || Failure::failed(format!("Quota does not exist for {path}"));
    let text = read(shell, &node)?.ok_or_else(missing)?;
    match only_option(given)? {
        Some((_, field)) => drop(shell.ask(&node, set_data(&node, with_limit(&text, field, -1).as_bytes()))?),
        None => delete_quota(shell, path)?,
    }
    print_done(shell, || json!({"path": path}))
}

/// The path of a quota, which cannot be the root.
fn subject(given: &Given) -> Result<&str, Failure> {
    match given.path(0)? {
        "/" => Err(Failure::bad_input("Path must not end with / character")),
        path => Ok(path),
    }
}

/// The one option that names a limit, and the field that it stands for.
fn only_option(given: &Given) -> Result<Option<(char, &'static str)>, Failure> {
    let mut named = FIELDS.iter().filter(|(option, _)| given.has(*option));
    let first = named.next().copied();
    match named.next() {
        Some((other, _)) => {
            let first = first.map_or(' ', |(option, _)| option);
            let text = format!("The option '{other}' was specified but an option from this group");
            Err(Failure::bad_input(format!("{text} has already been selected: '{first}'")))
        }
        None => Ok(first),
    }
}

fn usage(name: &'static str) -> impl FnOnce() -> Failure {
    move || Failure::bad_input(find(name).map(|command| command.line()).unwrap_or_default())
}

/// A quota inside of another one would not be counted.
fn check_nesting(shell: &Shell, path: &str) -> Result<(), Failure> {
    for (end, _) in path.match_indices('/').filter(|(end, _)| *end > 0) {
        let parent = &path[..end];
        if read(shell, &limits_node(parent))?.is_some() {
            return Err(Failure::failed(format!("{path} has a parent {parent} which has a quota")));
        }
    }
    let below = format!("{QUOTA}{path}");
    if is_missing(shell, &below)? {
        return Ok(());
    }
    let own = limits_node(path);
    let inner = super::nodes::subtree(shell, &below)?.into_iter().find(|node| node.ends_with(LIMITS) && *node != own);
    match inner {
        Some(node) => {
            let child = node.trim_start_matches(QUOTA).trim_end_matches(LIMITS).trim_end_matches('/');
            Err(Failure::failed(format!("{path} has a child {child} which has a quota")))
        }
        None => Ok(()),
    }
}

fn create_quota(shell: &Shell, path: &str, limits: &str) -> Result<(), Failure> {
    let ends = path.match_indices('/').map(|(end, _)| end).skip(1).chain([path.len()]);
    let parents = ends.map(|end| format!("{QUOTA}{}", &path[..end]));
    let nodes = parents
        .map(|node| (node, String::new()))
        .chain([(limits_node(path), limits.to_owned()), (stats_node(path), NOTHING_USED.to_owned())]);
    for (node, data) in nodes {
        match shell.ask_all(vec![create(&node, data.as_bytes(), CreateMode::Persistent)])?.pop() {
            Some(Err(code)) if code != ErrorCode::NodeExists => return Err(refused(code, &node)),
            _ => {}
        }
    }
    Ok(())
}

/// Deletes both nodes, and then the parents that are empty.
fn delete_quota(shell: &Shell, path: &str) -> Result<(), Failure> {
    for node in [limits_node(path), stats_node(path)] {
        shell.ask(&node, delete_request(&node))?;
    }
    let mut end = path.len();
    while end > 0 {
        let node = format!("{QUOTA}{}", &path[..end]);
        match shell.ask_all(vec![delete_request(&node)])?.pop() {
            Some(Err(ErrorCode::NotEmpty | ErrorCode::NoNode)) | None => break,
            Some(Err(code)) => return Err(refused(code, &node)),
            Some(Ok(_)) => end = path[..end].rfind('/').unwrap_or(0),
        }
    }
    Ok(())
}

/// The data of a node as text, if it exists.
fn read(shell: &Shell, node: &str) -> Result<Option<String>, Failure> {
    match shell.ask_all(vec![get_data(node, false)])?.pop() {
        Some(Ok(Reply::GetData(reply))) => Ok(Some(data_text(reply.data.as_ref()))),
        Some(Ok(other)) => Err(unexpected(&other)),
        Some(Err(ErrorCode::NoNode)) | None => Ok(None),
        Some(Err(code)) => Err(refused(code, node)),
    }
}

fn is_missing(shell: &Shell, node: &str) -> Result<bool, Failure> {
    Ok(matches!(shell.ask_all(vec![exists(node)])?.pop(), Some(Err(ErrorCode::NoNode))))
}

/// Replaces one limit. A limit that the text does not have is added, as older servers wrote only two.
fn with_limit(text: &str, field: &str, limit: i64) -> String {
    let value = |name: &str| {
        let fields = text.split([',', ';']).filter_map(|part| part.split_once('='));
        let found =
            fields.filter(|(key, _)| *key == name).find_map(|(_, value)| value.trim_end_matches('=').parse().ok());
        if name == field { limit } else { found.unwrap_or(-1) }
    };
    format!(
        "count={},bytes={}=;byteHardLimit={};countHardLimit={}",
        value("count"),
        value("bytes"),
        value("byteHardLimit"),
        value("countHardLimit")
    )
}

fn limits_node(path: &str) -> String {
    format!("{QUOTA}{path}/{LIMITS}")
}

fn stats_node(path: &str) -> String {
    format!("{QUOTA}{path}/zookeeper_stats")
}

/// The options of limits and their names in a quota.
const FIELDS: [(char, &str); 4] = [('n', "count"), ('b', "bytes"), ('N', "countHardLimit"), ('B', "byteHardLimit")];

const QUOTA: &str = "/zookeeper/quota";
const LIMITS: &str = "zookeeper_limits";
const NO_LIMITS: &str = "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=-1";

/// A server replaces it by what is used.
const NOTHING_USED: &str = "count=0,bytes=0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_limit_changes_and_the_others_stay() {
        let text = with_limit(NO_LIMITS, "count", 2);
        assert_eq!(text, "count=2,bytes=-1=;byteHardLimit=-1;countHardLimit=-1");
        assert_eq!(with_limit(&text, "byteHardLimit", 9), "count=2,bytes=-1=;byteHardLimit=9;countHardLimit=-1");
        assert_eq!(with_limit("count=5,bytes=7", "count", -1), "count=-1,bytes=7=;byteHardLimit=-1;countHardLimit=-1");
    }
}
