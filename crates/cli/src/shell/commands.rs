//! The list of commands: their names, options and usage, and what runs them.

use super::{Next, Shell, access, local, nodes, quota, watch};
use crate::failure::Failure;

/// A command of the shell.
pub(super) struct Command {
    pub(super) name: &'static str,
    /// The arguments, as ZooKeeper's own shell prints them.
    pub(super) usage: &'static str,
    pub(super) about: &'static str,
    /// Letters of options. One that is followed by a colon has a value.
    options: &'static str,
    /// The least and the most number of other arguments.
    words: (usize, usize),
    pub(super) run: fn(&mut Shell, &Given) -> Result<Next, Failure>,
}

/// The arguments of a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    options: Vec<(char, String)>,
    words: Vec<String>,
}

impl Given {
    pub(super) fn has(&self, option: char) -> bool {
        self.options.iter().any(|(letter, _)| *letter == option)
    }

    pub(super) fn value(&self, option: char) -> Option<&str> {
        self.options.iter().find(|(letter, _)| *letter == option).map(|(_, value)| value.as_str())
    }

    /// The value of an option that is a number.
    pub(super) fn number<T: std::str::FromStr>(&self, option: char) -> Result<Option<T>, Failure> {
        let parse = |value: &str| {
            value.parse().map_err(|_| Failure::bad_input(format!("-{option} takes a number, got {value:?}")))
        };
        self.value(option).map(parse).transpose()
    }

    /// The version that a write is for; any without one.
    pub(super) fn version(&self) -> Result<i32, Failure> {
        Ok(self.number('v')?.unwrap_or(-1))
    }

    pub(super) fn word(&self, index: usize) -> Option<&str> {
        self.words.get(index).map(String::as_str)
    }

    /// The argument that is a path, checked.
    pub(super) fn path(&self, index: usize) -> Result<&str, Failure> {
        let path = self.word(index).unwrap_or_default();
        super::check_path(path).map(|()| path)
    }
}

impl Command {
    /// Options may stand anywhere before `--`.
    pub(super) fn parse(&self, arguments: &[String]) -> Result<Given, Failure> {
        let mut given = Given::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let letters = argument.strip_prefix('-').filter(|letters| !letters.is_empty());
            match letters {
                Some("-") => given.words.extend(rest.by_ref().cloned()),
                Some(letters) => {
                    let mut chars = letters.chars();
                    let (letter, is_single) = (chars.next().unwrap_or('-'), chars.next().is_none());
                    if !is_single || letter == ':' || !self.options.contains(letter) {
                        let hint = "put -- before an argument that begins with -";
                        return Err(self.wrong(&format!("Unrecognized option: -{letters} ({hint})")));
                    }
                    let takes_value = self.options.contains(&format!("{letter}:"));
                    let value = if takes_value { rest.next() } else { Some(argument) };
                    let missing = || self.wrong(&format!("Missing argument for option: {letter}"));
                    given.options.push((letter, value.ok_or_else(missing)?.clone()));
                }
                None => given.words.push(argument.clone()),
            }
        }
        let (least, most) = self.words;
        if (least..=most).contains(&given.words.len()) {
            return Ok(given);
        }
        Err(Failure::bad_input(self.line()))
    }

    fn wrong(&self, what: &str) -> Failure {
        Failure::bad_input(format!("{what}\n{}", self.line()))
    }

    /// The usage, with the name.
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.name, self.usage).trim_end().to_owned()
    }
}

/// The command with this name.
pub(super) fn find(name: &str) -> Result<&'static Command, Failure> {
    COMMANDS.iter().find(|command| command.name == name).ok_or_else(|| {
        let alike = COMMANDS.iter().find(|command| command.name.eq_ignore_ascii_case(name));
        let hint =
            alike.map_or_else(|| "`help` lists all commands".to_owned(), |other| format!("try `{}`", other.name));
        Failure::bad_input(format!("Command not found: {name}; {hint}"))
    })
}

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "addWatch",
        usage: "[-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - default is PERSISTENT_RECURSIVE",
        about: "watches a node, or everything below it, until the watch is removed",
        options: "m:",
        words: (1, 1),
        run: watch::add,
    },
    Command {
        name: "addauth",
        usage: "scheme auth",
        about: "adds an identity to the session, such as `digest user:password`",
        options: "",
        words: (1, 2),
        run: access::add_auth,
    },
    Command {
        name: "close",
        usage: "",
        about: "closes the session; `connect` opens another",
        options: "",
        words: (0, 0),
        run: local::close,
    },
    Command {
        name: "config",
        usage: "[-c] [-w] [-s]",
        about: "prints the members of the ensemble; -c: only where clients connect",
        options: "cws",
        words: (0, 0),
        run: nodes::config,
    },
    Command {
        name: "connect",
        usage: "host:port[,host:port]",
        about: "opens a session at other servers",
        options: "",
        words: (1, 1),
        run: local::connect,
    },
    Command {
        name: "create",
        usage: "[-s] [-e] [-c] [-t ttl] path [data] [acl]",
        about: "creates a node: sequential, ephemeral, a container, with a time to live in ms",
        options: "sect:",
        words: (1, 3),
        run: nodes::create,
    },
    Command {
        name: "delete",
        usage: "[-v version] path",
        about: "deletes a node without children",
        options: "v:",
        words: (1, 1),
        run: nodes::delete,
    },
    Command {
        name: "deleteall",
        usage: "path [-b batch size]",
        about: "deletes a node and everything below it",
        options: "b:",
        words: (1, 1),
        run: nodes::delete_all,
    },
    Command {
        name: "delquota",
        usage: "[-n|-b|-N|-B] path",
        about: "removes one limit of a quota, or all of it",
        options: "nbNB",
        words: (1, 1),
        run: quota::delete,
    },
    Command {
        name: "get",
        usage: "[-s] [-w] path",
        about: "prints the data of a node",
        options: "sw",
        words: (1, 1),
        run: nodes::get,
    },
    Command {
        name: "getAcl",
        usage: "[-s] path",
        about: "prints who may do what",
        options: "s",
        words: (1, 1),
        run: access::get_acl,
    },
    Command {
        name: "getAllChildrenNumber",
        usage: "path",
        about: "prints the number of nodes below a node",
        options: "",
        words: (1, 1),
        run: nodes::all_children_number,
    },
    Command {
        name: "getEphemerals",
        usage: "path",
        about: "prints the ephemeral nodes of this session",
        options: "",
        words: (0, 1),
        run: nodes::ephemerals,
    },
    Command {
        name: "help",
        usage: "[command]",
        about: "prints this list",
        options: "",
        words: (0, 1),
        run: local::help,
    },
    Command {
        name: "history",
        usage: "",
        about: "prints the last commands with their numbers",
        options: "",
        words: (0, 0),
        run: local::history,
    },
    Command {
        name: "listquota",
        usage: "path",
        about: "prints the quota of a subtree and what it uses",
        options: "",
        words: (1, 1),
        run: quota::list,
    },
    Command {
        name: "ls",
        usage: "[-s] [-w] [-R] path",
        about: "lists the children of a node; -R: everything below it",
        options: "swR",
        words: (1, 1),
        run: nodes::ls,
    },
    Command {
        name: "printwatches",
        usage: "on|off",
        about: "turns the printing of watch events on or off",
        options: "",
        words: (0, 1),
        run: watch::print,
    },
    Command { name: "quit", usage: "", about: "ends the shell", options: "", words: (0, 0), run: local::quit },
    Command {
        name: "redo",
        usage: "cmdno",
        about: "runs a command of the history again",
        options: "",
        words: (1, 1),
        run: local::redo,
    },
    Command {
        name: "removewatches",
        usage: "path [-c|-d|-a]",
        about: "removes the watches on children, on data, or all",
        options: "cda",
        words: (1, 1),
        run: watch::remove,
    },
    Command {
        name: "set",
        usage: "[-s] [-v version] path data",
        about: "replaces the data of a node",
        options: "sv:",
        words: (2, 2),
        run: nodes::set,
    },
    Command {
        name: "setAcl",
        usage: "[-s] [-v version] [-R] path acl",
        about: "replaces the ACL: scheme:id:cdrwa[,...]",
        options: "sv:R",
        words: (2, 2),
        run: access::set_acl,
    },
    Command {
        name: "setquota",
        usage: "-n|-b|-N|-B val path",
        about: "limits nodes or bytes of a subtree; capitals: hard limits",
        options: "n:b:N:B:",
        words: (1, 1),
        run: quota::set,
    },
    Command {
        name: "stat",
        usage: "[-w] path",
        about: "prints the metadata of a node",
        options: "w",
        words: (1, 1),
        run: nodes::stat,
    },
    Command {
        name: "sync",
        usage: "path",
        about: "waits until this server has everything that was committed before",
        options: "",
        words: (1, 1),
        run: nodes::sync,
    },
    Command {
        name: "version",
        usage: "",
        about: "prints the version of this shell",
        options: "",
        words: (0, 0),
        run: local::version,
    },
    Command {
        name: "whoami",
        usage: "",
        about: "prints the identities of this session",
        options: "",
        words: (0, 0),
        run: access::who_am_i,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Given, Failure> {
        let words = super::super::words::split(line).unwrap();
        find(&words[0])?.parse(&words[1..])
    }

    #[test]
    fn options_stand_anywhere_and_some_have_values() {
        let given = parse("create /a -s data -t 5").unwrap();
        assert!(given.has('s') && !given.has('e'));
        assert_eq!((given.value('t'), given.word(0), given.word(1)), (Some("5"), Some("/a"), Some("data")));
        assert_eq!(given.number('t').unwrap(), Some(5_i64));
    }

    #[test]
    fn data_that_looks_like_an_option_follows_two_dashes() {
        assert!(parse("set /a -5").unwrap_err().to_string().contains("put --"));
        assert_eq!(parse("set /a -- -5").unwrap().word(1), Some("-5"));
        assert_eq!(parse("set /a -").unwrap().word(1), Some("-"));
    }

    #[test]
    fn a_wrong_number_of_arguments_is_answered_with_the_usage() {
        assert_eq!(parse("ls").unwrap_err().to_string(), "ls [-s] [-w] [-R] path");
        assert_eq!(parse("quit now").unwrap_err().to_string(), "quit");
        assert!(parse("set /a b -v").unwrap_err().to_string().contains("Missing argument"));
        assert!(parse("get -x /").unwrap_err().to_string().starts_with("Unrecognized option: -x"));
        assert!(parse("delete -v x /").unwrap().version().is_err());
    }

    #[test]
    fn an_unknown_command_is_named_and_the_likely_one_suggested() {
        assert_eq!(parse("getacl /").unwrap_err().to_string(), "Command not found: getacl; try `getAcl`");
        assert!(parse("nonsense").unwrap_err().to_string().contains("help"));
    }

    #[test]
    fn commands_are_sorted_by_name() {
        assert!(COMMANDS.is_sorted_by_key(|command| command.name));
    }
}
