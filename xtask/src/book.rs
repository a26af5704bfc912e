//! `cargo xtask book`: one book of all documents, by `mdbook`, with every link checked.
//!
//! The documents link to files outside `docs/`: the architecture, the READMEs of the libraries, scripts of the simulator.
//! So a copy is made of everything that can be reached from `docs/SUMMARY.md`, in the same folders, and pages that the
//! summary does not list come at the end. A link to a folder becomes text, because a book has no folders, and a link to
//! `README.md` leads to `index.md`, as mdbook calls that page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use crate::Failure;
use crate::command::{output_of, program, root, target_dir};
use crate::tools;

#[derive(Debug, Parser)]
struct Args {
    /// Where the book goes; it is replaced
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let args: Args = crate::arguments("book", args)?;
    let out = args.out.unwrap_or_else(|| target_dir().join("book"));
    let out = std::path::absolute(&out).map_err(|why| Failure::io("find", &out, &why))?;
    let mdbook = tools::find("mdbook")
        .ok_or_else(|| Failure::Check("mdbook is not installed; `cargo xtask tools mdbook` installs it".into()))?;
    let source = target_dir().join("book-source");
    let pages = stage(&source)?;
    let mut build = program(&mdbook.to_string_lossy());
    build.arg("build").arg(&source).arg("--dest-dir").arg(&out).env("MDBOOK_BOOK__SRC", ".");
    output_of(&mut build)?;
    let (links, dead) = check(&out)?;
    dead.iter().for_each(|link| println!("dead link: {link}"));
    println!("{} pages, {links} links, {} dead: {}", pages, dead.len(), out.join("index.html").display());
    Ok(ExitCode::from(u8::from(!dead.is_empty())))
}

/// Copies the documents and what they link to. Returns the number of pages.
fn stage(folder: &Path) -> Result<usize, Failure> {
    let _ = fs::remove_dir_all(folder);
    let summary = read(&root().join("docs/SUMMARY.md"))?;
    let mut listed: Vec<PathBuf> = vec!["README.md".into()];
    listed.extend(links(&summary).map(|link| Path::new("docs").join(link.target)));
    let mut further = Vec::new();
    let mut copied = BTreeSet::new();
    let mut waiting = listed.clone();
    while let Some(path) = waiting.pop() {
        if !copied.insert(path.clone()) {
            continue;
        }
        let (from, to) = (root().join(&path), folder.join(&path));
        if path.extension().is_none_or(|extension| extension != "md") {
            write(&to, &fs::read(&from).map_err(|why| Failure::io("read", &from, &why))?)?;
            continue;
        }
        let text = read(&from)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        let targets = links(&text).filter_map(|link| normal(&parent.join(link.target)));
        waiting.extend(targets.filter(|target| root().join(target).is_file()));
        write(&to, for_book(&text, &root().join(parent)).as_bytes())?;
        if !listed.contains(&path) {
            further.push(path);
        }
    }
    further.sort();
    let mut all = format!("# Summary\n\n[Pole](README.md)\n{}\n# The project\n\n", in_docs(&summary));
    for path in &further {
        let title = title(&read(&root().join(path))?);
        all += &format!("- [{title}]({})\n", path.display());
    }
    write(&folder.join("SUMMARY.md"), all.as_bytes())?;
    let settings =
        fs::read(root().join("book.toml")).map_err(|why| Failure::io("read", &root().join("book.toml"), &why))?;
    write(&folder.join("book.toml"), &settings)?;
    Ok(listed.len() + further.len())
}

/// The summary without its heading, with paths from the root of the repository.
fn in_docs(summary: &str) -> String {
    summary.trim_start_matches("# Summary\n\n").replace("](", "](docs/")
}

fn title(text: &str) -> String {
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("Untitled").to_owned()
}

/// A relative link of a Markdown text.
struct Link<'a> {
    /// With its brackets.
    whole: &'a str,
    text: &'a str,
    /// Without an anchor.
    target: &'a str,
}

fn links(text: &str) -> impl Iterator<Item = Link<'_>> {
    text.match_indices("](").filter_map(move |(at, _)| {
        let start = text[..at].rfind('[')?;
        let end = at + text[at..].find(')')?;
        let target = text[at + 2..end].split('#').next()?;
        let is_local = !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:");
        is_local.then(|| Link { whole: &text[start..=end], text: &text[start + 1..at], target })
    })
}

/// A page whose links lead somewhere in the book.
fn for_book(text: &str, parent: &Path) -> String {
    let mut result = text.to_owned();
    for link in links(text) {
        if parent.join(link.target).is_dir() {
            result = result.replace(link.whole, link.text);
        } else if let Some(folder) = link.target.strip_suffix("README.md") {
            result = result.replace(link.whole, &link.whole.replace(link.target, &format!("{folder}index.md")));
        }
    }
    result
}

/// A path without `..`, or nothing if it leads out of the repository.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name),
            Component::ParentDir => drop(parts.pop()?),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.iter().collect())
}

/// The number of links of the pages, and those that lead nowhere.
fn check(out: &Path) -> Result<(usize, Vec<String>), Failure> {
    let mut pages = BTreeMap::new();
    collect(out, &mut pages)?;
    let (mut count, mut dead) = (0, Vec::new());
    for (path, html) in &pages {
        // These show other pages under another address.
        if path.ends_with("404.html") || path.ends_with("print.html") {
            continue;
        }
        for target in attributes(html) {
            count += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => Some(path.clone()),
                file => path.parent().and_then(|parent| normal_in(out, &parent.join(file))),
            };
            let leads_somewhere = file.is_some_and(|file| match pages.get(&file) {
                Some(page) => anchor.is_empty() || page.contains(&format!("id=\"{anchor}\"")),
                None => file.is_file(),
            });
            if !leads_somewhere {
                dead.push(format!("{}: {target}", path.strip_prefix(out).unwrap_or(path).display()));
            }
        }
    }
    dead.sort();
    dead.dedup();
    Ok((count, dead))
}

fn normal_in(out: &Path, path: &Path) -> Option<PathBuf> {
    Some(out.join(normal(path.strip_prefix(out).ok()?)?))
}

fn collect(folder: &Path, pages: &mut BTreeMap<PathBuf, String>) -> Result<(), Failure> {
    for entry in fs::read_dir(folder).map_err(|why| Failure::io("read", folder, &why))? {
        let path = entry.map_err(|why| Failure::io("read", folder, &why))?.path();
        if path.is_dir() {
            collect(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            let html = read(&path)?;
            pages.insert(path, html);
        }
    }
    Ok(())
}

/// The local addresses that a page refers to.
fn attributes(html: &str) -> impl Iterator<Item = &str> {
    let values = ["<a href=\"", "<img src=\""].into_iter().flat_map(|mark| html.split(mark).skip(1));
    let values = values.filter_map(|rest| rest.split('"').next());
    values.filter(|value| !value.is_empty() && !value.contains("://") && !value.starts_with("mailto:"))
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|why| Failure::io("read", path, &why))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().expect("a file lies in a folder");
    fs::create_dir_all(folder).map_err(|why| Failure::io("create", folder, &why))?;
    fs::write(path, bytes).map_err(|why| Failure::io("write", path, &why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_without_anchors_and_addresses() {
        let text = "[a](b.md#c), [d](https://e.example), [f](#g) and [`h`](../i)";
        let found: Vec<_> = links(text).map(|link| (link.text, link.target, link.whole)).collect();
        assert_eq!(found, [("a", "b.md", "[a](b.md#c)"), ("`h`", "../i", "[`h`](../i)")]);
    }

    #[test]
    fn links_lead_to_what_a_book_has() {
        let text = "[docs](docs), [book](book.toml) and [it](docs/README.md#x)";
        assert_eq!(for_book(text, root()), "docs, [book](book.toml) and [it](docs/index.md#x)");
    }

    #[test]
    fn paths_are_made_normal_and_stay_inside() {
        assert_eq!(normal(Path::new("docs/../crates/sim")), Some("crates/sim".into()));
        assert_eq!(normal(Path::new("docs/../../elsewhere")), None);
    }

    #[test]
    fn a_dead_link_and_a_dead_anchor_are_found() {
        let out = std::env::temp_dir().join(format!("pole-xtask-book-{}", std::process::id()));
        write(&out.join("index.html"), b"<a href=\"a/b.html#c\"><a href=\"a/b.html#d\"><a href=\"e.html\">").unwrap();
        write(&out.join("a/b.html"), b"<h1 id=\"c\"></h1><a href=\"../index.html\">").unwrap();
        let found = check(&out);
        fs::remove_dir_all(&out).unwrap();
        let expected = ["index.html: a/b.html#d", "index.html: e.html"].map(str::to_owned).to_vec();
        assert_eq!(found, Ok((4, expected)));
    }

    #[test]
    fn the_summary_is_seen_from_the_root() {
        let summary = "# Summary\n\n[Documents](README.md)\n\n- [One](one.md)\n";
        assert_eq!(in_docs(summary), "[Documents](docs/README.md)\n\n- [One](docs/one.md)\n");
    }
}
