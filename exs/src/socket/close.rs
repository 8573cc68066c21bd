//! How a socket ends, by its application, its peer or a timer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Inner, Phase, Socket};
use crate::abi::{EXS_EVT_CLOSE, EventDetail};
use crate::conn::{Conn, Link};
use crate::errno::Errno;
use crate::library::Library;
use crate::queue::Target;

/// How long a close waits for sends in progress while none of them moves on, and then for the
/// peer's answer.
const LINGER: Duration = Duration::from_secs(20);
const FAREWELL: Duration = Duration::from_secs(3);

/// The wait of a close for sends in progress.
#[derive(Default)]
pub(super) struct Linger {
    moved: u64,
}

impl Linger {
    /// It begins, or its time has passed: true if sends have moved on since the last time.
    fn again(&mut self, moved: u64) -> bool {
        moved != std::mem::replace(&mut self.moved, moved)
    }
}

fn moved(conn: &Conn) -> u64 {
    conn.machine().map_or(0, |machine| machine.parts_done())
}

impl Socket {
    /// Closes: nobody can name the socket any more. What is in progress is finished or canceled
    /// first.
    pub(crate) fn close(self: &Arc<Self>, library: &Library, target: Target) {
        let mut inner = self.lock();
        inner.close = Some(target);
        inner.closing = true;
        let children = match std::mem::replace(&mut inner.phase, Phase::Dead) {
            Phase::Connected(mut conn) => {
                // Receives that a shutdown would end quietly are canceled by a close.
                conn.quiet_stop = false;
                inner.linger.again(moved(&conn));
                inner.phase = Phase::Connected(conn);
                inner.write_shut = true;
                inner.read_shut = true;
                inner.look();
                Vec::new()
            }
            Phase::Resolving(id, attempt) => {
                drop(id);
                attempt.end(inner.fd, Err(Errno(libc::ECANCELED)));
                Vec::new()
            }
            Phase::Connecting(conn, attempt) => {
                drop(conn);
                attempt.end(inner.fd, Err(Errno(libc::ECANCELED)));
                Vec::new()
            }
            Phase::Listening(listener) => listener.close(inner.fd),
            Phase::Idle(_) | Phase::Accepting(..) | Phase::Dead => Vec::new(),
        };

        let waits = matches!(inner.phase, Phase::Connected(_));
        if !waits {
            inner.end_close(library, self.key);
        }

        drop(inner);
        for child in children {
            child.abandon(library);
        }
        if waits {
            library.timer(Instant::now() + LINGER, self.key);
            self.settle(library);
        }
    }

    /// Ends a connection that no one has accepted, or can.
    pub(crate) fn abandon(self: &Arc<Self>, library: &Library) {
        let mut inner = self.lock();
        inner.closing = true;
        inner.phase = Phase::Dead;
        inner.end_close(library, self.key);
    }

    /// A timer of this socket's has run out: what is overdue ends.
    pub(crate) fn overdue(self: &Arc<Self>, library: &Library) {
        let mut inner = self.lock();
        match std::mem::replace(&mut inner.phase, Phase::Dead) {
            Phase::Resolving(id, attempt) => {
                drop(id);
                inner.phase = Phase::Idle(None);
                attempt.end(inner.fd, Err(Errno(libc::ETIMEDOUT)));
            }
            Phase::Connecting(conn, attempt) => {
                drop(conn);
                inner.phase = Phase::Idle(None);
                attempt.end(inner.fd, Err(Errno(libc::ETIMEDOUT)));
            }
            Phase::Connected(mut conn) => {
                if inner.closing && conn.link() == Link::Up {
                    match inner.linger.again(moved(&conn)) {
                        true => library.timer(Instant::now() + LINGER, self.key),
                        false => {
                            inner.gave_up = true;
                            conn.sever();
                        }
                    }
                } else if conn.link() == Link::Draining {
                    conn.end();
                }
                if inner.closing && conn.link() == Link::Gone {
                    inner.disconnected = true;
                }
                inner.phase = Phase::Connected(conn);
            }
            other => inner.phase = other,
        }

        drop(inner);
        self.settle(library);
    }

    /// After anything that may have changed the connection: does what follows from it.
    pub(crate) fn settle(self: &Arc<Self>, library: &Library) {
        let mut inner = self.lock();
        inner.look();
        let Ok(link) = inner.connected().map(Conn::link) else {
            return;
        };
        if link == Link::Draining || (link == Link::Gone && inner.closing) {
            library.timer_once(Instant::now() + FAREWELL, self.key);
        }
        let over = link == Link::Gone && inner.disconnected;
        if inner.closing && over && !inner.sends.occupied() && !inner.receives.occupied() {
            inner.phase = Phase::Dead;
            inner.end_close(library, self.key);
        }
    }

    /// The connection manager says that the connection has ended.
    pub(crate) fn disconnected(&self) {
        let mut inner = self.lock();
        inner.disconnected = true;
        if let Phase::Connected(conn) | Phase::Accepting(conn, _) = &mut inner.phase {
            conn.answer_disconnect();
        }
        inner.look();
    }
}

impl Inner {
    /// The close is done: the descriptor and the number go, and the application is told.
    fn end_close(&mut self, library: &Library, key: u64) {
        library.forget(key);
        let fd = std::mem::replace(&mut self.fd, -1);
        if fd >= 0 {
            // SAFETY: made for this socket, and given to nobody else.
            unsafe { libc::close(fd) };
        }
        if let Some(target) = self.close.take() {
            let result = match self.gave_up {
                true => Err(Errno(libc::ETIMEDOUT)),
                false => Ok(()),
            };
            target.end(EXS_EVT_CLOSE, fd, result, EventDetail::None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_waits_as_long_as_sends_move_on() {
        let mut linger = Linger::default();
        linger.again(5);
        assert!(linger.again(6) && linger.again(9));
        assert!(!linger.again(9));
    }
}
