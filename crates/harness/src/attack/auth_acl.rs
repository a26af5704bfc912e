//! A create of less than a megabyte whose ACL expands to a gigabyte: each `auth` entry stands for all identities of the
//! connection.

use std::io;

use pole_client::{add_auth, request_frame};
use pole_jute::{Acl, CreateMode, CreateRequest, ErrorCode, Id, Perms, Request, SetAclRequest, Xid};

use super::{Attack, EnsembleAttack, Findings, Target, no_preparation};

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "auth-acl",
    "create and setACL with 40,000 entries `auth` on a connection with 100 identities",
    EnsembleAttack::new(no_preparation, run),
)
.quick();

fn run(target: &Target) -> io::Result<Findings> {
    let mut raw = target.session(target.leader)?;
    for number in 0..IDENTITIES {
        raw.send(&request_frame(Xid::AUTH, &add_auth("digest", format!("u{number}:p").as_bytes())))?;
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
    Ok(Findings::note(note.clone()).require(is_refused, || format!("not refused: {note}")))
}

const IDENTITIES: usize = 100;
const ENTRIES: usize = 40_000;
