//! The terminal: reads single keys, draws whole screens, and restores its original state in the end.
//!
//! Raw mode, the alternate screen and the hidden cursor end with this value, and before a panic message is printed:
//! after a return, an error, Ctrl-C (an ordinary key in raw mode), SIGTERM and a closed window.
//!
//! No terminal crate is used, because only two system calls, which `rustix` has, and eight keys are needed.

use std::io::{self, Write as _};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::view::Key;
use crate::signals::Signals;

pub(crate) struct Terminal {
    before: Termios,
    /// Set by a signal.
    quit: Arc<AtomicBool>,
    /// The last screen, which need not be drawn again.
    drawn: String,
    size: (usize, usize),
}

impl Terminal {
    pub(crate) fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let quit = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&quit);
        Signals::catch()?.on_each(move || {
            flag.store(true, Ordering::Relaxed);
            true
        });
        let (settings, previous_hook) = (before.clone(), panic::take_hook());
        panic::set_hook(Box::new(move |info| {
            restore(&settings);
            previous_hook(info);
        }));
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        let terminal = Self { before, quit, drawn: String::new(), size: (0, 0) };
        let mut out = io::stdout();
        out.write_all(ENTER.as_bytes())?;
        out.flush()?;
        Ok(terminal)
    }

    pub(crate) fn size(&mut self) -> (usize, usize) {
        let found = tcgetwinsize(io::stdout()).ok().map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        self.size = found.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or((80, 24));
        self.size
    }

    /// Draws a screen over the old one in a single write, to avoid flicker.
    pub(crate) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        // A line is cleared before it is written: after a full line, the cursor is still on its last character.
        let screen = format!("\x1b[H\x1b[K{}", lines.join("\r\n\x1b[K"));
        if screen != self.drawn {
            let mut out = io::stdout().lock();
            out.write_all(screen.as_bytes())?;
            out.flush()?;
            self.drawn = screen;
        }
        Ok(())
    }

    /// Waits for keys, or until the size of the window changes.
    pub(crate) fn keys(&mut self) -> io::Result<Vec<Key>> {
        loop {
            if self.quit.load(Ordering::Relaxed) {
                return Ok(vec![Key::Quit]);
            }
            let stdin = io::stdin();
            let mut poll_fds = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut poll_fds, Some(&POLL_INTERVAL)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {
                    let before = self.size;
                    if self.size() != before {
                        return Ok(Vec::new());
                    }
                }
                Ok(_) => {
                    let mut bytes = [0; 64];
                    // Not through `Stdin`: `poll` would not see what it has buffered.
                    let read = match rustix::io::read(&stdin, &mut bytes) {
                        Err(rustix::io::Errno::INTR) => continue,
                        read => read.unwrap_or(0),
                    };
                    // The window is closed.
                    return Ok(if read == 0 { vec![Key::Quit] } else { parse_keys(&bytes[..read]) });
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After a panic the hook has restored the terminal already; doing it again would overwrite the message.
        if !std::thread::panicking() {
            restore(&self.before);
            drop(panic::take_hook());
        }
    }
}

/// Restores the terminal. Errors cannot be reported any more.
fn restore(before: &Termios) {
    let mut out = io::stdout();
    let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
}

/// The keys in the input. Unknown keys are ignored.
fn parse_keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some(first) = bytes.first() {
        let found = SEQUENCES.iter().find(|(sequence, _)| bytes.starts_with(sequence));
        match found {
            Some((sequence, key)) => {
                keys.push(*key);
                bytes = &bytes[sequence.len()..];
            }
            // Another key that sends several bytes, which end with a letter or a tilde.
            None if *first == 0x1b && bytes.len() > 2 => {
                let end = bytes.iter().skip(2).position(|b| (0x40..=0x7e).contains(b)).map_or(bytes.len(), |at| at + 3);
                bytes = &bytes[end..];
            }
            None => bytes = &bytes[1..],
        }
    }
    keys
}

/// The byte sequences that terminals send. Where one is a prefix of another, the longer comes first.
const SEQUENCES: [(&[u8], Key); 25] = [
    (b"\x1b[C", Key::Next),
    (b"\x1bOC", Key::Next),
    (b"\x1b[B", Key::Next),
    (b"\x1bOB", Key::Next),
    (b"\x1b[D", Key::Back),
    (b"\x1bOD", Key::Back),
    (b"\x1b[A", Key::Back),
    (b"\x1bOA", Key::Back),
    (b"\x1b[H", Key::Home),
    (b"\x1bOH", Key::Home),
    (b"\x1b[1~", Key::Home),
    (b"\x1b[7~", Key::Home),
    (b"\x1b[F", Key::End),
    (b"\x1bOF", Key::End),
    (b"\x1b[4~", Key::End),
    (b"\x1b[8~", Key::End),
    (b" ", Key::Next),
    (b"n", Key::Next),
    (b"\r", Key::Next),
    (b"p", Key::Back),
    (b"\x7f", Key::Back),
    (b"]", Key::NextTurn),
    (b"[", Key::LastTurn),
    (b"q", Key::Quit),
    // Ctrl-C, which is an ordinary key in raw mode.
    (b"\x03", Key::Quit),
];

/// Switches to the alternate screen, clears it, hides the cursor and disables line wrap.
const ENTER: &str = "\x1b[?1049h\x1b[2J\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// How often to check the size of the window and for signals while no key is pressed.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_keys_in_one_read_are_parsed() {
        assert_eq!(
            parse_keys(b"\x1b[C\x1b[C\x1b[D]["),
            [Key::Next, Key::Next, Key::Back, Key::NextTurn, Key::LastTurn]
        );
        assert_eq!(parse_keys(b"\x1b[1~\x1bOFq"), [Key::Home, Key::End, Key::Quit]);
        assert_eq!(parse_keys(b"\x03"), [Key::Quit]);
    }

    #[test]
    fn an_unknown_key_is_ignored_as_a_whole() {
        assert_eq!(parse_keys(b"\x1b[15~n"), [Key::Next], "the bracket in F5 is not a key of its own");
        assert_eq!(parse_keys(b"\x1b"), []);
        assert_eq!(parse_keys(b"x\xff"), []);
    }
}
