//! The arguments of Apache's `zkCli.sh`.

use crate::args::{Ms, ShellArgs};
use crate::failure::Failure;

pub(super) fn parse(words: &[&str]) -> Result<ShellArgs, Failure> {
    let mut shell =
        ShellArgs { server: "localhost:2181".to_owned(), timeout: Ms(30_000), commands: Vec::new(), words: Vec::new() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| Failure::bad_input(format!("zkCli.sh: {word} needs a value")));
        match *word {
            "-server" => shell.server = with_port(value()?),
            "-timeout" => {
                let ms = value()?;
                let wrong = |_| Failure::bad_input(format!("zkCli.sh: -timeout {ms}: expected milliseconds"));
                shell.timeout = Ms(ms.parse().map_err(wrong)?);
            }
            // The shell waits for its connection in any case.
            "-waitforconnection" => {}
            "-r" | "-client-configuration" => {
                return Err(Failure::bad_input(format!("zkCli.sh: {word} is not supported; see `pole shell --help`")));
            }
            _ => {
                shell.words = std::iter::once(word).chain(words).map(|word| (*word).to_owned()).collect();
                return Ok(shell);
            }
        }
    }
    Ok(shell)
}

/// Servers may be named without a port, as in Apache's.
fn with_port(servers: &str) -> String {
    let each = servers.split(',').map(|server| match server.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => server.to_owned(),
        Some(_) | None => format!("{server}:2181"),
    });
    each.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_script_become_those_of_the_shell() {
        let shell = parse(&["-timeout", "5000", "-server", "a:1,b,[::1]", "ls", "-R", "/"]).unwrap();
        assert_eq!((shell.server.as_str(), shell.timeout), ("a:1,b:2181,[::1]:2181", Ms(5_000)));
        assert_eq!(shell.words, ["ls", "-R", "/"]);
        assert_eq!(parse(&[]).unwrap().server, "localhost:2181");
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        for wrong in [&["-r"][..], &["-server"], &["-timeout", "5s"], &["-client-configuration", "file"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
