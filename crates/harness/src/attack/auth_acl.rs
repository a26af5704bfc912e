//! A create of less than a megabyte whose ACL stands for a list of a gigabyte: each entry `auth` means all identities of the
//! connection.

use std::io;

use pole_jute::{Acl, CreateMode, CreateRequest, ErrorCode, Id, Perms, Request, SetAclRequest};

use super::raw::add_auth;
use super::{Attack, Found, Service, Target, nothing};

pub(super) const ATTACK: Attack = Attack::service(
    "auth-acl",
    "create and setACL with 40,000 entries `auth` on a connection with 100 identities",
    Service::new(nothing, strike),
)
.quick();

fn strike(target: &Target) -> io::Result<Found> {
    let mut raw = target.session(target.leader)?;
    for number in 0..IDENTITIES {
        raw.send(&add_auth("digest", format!("u{number}:p").as_bytes()))?;
        raw.frame()?;
    }
    let acl: Vec<Acl> = (0..ENTRIES)
        .map(|number| Acl { perms: Perms::ALL, id: Id { scheme: "auth".into(), id: number.to_string() } })
        .collect();
    let (path, flags) = ("/attacked".to_owned(), CreateMode::Persistent.number());
    let create = CreateRequest { path, data: None, acl: acl.clone(), flags };
    let created = raw.ask(&Request::Create(create))?;
    let set = raw.ask(&Request::SetAcl(SetAclRequest { path: "/".into(), acl, version: -1 }))?;
    let is_refused = created == ErrorCode::BadArguments && set == ErrorCode::BadArguments;
    let note = format!("create: {created}, setACL: {set}");
    Ok(Found::note(note.clone()).unless(is_refused, || format!("not refused: {note}")))
}

const IDENTITIES: usize = 100;
const ENTRIES: usize = 40_000;
