//! Commands about identities and permissions.

use pole_client::add_auth as auth_request;
use pole_jute::{Acl, ErrorCode, GetAclRequest, Id, Perms, Reply, Request, SetAclRequest};
use serde_json::json;

use super::commands::Given;
use super::nodes::{print_done, print_stat, subtree};
use super::output::{PERMS, acl_json, acl_text, stat_json, stat_text};
use super::{Next, Shell, refused, unexpected};
use crate::failure::Failure;

pub(super) fn get_acl(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = given.path(0)?;
    let reply = shell.ask(path, Request::GetAcl(GetAclRequest { path: path.to_owned() }))?;
    let Reply::GetAcl(reply) = reply else { return Err(unexpected(&reply)) };
    let stat = given.has('s').then_some(&reply.stat);
    let text = || match stat {
        Some(stat) => format!("{}\n{}", acl_text(&reply.acl), stat_text(stat)),
        None => acl_text(&reply.acl),
    };
    shell.out.result(text, || json!({"path": path, "acl": acl_json(&reply.acl), "stat": stat.map(stat_json)}))?;
    Ok(Next::Line)
}

pub(super) fn set_acl(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let path = given.path(0)?;
    let acl = parse_acl(given.word(1).unwrap_or_default())?;
    let version = given.version()?;
    let request = |path: &str| Request::SetAcl(SetAclRequest { path: path.to_owned(), acl: acl.clone(), version });
    if !given.has('R') {
        let reply = shell.ask(path, request(path))?;
        let Reply::SetAcl(reply) = reply else { return Err(unexpected(&reply)) };
        return print_stat(shell, path, &reply.stat, given.has('s'));
    }
    // Listed first: afterwards this session may no longer be allowed to.
    for path in subtree(shell, path)? {
        match shell.ask_all(vec![request(&path)])?.pop() {
            Some(Err(ErrorCode::NoNode)) | None => {}
            Some(Err(code)) => return Err(refused(code, &path)),
            Some(Ok(Reply::SetAcl(reply))) => {
                print_stat(shell, &path, &reply.stat, given.has('s'))?;
            }
            Some(Ok(other)) => return Err(unexpected(&other)),
        }
    }
    Ok(Next::Line)
}

pub(super) fn add_auth(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let scheme = given.word(0).unwrap_or_default();
    let identity = given.word(1).unwrap_or_default();
    shell.ask("/", auth_request(scheme, identity.as_bytes()))?;
    print_done(shell, || json!({ "added": scheme }))
}

pub(super) fn who_am_i(shell: &mut Shell, _: &Given) -> Result<Next, Failure> {
    let reply = shell.ask("/", Request::WhoAmI)?;
    let Reply::WhoAmI(reply) = reply else { return Err(unexpected(&reply)) };
    let mut identities: Vec<(&str, &str)> =
        reply.client_info.iter().map(|info| (info.auth_scheme.as_str(), info.user.as_str())).collect();
    identities.sort_unstable();
    let text = || {
        let lines = identities.iter().map(|(scheme, user)| format!("\n{scheme}: {user}"));
        format!("Auth scheme: User{}", lines.collect::<String>())
    };
    let json = || identities.iter().map(|(scheme, user)| json!({"scheme": scheme, "user": user})).collect();
    shell.out.result(text, json)?;
    Ok(Next::Line)
}

/// Parses `scheme:id:perms,…`. The id may contain colons.
pub(super) fn parse_acl(text: &str) -> Result<Vec<Acl>, Failure> {
    text.split(',').map(parse_entry).collect()
}

fn parse_entry(text: &str) -> Result<Acl, Failure> {
    let form = || Failure::bad_input(format!("{text} does not have the form scheme:id:perm"));
    let (scheme, rest) = text.split_once(':').ok_or_else(form)?;
    let (id, letters) = rest.rsplit_once(':').ok_or_else(form)?;
    let mut perms = Perms::NONE;
    for letter in letters.chars() {
        let known = PERMS.iter().find(|(known, _)| *known == letter);
        let unknown =
            || Failure::bad_input(format!("Unknown perm type: {letter}; expected letters of cdrwa in {text}"));
        perms = perms | known.ok_or_else(unknown)?.1;
    }
    Ok(Acl { perms, id: Id { scheme: scheme.to_owned(), id: id.to_owned() } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acl_is_a_list_of_scheme_id_and_letters() {
        let acl = parse_acl("world:anyone:r,digest:bob:x=:cdrwa,auth::rw").unwrap();
        assert_eq!(acl[0].perms, Perms::READ);
        assert_eq!((acl[1].id.id.as_str(), acl[1].perms), ("bob:x=", Perms::ALL));
        assert_eq!((acl[2].id.scheme.as_str(), acl[2].id.id.as_str()), ("auth", ""));
    }

    #[test]
    fn a_wrong_acl_says_what_is_wrong() {
        assert!(parse_acl("world").unwrap_err().to_string().contains("scheme:id:perm"));
        assert!(parse_acl("world:anyone").unwrap_err().to_string().contains("scheme:id:perm"));
        assert!(parse_acl("world:anyone:x").unwrap_err().to_string().contains("Unknown perm type: x"));
    }
}
