//! The files of the dashboard, embedded in the program.
//!
//! They are plain HTML, CSS and ES modules, used as they are: no build step, no dependency, nothing from the network.
//! The admin server serves them, and so does `pole up`.
//!
//! The page knows two sources of data: `/v1/events`, from which it draws everything that changes, and `/v1/nodes`. What
//! it may do is in the first event.

use std::sync::LazyLock;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The path of its address.
    pub path: &'static str,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The value of `ETag`, which differs when the content does.
    pub etag: String,
    /// The content.
    pub body: &'static str,
}

/// The file with this path; `/` is the page itself.
#[must_use]
pub fn file(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}

/// All files.
#[must_use]
pub fn files() -> &'static [File] {
    &FILES
}

/// The headers that every answer of a port with the dashboard has. Scripts and styles come from the port itself, nothing
/// else may be loaded, and no other page may embed this one.
pub const SECURITY_HEADERS: [(&str, &str); 4] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
];

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    let file = |path, content_type, body: &'static str| {
        let digest = ring::digest::digest(&ring::digest::SHA256, body.as_bytes());
        let digits: String = digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        File { path, content_type, etag: format!("\"{digits}\""), body }
    };
    let module = |path, body| file(path, "text/javascript; charset=utf-8", body);
    vec![
        file("/", "text/html; charset=utf-8", include_str!("index.html")),
        file("/dashboard/style.css", "text/css; charset=utf-8", include_str!("style.css")),
        file("/dashboard/icon.svg", "image/svg+xml", include_str!("icon.svg")),
        module("/dashboard/main.js", include_str!("main.js")),
        module("/dashboard/state.js", include_str!("state.js")),
        module("/dashboard/dom.js", include_str!("dom.js")),
        module("/dashboard/chart.js", include_str!("chart.js")),
        module("/dashboard/map.js", include_str!("map.js")),
        module("/dashboard/oracles.js", include_str!("oracles.js")),
        module("/dashboard/tables.js", include_str!("tables.js")),
        module("/dashboard/elections.js", include_str!("elections.js")),
        module("/dashboard/nodes.js", include_str!("nodes.js")),
        module("/dashboard/actions.js", include_str!("actions.js")),
    ]
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_loads_nothing_from_elsewhere() {
        let bytes: usize = files().iter().map(|file| file.body.len()).sum();
        assert!(bytes < 120_000, "{bytes}");
        for file in files() {
            let address = file
                .body
                .match_indices("://")
                .find(|(at, _)| !file.body[..*at].ends_with("http") || !file.body[at + 3..].starts_with("www.w3.org/"));
            assert_eq!(address, None, "{}", file.path);
        }
    }

    #[test]
    fn every_file_that_a_file_names_is_there() {
        for holder in files() {
            let quoted =
                holder.body.split(['"', '\'', '`']).filter(|text| text.ends_with(".js") || text.ends_with(".css"));
            for name in quoted.filter(|text| text.starts_with("/") || text.starts_with("./")) {
                let path = name.replacen("./", "/dashboard/", 1);
                assert!(file(&path).is_some(), "{} names {name}", holder.path);
            }
        }
    }

    #[test]
    fn nothing_needs_a_weaker_policy() {
        for file in files() {
            for forbidden in [" onclick=", " style=\"", "<script>", "<style", "javascript:", "eval(", "innerHTML"] {
                assert!(!file.body.contains(forbidden), "{}: {forbidden}", file.path);
            }
        }
    }
}
