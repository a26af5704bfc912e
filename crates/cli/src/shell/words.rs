//! Splits a line into words. Quotes group characters, as in ZooKeeper's own shell.

/// The words of a line. Single and double quotes may contain spaces; a backslash is an ordinary character.
pub(super) fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    match quote {
        Some(open) => Err(format!("a quotation mark {open} is not closed")),
        None => {
            words.extend(word);
            Ok(words)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_divided_by_spaces_and_grouped_by_quotes() {
        assert_eq!(split("  set /d  one ").unwrap(), ["set", "/d", "one"]);
        assert_eq!(split("set /d \"words with 'spaces'\"").unwrap(), ["set", "/d", "words with 'spaces'"]);
        assert_eq!(split("create /d ''").unwrap(), ["create", "/d", ""]);
        assert_eq!(split("   ").unwrap(), Vec::<String>::new());
        assert!(split("set /d \"open").unwrap_err().contains("not closed"));
    }
}
