//! Runs the `pole` command on a pseudo-terminal, types keys and reads the screen.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, tcgetattr};

use super::LIMIT;

/// A command with a terminal of its own.
pub(crate) struct Terminal {
    pub(crate) child: Child,
    keyboard: File,
    /// A second handle on the terminal, to check its state afterwards.
    terminal: File,
    before: String,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    pub(crate) fn start(args: &[&str]) -> Self {
        let (keyboard, terminal) = open();
        let before = settings(&tcgetattr(&terminal).unwrap());
        let child = spawn(args, &terminal);
        let (mut screen, (sender, output)) = (keyboard.try_clone().unwrap(), channel());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut bytes) {
                if sender.send(bytes[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard, terminal, before, output, seen: String::new() }
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen has shown `expected`, after what earlier calls waited for.
    pub(crate) fn until(&mut self, expected: &str) {
        loop {
            if let Some(at) = self.seen.find(expected) {
                self.seen.drain(..at + expected.len());
                return;
            }
            match self.output.recv_timeout(LIMIT) {
                Ok(bytes) => self.seen += &String::from_utf8_lossy(&bytes),
                Err(error) => panic!("no {expected:?} ({error}) in\n{:?}", self.seen),
            }
        }
    }

    /// The command has ended well, and the terminal is as it was before.
    pub(crate) fn assert_restored(mut self) {
        assert!(self.child.wait().unwrap().success());
        assert_eq!(settings(&tcgetattr(&self.terminal).unwrap()), self.before);
    }
}

/// Starts a command, waits for `expected` on its screen, and closes the terminal. Returns the exit code.
pub(crate) fn hang_up_after(args: &[&str], expected: &str) -> Option<i32> {
    let (mut keyboard, terminal) = open();
    let mut child = spawn(args, &terminal);
    drop(terminal);
    let (mut seen, mut bytes) = (String::new(), [0; 4096]);
    while !seen.contains(expected) {
        let read = keyboard.read(&mut bytes).unwrap_or_else(|error| panic!("no {expected:?} ({error}) in\n{seen:?}"));
        seen += &String::from_utf8_lossy(&bytes[..read]);
    }
    drop(keyboard);
    child.wait().unwrap().code()
}

/// Both ends of a new pseudo-terminal: the keyboard with the screen, and the terminal for a program.
fn open() -> (File, File) {
    // Inherited by a child, it would keep the terminal open.
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let name = ptsname(&keyboard, Vec::new()).unwrap().into_string().unwrap();
    (File::from(keyboard), File::options().read(true).write(true).open(name).unwrap())
}

fn spawn(args: &[&str], terminal: &File) -> Child {
    let end = || Stdio::from(terminal.try_clone().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_pole"));
    command.args(args).env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end()).spawn().unwrap()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After a failed test it still runs. An error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn settings(of: &Termios) -> String {
    format!("{:?} {:?} {:?} {:?}", of.input_modes, of.output_modes, of.control_modes, of.local_modes)
}
