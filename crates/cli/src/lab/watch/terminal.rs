//! The terminal: single keys come in, whole screens go out, and in the end it is as it was.
//!
//! Holds: raw mode, the other screen and the hidden cursor end with the value, and before a panic speaks: by return, error,
//! Ctrl-C (a key like others in raw mode), SIGTERM and a closed window.
//! Why not a crate for this: what is needed of a terminal are two calls of the system that `rustix` has, and eight keys.

use std::io::{self, Write as _};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::view::Key;
use crate::signals::Signals;

/// A terminal that is ours for a while.
pub(crate) struct Terminal {
    before: Termios,
    /// Somebody wants us to end.
    ends: Arc<AtomicBool>,
    /// The last screen, which need not be drawn again.
    drawn: String,
    size: (usize, usize),
}

impl Terminal {
    pub(crate) fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let ends = Arc::new(AtomicBool::new(false));
        let heard = Arc::clone(&ends);
        Signals::catch()?.each(move || {
            heard.store(true, Ordering::Relaxed);
            true
        });
        let (settings, told) = (before.clone(), panic::take_hook());
        panic::set_hook(Box::new(move |why| {
            leaves(&settings);
            told(why);
        }));
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        let terminal = Self { before, ends, drawn: String::new(), size: (0, 0) };
        let mut out = io::stdout();
        out.write_all(ENTER.as_bytes())?;
        out.flush()?;
        Ok(terminal)
    }

    /// Columns and rows.
    pub(crate) fn size(&mut self) -> (usize, usize) {
        let found = tcgetwinsize(io::stdout()).ok().map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        self.size = found.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or((80, 24));
        self.size
    }

    /// Puts a screen up: over the old one, in one write, so that nothing flickers.
    pub(crate) fn draws(&mut self, lines: &[String]) -> io::Result<()> {
        // A line is cleared before it is written: behind a full one, the cursor stands on its last letter.
        let screen = format!("\x1b[H\x1b[K{}", lines.join("\r\n\x1b[K"));
        if screen != self.drawn {
            let mut out = io::stdout().lock();
            out.write_all(screen.as_bytes())?;
            out.flush()?;
            self.drawn = screen;
        }
        Ok(())
    }

    /// Waits for keys, or until the window has another size.
    pub(crate) fn keys(&mut self) -> io::Result<Vec<Key>> {
        loop {
            if self.ends.load(Ordering::Relaxed) {
                return Ok(vec![Key::Quit]);
            }
            let stdin = io::stdin();
            let mut waits = [PollFd::new(&stdin, PollFlags::IN)];
            match poll(&mut waits, Some(&LOOK_UP)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {
                    let before = self.size;
                    if self.size() != before {
                        return Ok(Vec::new());
                    }
                }
                Ok(_) => {
                    let mut bytes = [0; 64];
                    // Not by `Stdin`: what it keeps for later, `poll` would not see.
                    let read = match rustix::io::read(&stdin, &mut bytes) {
                        Err(rustix::io::Errno::INTR) => continue,
                        read => read.unwrap_or(0),
                    };
                    // The window is gone.
                    return Ok(if read == 0 { vec![Key::Quit] } else { keys_of(&bytes[..read]) });
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Then the hook has left it, and what was said since would be written over.
        if !std::thread::panicking() {
            leaves(&self.before);
            drop(panic::take_hook());
        }
    }
}

/// As it was. If that fails, there is nobody left to tell.
fn leaves(before: &Termios) {
    let mut out = io::stdout();
    let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
}

/// The keys in what was typed. What is none of them is passed over.
fn keys_of(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some(first) = bytes.first() {
        let found = SEQUENCES.iter().find(|(sequence, _)| bytes.starts_with(sequence));
        match found {
            Some((sequence, key)) => {
                keys.push(*key);
                bytes = &bytes[sequence.len()..];
            }
            // Another key that sends several bytes: they end with a letter or a tilde.
            None if *first == 0x1b && bytes.len() > 2 => {
                let end = bytes.iter().skip(2).position(|b| (0x40..=0x7e).contains(b)).map_or(bytes.len(), |at| at + 3);
                bytes = &bytes[end..];
            }
            None => bytes = &bytes[1..],
        }
    }
    keys
}

/// What terminals send. Longer ones first where one begins with another.
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
    // Ctrl-C: in raw mode it is a key.
    (b"\x03", Key::Quit),
];

/// The other screen, cleared, without a cursor and without lines that wrap.
const ENTER: &str = "\x1b[?1049h\x1b[2J\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// How often to look at the size of the window and at signals, while nothing is typed.
const LOOK_UP: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart_also_when_several_come_at_once() {
        assert_eq!(keys_of(b"\x1b[C\x1b[C\x1b[D]["), [Key::Next, Key::Next, Key::Back, Key::NextTurn, Key::LastTurn]);
        assert_eq!(keys_of(b"\x1b[1~\x1bOFq"), [Key::Home, Key::End, Key::Quit]);
        assert_eq!(keys_of(b"\x03"), [Key::Quit]);
    }

    #[test]
    fn a_key_that_means_nothing_is_passed_over_as_a_whole() {
        assert_eq!(keys_of(b"\x1b[15~n"), [Key::Next], "F5 sends a bracket, which is no turn back");
        assert_eq!(keys_of(b"\x1b"), []);
        assert_eq!(keys_of(b"x\xff"), []);
    }
}
