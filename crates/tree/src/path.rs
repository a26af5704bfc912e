//! Path validation and the reserved paths of the service.
//!
//! The rules are those of Apache's `PathUtils`. Its characters are UTF-16 units, so everything outside the basic
//! multilingual plane is rejected.

use xxhash_rust::xxh3::Xxh3;

use crate::node::hash;

pub(crate) const ROOT: &str = "/";
/// The parent of all reserved nodes.
pub(crate) const ZOOKEEPER: &str = "/zookeeper";
/// The parent of the limits and usage of subtrees.
pub(crate) const QUOTA: &str = "/zookeeper/quota";
/// The servers of the ensemble.
pub(crate) const CONFIG: &str = "/zookeeper/config";
/// The settings of Pole, written through the admin path only.
pub(crate) const POLE: &str = "/zookeeper/pole";

/// Whether a client may use the path for a node.
pub(crate) fn is_valid(path: &str) -> bool {
    let Some(names) = path.strip_prefix('/') else { return false };
    names.is_empty() || names.split('/').all(|name| !matches!(name, "" | "." | "..") && has_valid_characters(name))
}

/// The number of names in a path.
pub(crate) fn depth(path: &str) -> usize {
    path.bytes().filter(|byte| *byte == b'/').count()
}

/// Splits a path into parent and name; none without a slash. The root is a nameless child of itself, as in Apache.
pub(crate) fn split(path: &str) -> Option<(&str, &str)> {
    let slash = path.rfind('/')?;
    Some((if slash == 0 { ROOT } else { &path[..slash] }, &path[slash + 1..]))
}

/// Whether the node is required by the service and therefore cannot be deleted.
pub(crate) fn is_reserved(path: &str) -> bool {
    [ROOT, ZOOKEEPER, QUOTA, CONFIG].contains(&path)
}

/// Whether the path is Pole's settings node or below it.
pub(crate) fn is_settings(path: &str) -> bool {
    is_within(path, POLE)
}

/// Whether the path is `top` or below it.
pub(crate) fn is_within(path: &str, top: &str) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The path itself and all its ancestors, the root last.
pub(crate) fn self_and_ancestors(path: &str) -> impl Iterator<Item = &str> {
    core::iter::successors(Some(path), |path| {
        let path = *path;
        (path != ROOT).then(|| split(path).map_or(ROOT, |(parent, _)| parent))
    })
}

/// All ancestors of a path and the path itself, the root first, with their hashes. Together they cost little more than the hash
/// of the path, however deep it is.
pub(crate) fn ancestors_and_self_hashed(path: &str) -> impl Iterator<Item = (u64, &str)> {
    let mut hasher = Xxh3::new();
    let mut hashed = 0;
    let slashes = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
    let ends = slashes.chain((path != ROOT).then_some(path.len()));
    let below_root = ends.map(move |end| {
        hasher.update(&path.as_bytes()[hashed..end]);
        hashed = end;
        (hasher.digest(), &path[..end])
    });
    [(hash(ROOT), ROOT)].into_iter().chain(below_root)
}

fn has_valid_characters(name: &str) -> bool {
    if name.is_ascii() {
        return name.bytes().all(|byte| byte >= b' ' && byte != 0x7f);
    }
    name.chars().all(
        |c| !matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{10ffff}'),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn ancestors_are_hashed_like_paths() {
        for path in ["/", "/a", "/a/b", "/long/".repeat(50).trim_end_matches('/'), "/ä/日本"] {
            let mut found: Vec<_> = ancestors_and_self_hashed(path).collect();
            found.reverse();
            let expected: Vec<_> = self_and_ancestors(path).map(|path| (hash(path), path)).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn paths_that_apache_accepts_are_valid() {
        for path in ["/", "/a", "/a/b", "/...", "/a/.b", "/a/b.", "/ä/日本", "/a b", "/.a/..b"] {
            assert!(is_valid(path), "{path}");
        }
    }

    #[test]
    fn paths_that_apache_rejects_are_invalid() {
        let odd = ["", "a", "a/b", "//", "/a/", "/a//b", "/.", "/..", "/a/../b", "/a/./b", "/a/.."];
        let characters = ["/\0", "/\u{1}", "/\u{7f}", "/\u{85}", "/\u{e000}", "/\u{fffd}", "/\u{1f600}", "/a\nb"];
        for path in odd.into_iter().chain(characters) {
            assert!(!is_valid(path), "{path:?}");
        }
    }

    #[test]
    fn ancestors_end_at_the_root() {
        assert_eq!(split("/a/b"), Some(("/a", "b")));
        assert_eq!(split("/a"), Some(("/", "a")));
        assert_eq!(split("/"), Some(("/", "")));
        assert_eq!(split("a"), None);
        assert_eq!(self_and_ancestors("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", "/"]);
        assert_eq!(self_and_ancestors("/").collect::<Vec<_>>(), ["/"]);
        assert_eq!(self_and_ancestors("odd").collect::<Vec<_>>(), ["odd", "/"]);
    }

    #[test]
    fn is_within_compares_whole_names() {
        assert!(is_settings("/zookeeper/pole") && is_settings("/zookeeper/pole/x"));
        assert!(!is_settings("/zookeeper/poles"));
    }
}
