//! The bytes between tester and agent: a socket of either kind, and nothing waits beyond a
//! deadline.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Both ways of reaching an agent have deadlines.
pub(super) enum Stream {
    Local(UnixStream),
    Remote(TcpStream),
}

impl Stream {
    /// Writes all of it.
    ///
    /// # Errors
    /// If the other end has gone, or takes nothing until the deadline.
    pub(super) fn write(&mut self, mut bytes: &[u8], deadline: Instant) -> Result<()> {
        while !bytes.is_empty() {
            let left = left_until(deadline)?;
            let written = match self {
                Stream::Local(stream) => {
                    stream.set_write_timeout(Some(left))?;
                    stream.write(bytes)
                }
                Stream::Remote(stream) => {
                    stream.set_write_timeout(Some(left))?;
                    stream.write(bytes)
                }
            };

            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => bytes = &bytes[len..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }

        Ok(())
    }

    /// Reads what is there, or waits for something: so many bytes, at least one.
    ///
    /// # Errors
    /// If the other end has gone, or sends nothing until the deadline.
    pub(super) fn read(&mut self, buffer: &mut [u8], deadline: Instant) -> Result<usize> {
        loop {
            let left = left_until(deadline)?;
            let read = match self {
                Stream::Local(stream) => {
                    stream.set_read_timeout(Some(left))?;
                    stream.read(buffer)
                }
                Stream::Remote(stream) => {
                    stream.set_read_timeout(Some(left))?;
                    stream.read(buffer)
                }
            };

            match read {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}

/// What is left of the time, as sockets want it: never 0, which would be for ever.
fn left_until(deadline: Instant) -> Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}
