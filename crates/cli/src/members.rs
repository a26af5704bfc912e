//! `pole members`: shows and changes the servers of the ensemble.
//!
//! A server that is added becomes an observer first, which nobody waits for, and a voter only when it has everything that
//! the leader had when the wait began. So the ensemble never counts on a server that is still copying. What would leave no
//! quorum is refused here with the reason, and by the leader in any case.
//!
//! Every change names the version of the members that it was decided on, so that two operators cannot undo each other's.

use std::thread;
use std::time::{Duration, Instant};

use pole_api::{ChangeMembers, Ensemble, Member, Members};
use pole_server::config::{MemberRole, Server};

use crate::admin::{Admin, Reply};
use crate::args::{MembersCommand, Ms};
use crate::failure::Failure;
use crate::paint::{Paint, Table};
use crate::{print, print_error};

pub(crate) fn run(command: MembersCommand, json: bool, paint: Paint) -> Result<(), Failure> {
    match command {
        MembersCommand::List(at) => {
            let admin = Admin::new(&at);
            let (members, ensemble) = (admin.members()?, admin.ensemble()?.typed()?);
            print(&members.text(json, |members| list(members, &ensemble, paint))?)
        }
        MembersCommand::Add { server, observer, timeout, at } => {
            add(&Admin::new(&at), &server, observer, timeout, json)
        }
        MembersCommand::Remove { id, at } => remove(&Admin::new(&at), id, json),
        MembersCommand::Promote { id, timeout, at } => {
            let admin = Admin::new(&at);
            match set_role(&admin, id, MemberRole::Participant, Some(timeout), json)? {
                Some(reply) => report(&reply, json, &format!("Server {id} votes.")),
                None => report(&admin.members()?, json, &format!("Server {id} votes already; nothing to do.")),
            }
        }
        MembersCommand::Demote { id, at } => {
            let admin = Admin::new(&at);
            match set_role(&admin, id, MemberRole::Observer, None, json)? {
                Some(reply) => report(&reply, json, &format!("Server {id} is an observer and does not vote.")),
                None => report(&admin.members()?, json, &format!("Server {id} is an observer already; nothing to do.")),
            }
        }
    }
}

fn add(admin: &Admin, line: &str, observer: bool, timeout: Ms, json: bool) -> Result<(), Failure> {
    let (id, server) = parse(line)?;
    let members = admin.members()?.typed()?;
    if let Some(member) = members.members.iter().find(|member| member.id == id) {
        let advice = "remove it first, or use promote and demote to change its role";
        return Err(Failure::bad_input(format!("server {id} is a member already, {}: {advice}", member.line)));
    }
    let as_observer = Server { role: MemberRole::Observer, ..server };
    let join = vec![format!("server.{id}={as_observer}")];
    let reply = admin.change_members(&ChangeMembers { join, leave: Vec::new(), version: Some(members.version) })?;
    if observer {
        return report(&reply, json, &format!("Server {id} is an observer."));
    }
    say(json, &format!("Server {id} is an observer until it has everything."));
    match set_role(admin, id, MemberRole::Participant, Some(timeout), json)? {
        Some(reply) => report(&reply, json, &format!("Server {id} votes.")),
        None => report(&admin.members()?, json, &format!("Server {id} votes.")),
    }
}

fn remove(admin: &Admin, id: u64, json: bool) -> Result<(), Failure> {
    let members = admin.members()?.typed()?;
    member(&members, id)?;
    let stay = |member: &&Member| member.id != id && member.role == "participant";
    check_quorum(&members, &admin.ensemble()?.typed()?, stay, &format!("without server {id}"))?;
    let change = ChangeMembers { join: Vec::new(), leave: vec![id], version: Some(members.version) };
    let reply = admin.change_members(&change)?;
    report(&reply, json, &format!("Server {id} is not a member any more. It follows until it is stopped."))
}

/// Changes the role of a member, after waiting until it has everything if a limit is given. `None` if it has the role.
fn set_role(
    admin: &Admin,
    id: u64,
    role: MemberRole,
    wait: Option<Ms>,
    json: bool,
) -> Result<Option<Reply<Members>>, Failure> {
    let members = admin.members()?.typed()?;
    let member = member(&members, id)?;
    if member.role == role.name() {
        return Ok(None);
    }
    let line = |why: String| Failure::failed(format!("the line of server {id} cannot be read: {why}"));
    let server = Server::parse(&member.line).map_err(line)?;
    if let Some(limit) = wait {
        wait_until_level(admin, id, limit, json)?;
    }
    if role == MemberRole::Observer {
        let stay = |member: &&Member| member.id != id && member.role == "participant";
        let what = format!("if server {id} does not vote");
        check_quorum(&members, &admin.ensemble()?.typed()?, stay, &what)?;
    }
    let join = vec![format!("server.{id}={}", Server { role, ..server })];
    let change = ChangeMembers { join, leave: Vec::new(), version: Some(members.version) };
    admin.change_members(&change).map(Some)
}

/// Waits until a server has everything that the leader has now.
fn wait_until_level(admin: &Admin, id: u64, limit: Ms, json: bool) -> Result<(), Failure> {
    let until = Instant::now() + Duration::from_millis(limit.0);
    let mut goal = None;
    let mut said = None;
    loop {
        let ensemble = admin.ensemble()?.typed()?;
        let zxid_of = |id: u64| {
            let server = ensemble.servers.iter().find(|server| server.id == id && server.alive)?;
            zxid(server.zxid.as_deref()?)
        };
        goal = goal.or_else(|| ensemble.leader.and_then(zxid_of));
        let (now, has) = (Instant::now(), zxid_of(id));
        if has.is_some() && goal.is_some() && has >= goal {
            return Ok(());
        }
        let state = match (has, goal) {
            (Some(has), Some(goal)) => format!("Server {id} has {has:#x} of {goal:#x}."),
            (None, _) => {
                format!("Server {id} does not answer. Is it running, and does its configuration list the others?")
            }
            (_, None) => "The leader's position is not known yet.".to_owned(),
        };
        if now >= until {
            let advice = "it stays an observer; run `pole members promote` when it has everything";
            return Err(Failure::failed(format!("not within {}: {state} {advice}", limit.text())));
        }
        if said.as_ref() != Some(&state) {
            say(json, &state);
            said = Some(state);
        }
        // Positions come with the heartbeats of the servers; there is no event to wait for.
        thread::sleep(POLL);
    }
}

/// Checks that a quorum of those who would vote answers.
fn check_quorum(
    members: &Members,
    ensemble: &Ensemble,
    votes: impl Fn(&&Member) -> bool,
    what: &str,
) -> Result<(), Failure> {
    if members.members.iter().any(|member| member.group.is_some()) {
        return Ok(()); // the leader knows how weights count
    }
    let voters: Vec<u64> = members.members.iter().filter(votes).map(|member| member.id).collect();
    let is_alive = |id: &u64| ensemble.servers.iter().any(|server| server.id == *id && server.alive);
    let (alive, silent): (Vec<u64>, Vec<u64>) = voters.iter().copied().partition(is_alive);
    if alive.len() * 2 > voters.len() {
        return Ok(());
    }
    let silent: Vec<String> = silent.iter().map(u64::to_string).collect();
    Err(Failure::failed(format!(
        "{what}, {} of {} voters would answer, which is no quorum: start {} first",
        alive.len(),
        voters.len(),
        if silent.is_empty() { "others".to_owned() } else { format!("server {}", silent.join(", ")) }
    )))
}

fn member(members: &Members, id: u64) -> Result<&Member, Failure> {
    let ids: Vec<String> = members.members.iter().map(|member| member.id.to_string()).collect();
    let unknown = || Failure::bad_input(format!("server {id} is no member: the members are {}", ids.join(", ")));
    members.members.iter().find(|member| member.id == id).ok_or_else(unknown)
}

fn parse(line: &str) -> Result<(u64, Server), Failure> {
    let form = || Failure::bad_input(format!("\"{line}\" is no server: expected server.4=host:2888:3888;2181"));
    let (key, value) = line.split_once('=').ok_or_else(form)?;
    let id = key.strip_prefix("server.").unwrap_or(key).trim().parse().map_err(|_| form())?;
    let server = Server::parse(value).map_err(|why| Failure::bad_input(format!("server {id}: {why}")))?;
    if server.client.is_none() {
        return Err(Failure::bad_input(format!("server {id}: its client port is missing: add ;2181 at the end")));
    }
    Ok((id, server))
}

fn zxid(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn list(members: &Members, ensemble: &Ensemble, paint: Paint) -> String {
    if members.members.is_empty() {
        return "The server stands alone: its configuration lists no servers.\n".to_owned();
    }
    let mut table = Table::new(&["server", "role", "address", "state", "has"], paint);
    for member in &members.members {
        let known = ensemble.servers.iter().find(|server| server.id == member.id);
        let mode = known.and_then(|server| server.mode.clone()).filter(|_| known.is_some_and(|server| server.alive));
        let is_down = mode.is_none();
        let address = member.line.replacen(&format!(":{}", member.role), "", 1);
        let cells = [
            member.id.to_string(),
            member.role.clone(),
            address,
            mode.unwrap_or_else(|| "down".to_owned()),
            known.and_then(|server| server.zxid.clone()).unwrap_or_default(),
        ];
        table.row(cells, |text| if is_down { paint.red(text) } else { text.to_owned() });
    }
    let since = match members.version.as_str() {
        "0x0" => "as configured".to_owned(),
        version => format!("changed at {version}"),
    };
    let can = if members.changeable { "" } else { " They can be changed only with reconfigEnabled=true." };
    format!("{} members, {since}.{can}\n\n{}", members.members.len(), table.text())
}

fn report(reply: &Reply<Members>, json: bool, text: &str) -> Result<(), Failure> {
    print(&reply.text(json, |_| format!("{text}\n"))?)
}

/// What happens meanwhile. Programs that read JSON do not want it.
fn say(json: bool, text: &str) {
    if !json {
        print_error(&format!("{text}\n"));
    }
}

/// Heartbeats are more frequent than that.
const POLL: Duration = Duration::from_millis(100);
