//! Where keys come from. What turns bytes into keys reads on and on at the end of a terminal that
//! has gone, so it is not asked to wait, nor to look once that is so.

use std::fs::File;
use std::io::{self, IsTerminal, Stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What keys are read from: standard input, or the terminal of this process where that is another
/// file.
pub(super) enum Keyboard {
    Input(Stdin),
    Terminal(File),
}

impl Keyboard {
    pub(super) fn open() -> io::Result<Keyboard> {
        let input = io::stdin();
        match input.is_terminal() {
            true => Ok(Keyboard::Input(input)),
            false => File::open("/dev/tty").map(Keyboard::Terminal),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Keyboard::Input(input) => input.as_fd(),
            Keyboard::Terminal(terminal) => terminal.as_fd(),
        }
    }

    /// Returns when there is something to read, a signal comes, or the time has passed. An error
    /// (`EIO`) once the terminal has gone: its window was closed.
    pub(super) fn wait(&self, time: Duration) -> io::Result<()> {
        let fd = self.fd();
        let mut look = [PollFd::new(&fd, PollFlags::IN)];
        // Well within what it holds, as callers wait for parts of a second.
        let time = Timespec::try_from(time).unwrap_or_default();
        match poll(&mut look, Some(&time)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        match look[0]
            .revents()
            .intersects(PollFlags::HUP | PollFlags::ERR)
        {
            true => Err(Errno::IO.into()),
            false => Ok(()),
        }
    }
}
