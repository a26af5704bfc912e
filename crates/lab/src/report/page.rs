//! A page: sections with a table of contents, paragraphs, tables, figures with the command that reproduces them.
//!
//! The output is one HTML file. It opens offline (it refers to no other file), every id is linked from the contents,
//! every table scrolls in its own box so that the page never does, and nothing is clipped in print.

use pole_chart::escaped;

/// A page under construction.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    lead: String,
    /// The table of contents: the sections with their figures.
    contents: Vec<Entry>,
    body: String,
}

#[derive(Clone, Debug)]
struct Entry {
    id: String,
    heading: String,
    figures: Vec<(String, String)>,
}

impl Page {
    /// A page with a title and an introductory sentence. Plain text, as in [`Page::text`].
    #[must_use]
    pub fn new(title: &str, lead: &str) -> Self {
        Self { title: title.to_owned(), lead: lead.to_owned(), contents: Vec::new(), body: String::new() }
    }

    /// Starts a section and adds it to the contents.
    pub fn section(&mut self, id: &str, heading: &str) {
        self.end_section();
        let id = identifier(id);
        self.body += &format!("<section>\n<h2 id=\"{id}\">{}</h2>\n", escaped(heading));
        self.contents.push(Entry { id, heading: heading.to_owned(), figures: Vec::new() });
    }

    /// Adds a paragraph of plain text. Text between backticks is shown as code.
    pub fn text(&mut self, text: &str) {
        self.body += &format!("<p>{}</p>\n", with_code(text));
    }

    /// Adds a table of plain text. Columns of numbers are right-aligned.
    pub fn table(&mut self, caption: &str, head: &[&str], rows: &[Vec<String>]) {
        let right = |column: usize| {
            let mut cells = rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty()).peekable();
            cells.peek().is_some() && cells.all(|cell| is_number(cell))
        };
        let right: Vec<bool> = (0..head.len()).map(right).collect();
        let class = |column: usize| if right.get(column) == Some(&true) { " class=\"n\"" } else { "" };
        // Not a `caption` element: that would be as wide as the table and scroll away with it.
        self.body += &format!("<p class=\"caption\">{}</p>\n", with_code(caption));
        self.body += "<div class=\"box\" tabindex=\"0\"><table>\n";
        self.body += "<thead><tr>";
        for (column, name) in head.iter().enumerate() {
            self.body += &format!("<th scope=\"col\"{}>{}</th>", class(column), escaped(name));
        }
        self.body += "</tr></thead>\n<tbody>\n";
        for row in rows {
            self.body += "<tr>";
            for (column, cell) in row.iter().enumerate() {
                self.body += &format!("<td{}>{}</td>", class(column), escaped(cell));
            }
            self.body += "</tr>\n";
        }
        self.body += "</tbody></table></div>\n";
    }

    /// Adds a figure with its caption and the command that reproduces it, and lists it in the contents.
    pub fn figure(&mut self, id: &str, svg: &str, caption: &str, command: &str) {
        let id = identifier(id);
        let name = caption.split_inclusive(['.', ':']).next().unwrap_or(caption).trim_end_matches(['.', ':']);
        if let Some(section) = self.contents.last_mut() {
            section.figures.push((id.clone(), name.to_owned()));
        }
        let (caption, command) = (with_code(caption), escaped(command));
        self.body += &format!("<figure id=\"{id}\">\n{svg}\n<figcaption>{caption}</figcaption>\n");
        self.body += &format!("<p class=\"command\">Repeat it: <code>{command}</code></p>\n</figure>\n");
    }

    /// Adds markup without escaping.
    pub fn html(&mut self, html: &str) {
        self.body += html;
        self.body.push('\n');
    }

    /// Returns the HTML file.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.end_section();
        let (title, lead, contents) = (escaped(&self.title), with_code(&self.lead), self.contents());
        let body = &self.body;
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n<p class=\"lead\">{lead}</p>\n\
             </header>\n{contents}<main>\n{body}</main>\n</body>\n</html>\n"
        )
    }

    fn contents(&self) -> String {
        let figures = |entry: &Entry| {
            let lines =
                entry.figures.iter().map(|(id, name)| format!("<li><a href=\"#{id}\">{}</a></li>", escaped(name)));
            let lines: String = lines.collect();
            if lines.is_empty() { String::new() } else { format!("<ul>{lines}</ul>") }
        };
        let entry = |entry: &Entry| {
            format!("<li><a href=\"#{}\">{}</a>{}</li>\n", entry.id, escaped(&entry.heading), figures(entry))
        };
        let lines: String = self.contents.iter().map(entry).collect();
        if lines.is_empty() {
            return lines;
        }
        format!(
            "<nav aria-label=\"Contents\"><details><summary>Contents</summary>\n<ul>\n{lines}</ul></details></nav>\n"
        )
    }

    fn end_section(&mut self) {
        if !self.contents.is_empty() {
            self.body += "</section>\n";
        }
    }
}

/// Escapes text and turns parts between two backticks into code.
fn with_code(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(escaped).collect();
    let part = |(at, part): (usize, &String)| match (at % 2, at + 1 == parts.len()) {
        (1, false) => format!("<code>{part}</code>"),
        // An unclosed backtick.
        (1, true) => format!("`{part}"),
        (_, _) => part.clone(),
    };
    parts.iter().enumerate().map(part).collect()
}

/// Whether a cell is a number, with or without a sign and a unit.
fn is_number(cell: &str) -> bool {
    let bare = cell.trim().trim_start_matches(['+', '-', '−']);
    let bare = ["%", "ms", "MB", "s"].iter().find_map(|unit| bare.strip_suffix(unit)).unwrap_or(bare).trim_end();
    bare == "–" || bare.replace(',', "").parse::<f64>().is_ok()
}

/// Light or dark as the reader prefers; black on white in print. Wide enough for figures, narrow enough for lines of
/// text. A wide table uses the room to the right of the text and scrolls if it still does not fit; its first column
/// stays visible.
const STYLE: &str = "\
:root { --ink: #1b1f24; --paper: #ffffff; --faint: #5a6370; --line: #d5dae1; --shade: #f3f5f8; --link: #005a9c; --good: #00664b; --bad: #b03a00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --paper: #14171b; --faint: #a2abb8; --line: #343b45; --shade: #1d2228; --link: #6cb8f0; --good: #35c398; --bad: #ff9152; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 46rem; padding: 0.6rem; font: 16px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; color: var(--ink); background: var(--paper); overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.6rem 0; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.2rem 0 0.6rem; padding-top: 0.6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.4rem 0 0.4rem; }
p { margin: 0.6rem 0; }
a { color: var(--link); }
.lead { color: var(--faint); font-size: 1.05rem; }
nav { background: var(--shade); border-radius: 6px; padding: 0.5rem 0.8rem; margin: 1rem 0; }
nav ul { margin: 0.3rem 0; padding-left: 1.2rem; }
summary { cursor: pointer; font-weight: 600; }
.box { overflow-x: auto; margin: 0.2rem 0 0.8rem; width: fit-content; max-width: calc(50% + 50vw - 1.2rem); }
table { border-collapse: separate; border-spacing: 0; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
.caption { color: var(--faint); font-size: 0.9rem; margin: 1rem 0 0; }
th, td { padding: 0.25rem 0.6rem 0.25rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--paper); }
.n { text-align: right; }
figure { margin: 1rem 0; }
figure svg { display: block; width: 100%; max-width: 28rem; height: auto; }
figcaption { margin-top: 0.3rem; }
.command { color: var(--faint); font-size: 0.9rem; margin: 0.3rem 0; }
code { font: 0.9em ui-monospace, 'SF Mono', Consolas, monospace; background: var(--shade); border-radius: 4px; padding: 0.1em 0.3em; overflow-wrap: anywhere; }
.verdict { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 0.6rem; margin: 1rem 0; padding: 0; list-style: none; }
.verdict li { background: var(--shade); border-left: 4px solid var(--line); border-radius: 4px; padding: 0.5rem 0.7rem; }
.verdict b { display: block; font-size: 1.35rem; line-height: 1.25; }
.verdict .good { border-color: var(--good); }
.verdict .bad { border-color: var(--bad); }
@media (max-width: 30rem) {
  th:first-child, td:first-child { white-space: normal; min-width: 4.5rem; max-width: 40vw; }
}
@media print {
  @page { margin: 15mm; }
  :root { --ink: #000; --paper: #fff; --faint: #444; --line: #bbb; --shade: #f4f4f4; --link: #000; }
  body { max-width: none; font-size: 10.5pt; padding: 0; }
  figure, tr, .verdict li { break-inside: avoid; }
  h2, h3, .caption { break-after: avoid; }
  nav { display: none; }
  figure svg { max-width: 9cm; max-height: 17cm; }
  .box { overflow: visible; max-width: none; }
  table { font-size: 7.5pt; }
  th, td { white-space: normal; padding-right: 0.3rem; }
  th:first-child, td:first-child { position: static; }
  thead { display: table-header-group; }
  a[href]:not([href^='#'])::after { content: ' (' attr(href) ')'; }
}
";

/// Turns a text into the value of an `id`: only letters, digits and hyphens, so that links to it need no quoting.
fn identifier(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_distinguished_from_words() {
        for number in ["1", "-2.5", "+3 %", "4.0 ms", "1,000", "–", "250 MB"] {
            assert!(is_number(number), "{number}");
        }
        for word in ["p4", "", "ms", "p4 38.9", "even"] {
            assert!(!is_number(word), "{word}");
        }
    }

    #[test]
    fn an_identifier_needs_no_quotes() {
        assert_eq!(identifier("Fig 7a: x"), "fig-7a--x");
    }

    #[test]
    fn text_is_escaped_wherever_it_goes_in() {
        let mut page = Page::new("<x-1>", "<x-2>");
        page.section("a", "<x-3>");
        page.text("<x-4>");
        page.table("<x-5>", &["<x-6>"], &[vec!["<x-7>".to_owned()]]);
        page.figure("f", "", "<x-8>", "<x-9>");
        let html = page.finish();
        assert!(!html.contains("<x-") && html.matches("&lt;x-").count() >= 9, "{html}");
    }

    #[test]
    fn backticks_make_code_in_pairs() {
        assert_eq!(with_code("a `b<c` d"), "a <code>b&lt;c</code> d");
        assert_eq!(with_code("one ` alone"), "one ` alone");
    }
}
