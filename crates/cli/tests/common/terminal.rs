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
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap().into_string().unwrap();
        let terminal = File::options().read(true).write(true).open(name).unwrap();
        let before = settings(&tcgetattr(&terminal).unwrap());
        let end = || Stdio::from(terminal.try_clone().unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_pole"));
        let child = command.args(args).env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let keyboard = File::from(keyboard);
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

fn settings(of: &Termios) -> String {
    format!("{:?} {:?} {:?} {:?}", of.input_modes, of.output_modes, of.control_modes, of.local_modes)
}
