//! The scripts that are embedded in the program, by name or by number.

/// Every script of `crates/sim/scripts`: its name and its text, in the order of their names.
pub const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scripts.rs"));

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Find {
    /// One script: its name and its text.
    One(&'static str, &'static str),
    /// The names of several matching scripts.
    Several(Vec<&'static str>),
    /// No script matches.
    None,
}

/// Finds a script by its whole name, by its number (`04`, `4`, `18a`), or by a prefix of its name.
#[must_use]
pub fn find(wanted: &str) -> Find {
    let number = |name: &str| name.split('-').next().unwrap_or_default().trim_start_matches('0').to_owned();
    let wanted_number = wanted.trim_start_matches('0');
    let matches: [&dyn Fn(&str) -> bool; 3] =
        [&|name| name == wanted, &|name| number(name) == wanted_number, &|name| {
            !wanted_number.is_empty() && name.trim_start_matches('0').starts_with(wanted_number)
        }];
    for is_wanted in matches {
        let found: Vec<_> = BUILT_IN.iter().filter(|(name, _)| is_wanted(name)).collect();
        match found.as_slice() {
            [] => {}
            [(name, text)] => return Find::One(name, text),
            several => return Find::Several(several.iter().map(|(name, _)| *name).collect()),
        }
    }
    Find::None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_found_by_name_by_number_and_by_its_beginning() {
        for wanted in ["04-bounce-in-a-difference", "04", "4", "04-bounce"] {
            assert!(matches!(find(wanted), Find::One("04-bounce-in-a-difference", _)), "{wanted}");
        }
        assert!(matches!(find("18a"), Find::One("18a-a-late-server-adopts-the-incumbent", _)));
        assert_eq!(find("nowhere"), Find::None);
        assert_eq!(find(""), Find::None);
    }

    #[test]
    fn a_number_that_several_scripts_share_names_them() {
        let Find::Several(names) = find("18") else { panic!("18a to 18d") };
        assert!(names.len() == 4 && names[0].starts_with("18a-"), "{names:?}");
    }
}
