//! What each identity may do under one ACL.
//!
//! A client chooses the length of an ACL and may have a hundred identities, and a multi checks thousands of nodes. So a
//! check visits no list: it looks each identity up.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use hashbrown::HashTable;
use pole_jute::{Acl, Id, Perms};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Caller;
use crate::acls::is_world;
use crate::auth::{Matching, Network, Prefix, SCHEMES, numbered_provider};

/// The permissions of an ACL by identity. Those of everyone are not in it.
#[derive(Debug)]
pub(crate) struct Grants {
    /// One of the entries of each identity, with the permissions of all of them.
    by_id: HashTable<Grant>,
    /// The permissions of all entries of each scheme.
    by_scheme: [Perms; SCHEMES],
    networks: BTreeMap<Network, Perms>,
    /// The prefixes of the networks: as many lookups as an address needs.
    prefixes: BTreeSet<Prefix>,
}

#[derive(Debug)]
struct Grant {
    hash: u64,
    /// The index of the entry in the list.
    entry: u32,
    perms: Perms,
}

impl Grants {
    pub(crate) fn new(list: &[Acl]) -> Self {
        let mut grants = Self {
            by_id: HashTable::new(),
            by_scheme: [Perms::NONE; SCHEMES],
            networks: BTreeMap::new(),
            prefixes: BTreeSet::new(),
        };
        for (index, Acl { perms, id }) in list.iter().enumerate().filter(|(_, acl)| !is_world(&acl.id)) {
            let Some((scheme, provider)) = numbered_provider(&id.scheme) else { continue };
            let of_scheme = &mut grants.by_scheme[scheme];
            *of_scheme = *of_scheme | *perms;
            if let Some(network) = provider.network(&id.id) {
                grants.prefixes.insert(network.prefix());
                let before = grants.networks.entry(network).or_insert(Perms::NONE);
                *before = *before | *perms;
                continue;
            }
            let hash = hash_of(id);
            let same = |grant: &Grant| grant.hash == hash && list[grant.entry as usize].id == *id;
            match grants.by_id.find_mut(hash, same) {
                Some(grant) => grant.perms = grant.perms | *perms,
                None => {
                    let grant = Grant { hash, entry: index as u32, perms: *perms };
                    grants.by_id.insert_unique(hash, grant, |grant| grant.hash);
                }
            }
        }
        grants
    }

    /// The permissions of an identity. `list` is the one that these were made from.
    pub(crate) fn of(&self, identity: &Identity, list: &[Acl]) -> Perms {
        match identity.matching {
            Matching::None => Perms::NONE,
            Matching::All => self.by_scheme[identity.scheme],
            Matching::Same => {
                let same = |grant: &Grant| grant.hash == identity.hash && list[grant.entry as usize].id == *identity.id;
                self.by_id.find(identity.hash, same).map_or(Perms::NONE, |grant| grant.perms)
            }
            Matching::Networks(address) => {
                let networks = self.prefixes.iter().filter_map(|prefix| Network::of(address, *prefix));
                let perms = networks.filter_map(|network| self.networks.get(&network));
                perms.fold(Perms::NONE, |all, perms| all | *perms)
            }
        }
    }
}

/// An identity of a caller, prepared for lookups.
#[derive(Debug)]
pub(crate) struct Identity<'a> {
    id: &'a Id,
    /// The number of its scheme.
    scheme: usize,
    matching: Matching,
    hash: u64,
}

impl<'a> Identity<'a> {
    /// All identities of a caller.
    pub(crate) fn all(caller: &'a Caller) -> Vec<Self> {
        let known = caller.ids.iter().filter_map(|id| {
            let (scheme, provider) = numbered_provider(&id.scheme)?;
            Some(Self { id, scheme, matching: provider.matching(&id.id), hash: hash_of(id) })
        });
        known.collect()
    }
}

fn hash_of(id: &Id) -> u64 {
    xxh3_64_with_seed(id.id.as_bytes(), id.scheme.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn id(scheme: &str, id: &str) -> Id {
        Id { scheme: scheme.into(), id: id.into() }
    }

    fn granted(list: &[Acl], scheme: &str, name: &str) -> Perms {
        let caller = Caller { ids: vec![id(scheme, name)] };
        let grants = Grants::new(list);
        Identity::all(&caller).iter().fold(Perms::NONE, |all, identity| all | grants.of(identity, list))
    }

    #[test]
    fn an_identity_has_the_permissions_of_all_its_entries_and_of_no_others() {
        let list = [
            Acl { perms: Perms::READ, id: id("digest", "u:h") },
            Acl { perms: Perms::WRITE, id: id("digest", "u:h") },
            Acl { perms: Perms::ADMIN, id: id("digest", "v:h") },
            Acl { perms: Perms::CREATE, id: id("x509", "u:h") },
            Acl { perms: Perms::DELETE, id: id("world", "anyone") },
        ];
        assert_eq!(granted(&list, "digest", "u:h"), Perms::READ | Perms::WRITE);
        assert_eq!(granted(&list, "x509", "u:h"), Perms::CREATE);
        assert_eq!(granted(&list, "digest", "w:h"), Perms::NONE);
        assert_eq!(granted(&list, "world", "anyone"), Perms::NONE, "these are not in it");
    }

    #[test]
    fn an_address_has_the_permissions_of_every_network_that_contains_it() {
        let entry = |perms, network| Acl { perms, id: id("ip", network) };
        let list =
            [entry(Perms::READ, "10.0.0.0/8"), entry(Perms::WRITE, "10.1.2.3"), entry(Perms::ADMIN, "10.2.0.0/16")];
        assert_eq!(granted(&list, "ip", "10.1.2.3"), Perms::READ | Perms::WRITE);
        assert_eq!(granted(&list, "ip", "::ffff:10.2.0.1"), Perms::READ | Perms::ADMIN);
        assert_eq!(granted(&list, "ip", "11.1.2.3"), Perms::NONE);
    }

    #[test]
    fn the_sasl_user_super_has_the_permissions_of_every_sasl_user() {
        let list =
            [Acl { perms: Perms::READ, id: id("sasl", "bob") }, Acl { perms: Perms::WRITE, id: id("digest", "b:h") }];
        assert_eq!(granted(&list, "sasl", "super"), Perms::READ);
        assert_eq!(granted(&list, "sasl", "eve"), Perms::NONE);
    }
}
