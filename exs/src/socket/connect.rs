//! From nothing to a connection or a listener.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Attempt, Inner, Phase, Socket};
use crate::errno::{Errno, Result};
use crate::library::Library;
use crate::listen::Listener;
use crate::queue::Target;
use crate::verbs::{Address, CmId};

impl Socket {
    /// Starts a connection; the events of the connection manager do the rest.
    pub(crate) fn connect(
        self: &Arc<Self>,
        library: &Library,
        to: &Address,
        timeout: Option<Duration>,
        target: Target,
    ) -> Result<()> {
        let mut inner = self.lock();
        if !matches!(inner.phase, Phase::Idle(_)) {
            return Err(Errno(libc::EINVAL));
        }
        // The connection manager would ask all of the group, and hear of nobody.
        if to.is_multicast() {
            return Err(Errno(libc::ENETUNREACH));
        }

        let mut id = self.identifier(library, &mut inner)?;
        let ms = timeout.map_or(5000, |timeout| timeout.as_millis().clamp(1, 60_000) as i32);
        if let Err(error) = id.resolve_address(to, ms) {
            inner.phase = Phase::Idle(Some(id));
            return Err(unreachable_as(error));
        }

        let timer = timeout.map(|timeout| library.deadline(Instant::now() + timeout, self.key));
        inner.phase = Phase::Resolving(id, Attempt { target, timer });
        Ok(())
    }

    /// The identifier of an idle socket, bound again if it was.
    fn identifier(&self, library: &Library, inner: &mut Inner) -> Result<CmId> {
        let Phase::Idle(id) = &mut inner.phase else {
            return Err(Errno(libc::EINVAL));
        };
        if let Some(id) = id.take() {
            return Ok(id);
        }
        let mut id = library.cm.id(self.key)?;
        if let Some(address) = &inner.bound {
            id.bind(address, true)?;
        }
        Ok(id)
    }

    /// Binds to a local address.
    pub(crate) fn bind(&self, library: &Library, address: &Address) -> Result<()> {
        let mut inner = self.lock();
        if !matches!(inner.phase, Phase::Idle(_)) || inner.bound.is_some() {
            return Err(Errno(libc::EINVAL));
        }
        let mut id = library.cm.id(self.key)?;
        if let Err(error) = id.bind(address, false) {
            // The connection manager's word for an address that nobody has is also that for a port
            // which is taken at all addresses, or at one of them.
            if error == Errno(libc::EADDRNOTAVAIL) {
                let mut other = library.cm.id(self.key)?;
                other.bind(&address.with_any_port(), false)?;
                return Err(Errno(libc::EADDRINUSE));
            }
            return Err(error);
        }
        inner.phase = Phase::Idle(Some(id));
        inner.bound = Some(*address);
        Ok(())
    }

    /// Listens.
    pub(crate) fn listen(&self, library: &Library, backlog: i32) -> Result<()> {
        let mut inner = self.lock();
        if !matches!(inner.phase, Phase::Idle(_)) {
            return Err(Errno(libc::EINVAL));
        }
        // It would listen at a port that nobody can learn: there is no exs_getsockname().
        if inner.bound.is_none() {
            return Err(Errno(libc::EDESTADDRREQ));
        }
        let mut id = self.identifier(library, &mut inner)?;
        if let Err(error) = id.listen() {
            inner.phase = Phase::Idle(Some(id));
            return Err(error);
        }
        inner.phase = Phase::Listening(Listener::new(id, backlog));
        Ok(())
    }
    /// Ends a connection attempt.
    pub(crate) fn connect_failed(&self, error: Errno) {
        let mut inner = self.lock();
        match std::mem::replace(&mut inner.phase, Phase::Dead) {
            Phase::Resolving(_, attempt) | Phase::Connecting(_, attempt) => {
                inner.phase = Phase::Idle(None);
                attempt.end(inner.fd, Err(error));
            }
            other => inner.phase = other,
        }
    }
}

/// The word for "there is no way" that an application expects.
pub(crate) fn unreachable_as(error: Errno) -> Errno {
    match error.0 {
        libc::ENODEV | libc::ENXIO | libc::EADDRNOTAVAIL => Errno(libc::EHOSTUNREACH),
        _ => error,
    }
}
