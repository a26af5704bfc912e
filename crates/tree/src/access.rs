//! Permission checks, and validation of the ACLs that clients submit.
//!
//! The rules are those of Apache's `checkACL` and `fixupACL`. Pole adds the admin path, which has an identity of its own
//! ([`Caller::ADMIN_SCHEME`]) that no client can obtain. What depends on the scheme of an identity is in `auth`.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cell::OnceCell;

use pole_jute::{Acl, ErrorCode, Id, Perms};

use crate::acls::{AclHandle, is_world};
use crate::auth::{Provider, is_superuser, provider};
use crate::grants::Identity;
use crate::{Caller, Rules};

/// What one caller may do. It prepares the identities of the caller when they first matter, for all checks of a request.
#[derive(Debug)]
pub(crate) struct Permissions<'a> {
    rules: Rules,
    caller: &'a Caller,
    identities: OnceCell<Vec<Identity<'a>>>,
}

impl<'a> Permissions<'a> {
    pub(crate) fn new(rules: Rules, caller: &'a Caller) -> Self {
        Self { rules, caller, identities: OnceCell::new() }
    }

    /// Whether the caller has any of these permissions.
    pub(crate) fn permit(&self, acl: &AclHandle, any_of: Perms) -> bool {
        self.rules.skip_acl || acl.world().intersects(any_of) || self.is_named(acl, any_of)
    }

    /// Like [`Self::permit`], with the error code for the client.
    pub(crate) fn check(&self, acl: &AclHandle, any_of: Perms) -> Result<(), ErrorCode> {
        if self.permit(acl, any_of) { Ok(()) } else { Err(ErrorCode::NoAuth) }
    }

    /// Whether the caller has every permission. With `by_name`, those that everybody has do not count.
    pub(crate) fn has_all(&self, acl: &AclHandle, by_name: bool) -> bool {
        let has = |perm: Perms| (!by_name && self.permit(acl, perm)) || self.is_named(acl, perm);
        [Perms::READ, Perms::WRITE, Perms::CREATE, Perms::DELETE, Perms::ADMIN].into_iter().all(has)
    }

    /// Whether an identity of the caller has any of these permissions.
    fn is_named(&self, acl: &AclHandle, any_of: Perms) -> bool {
        let identities = self.identities.get_or_init(|| Identity::all(self.caller));
        self.caller.ids.iter().any(is_superuser) || identities.iter().any(|id| acl.granted(id).intersects(any_of))
    }
}

/// The list to store: without duplicates, and with `auth` replaced by the identities that the caller has proved.
///
/// The size of each entry is subtracted from `room_bytes`. A list that needs more is rejected with `BadArguments`
/// before it is built: a request of a megabyte can expand to a list of a gigabyte.
pub(crate) fn fix_up(
    rules: Rules,
    list: &[Acl],
    caller: &Caller,
    room_bytes: &mut usize,
) -> Result<Vec<Acl>, ErrorCode> {
    let mut kept = Vec::new();
    let mut keep = |acl: Acl| -> Result<(), ErrorCode> {
        let bytes = 12 + acl.id.scheme.len() + acl.id.id.len();
        *room_bytes = room_bytes.checked_sub(bytes).ok_or(ErrorCode::BadArguments)?;
        kept.push(acl);
        Ok(())
    };
    // The client chooses the length of the list, so duplicates are not found by comparing all pairs.
    let mut seen = BTreeSet::new();
    for acl in list {
        if !seen.insert((acl.perms, &acl.id.scheme, &acl.id.id)) {
            continue;
        }
        if acl.id.scheme == "auth" {
            let mut proved = caller.ids.iter().filter(|id| is_authenticated(id)).peekable();
            if proved.peek().is_none() {
                return Err(ErrorCode::InvalidAcl);
            }
            for id in proved {
                keep(Acl { perms: acl.perms, id: id.clone() })?;
            }
        } else if is_storable(rules, &acl.id) {
            keep(acl.clone())?;
        } else {
            return Err(ErrorCode::InvalidAcl);
        }
    }
    if kept.is_empty() { Err(ErrorCode::InvalidAcl) } else { Ok(kept) }
}

/// The entry as shown to a reader who may not change the ACL: without password hashes.
#[must_use]
pub fn masked(acl: &Acl) -> Acl {
    let Some(provider) = provider(&acl.id.scheme) else { return acl.clone() };
    let id = provider.masked(&acl.id.id).into_owned();
    Acl { perms: acl.perms, id: Id { scheme: acl.id.scheme.clone(), id } }
}

/// Whether an identity is among those that the scheme `auth` stands for.
fn is_authenticated(id: &Id) -> bool {
    provider(&id.scheme).is_some_and(|provider| provider.is_authenticated())
}

/// Whether a node may have an ACL with this identity.
pub(crate) fn is_storable(rules: Rules, id: &Id) -> bool {
    let is_valid = |provider: &dyn Provider| provider.is_offered(rules) && provider.is_valid(&id.id);
    is_world(id) || provider(&id.scheme).is_some_and(is_valid)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;
    use alloc::vec;

    fn id(scheme: &str, id: &str) -> Id {
        Id { scheme: scheme.into(), id: id.into() }
    }

    fn acl(perms: Perms, scheme: &str, name: &str) -> Acl {
        Acl { perms, id: id(scheme, name) }
    }

    fn caller(ids: &[(&str, &str)]) -> Caller {
        Caller { ids: ids.iter().map(|(scheme, name)| id(scheme, name)).collect() }
    }

    fn permits(list: &[Acl], perms: Perms, ids: &[(&str, &str)]) -> bool {
        let caller = caller(ids);
        Permissions::new(Rules::default(), &caller).permit(&AclHandle::unnumbered(list.to_vec()), perms)
    }

    #[test]
    fn world_has_the_permissions_of_all_its_entries() {
        let list = [acl(Perms::READ, "world", "anyone"), acl(Perms::WRITE, "world", "anyone")];
        assert!(permits(&list, Perms::WRITE, &[]));
        assert!(!permits(&list, Perms::ADMIN, &[]));
    }

    #[test]
    fn one_of_several_permissions_is_enough() {
        assert!(permits(&[acl(Perms::ADMIN, "world", "anyone")], Perms::READ | Perms::ADMIN, &[]));
    }

    #[test]
    fn a_digest_must_match_and_super_may_do_everything() {
        let list = [acl(Perms::ALL, "digest", "u:h")];
        assert!(permits(&list, Perms::READ, &[("digest", "u:h")]));
        assert!(!permits(&list, Perms::READ, &[("digest", "u:i"), ("x509", "u:h")]));
        assert!(permits(&list, Perms::READ, &[("super", "")]));
    }

    fn kept(list: &[Acl], caller: &Caller) -> Result<Vec<Acl>, ErrorCode> {
        fix_up(Rules::default(), list, caller, &mut 10_000)
    }

    #[test]
    fn auth_becomes_what_the_caller_has_proved() {
        let asked = [acl(Perms::READ, "auth", "")];
        let given = kept(&asked, &caller(&[("ip", "::1"), ("digest", "u:h"), ("super", "")]));
        assert_eq!(given, Ok(vec![acl(Perms::READ, "digest", "u:h")]));
        assert_eq!(kept(&asked, &caller(&[("ip", "::1")])), Err(ErrorCode::InvalidAcl));
    }

    #[test]
    fn an_invalid_acl_is_rejected() {
        let odd = [
            vec![],
            vec![acl(Perms::ALL, "world", "someone")],
            vec![acl(Perms::ALL, "digest", "nocolon")],
            vec![acl(Perms::ALL, "digest", "u:")],
            vec![acl(Perms::ALL, "ip", "10.0.0.1/40")],
            vec![acl(Perms::ALL, "super", "")],
            vec![acl(Perms::ALL, "world", "anyone"), acl(Perms::ALL, "foo", "bar")],
        ];
        for list in odd {
            assert_eq!(kept(&list, &caller(&[])), Err(ErrorCode::InvalidAcl), "{list:?}");
        }
    }

    #[test]
    fn a_digest_cannot_be_set_if_the_scheme_is_disabled() {
        let rules = Rules { digest_acls: false, ..Rules::default() };
        let list = [acl(Perms::ALL, "digest", "u:h")];
        assert_eq!(fix_up(rules, &list, &caller(&[]), &mut 10_000), Err(ErrorCode::InvalidAcl));
        assert!(kept(&list, &caller(&[])).is_ok());
    }

    #[test]
    fn duplicates_are_dropped() {
        let open = acl(Perms::ALL, "world", "anyone");
        assert_eq!(kept(&[open.clone(), open.clone()], &caller(&[])), Ok(vec![open]));
    }

    #[test]
    fn a_list_that_expands_too_far_is_rejected_before_it_is_built() {
        let asked: Vec<Acl> = (0..50_000_u32).map(|number| acl(Perms::ALL, "auth", &format!("{number}"))).collect();
        let ids: Vec<String> = (0..150).map(|number| format!("u{number}:h")).collect();
        let proved: Vec<(&str, &str)> = ids.iter().map(|id| ("digest", id.as_str())).collect();
        let mut room = 10_000;
        assert_eq!(fix_up(Rules::default(), &asked, &caller(&proved), &mut room), Err(ErrorCode::BadArguments));
        assert!(room < 40, "rejected too early: {room} bytes are left");
    }

    #[test]
    fn a_reader_does_not_see_hashes() {
        assert_eq!(masked(&acl(Perms::ALL, "digest", "u:h")).id.id, "u:x");
        assert_eq!(masked(&acl(Perms::ALL, "ip", "::1")).id.id, "::1");
    }
}
