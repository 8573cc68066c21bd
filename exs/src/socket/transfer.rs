//! Starting operations on a connection.

use std::sync::Arc;

use super::{Admission, Phase, Shutdown, Socket, Transfer, Waiting};
use crate::abi::{EXS_EVT_SEND, EXS_RECVS_MAX, EXS_SENDS_MAX, EventDetail, EvtXfer};
use crate::conn::Op;
use crate::errno::{Errno, Result};
use crate::memory::{Buffer, Use};
use crate::queue::Target;
use crate::verbs::Device;

impl Socket {
    /// Whether this socket can send: its errno if not.
    pub(crate) fn may_send(&self) -> Result<()> {
        let inner = self.lock();
        inner.writable().map(|_| ())
    }

    /// Whether this socket can receive.
    pub(crate) fn may_receive(&self) -> Result<()> {
        let inner = self.lock();
        inner.connected().map(|_| ())
    }

    /// Starts a send from memory.
    pub(crate) fn send(
        &self,
        transfer: Transfer,
        admission: Admission,
        target: Target,
    ) -> Result<()> {
        let mut inner = self.lock();
        let file = admission == Admission::File;
        let conn = if file {
            inner.connected()?
        } else {
            inner.writable()?
        };
        let sending = conn.machine().map_or(0, |machine| machine.sending());
        let room = conn.machine().map_or(0, |machine| machine.room()) as usize;
        let device = Arc::clone(conn.device());
        // A message cannot be taken in part.
        let keep = admission == Admission::Immediate && self.messages && room < transfer.length;
        match admission {
            Admission::Queued if sending + inner.sends.waiting.len() >= EXS_SENDS_MAX => {
                return Err(Errno(libc::EBUSY));
            }
            // What has credit needs no answer of the peer's: a stream takes that much, and of a
            // message that is more, for which there may never be credit, one copy is kept.
            Admission::Immediate if room == 0 || inner.sends.occupied() => {
                return Err(Errno(libc::EBUSY));
            }
            _ => {}
        }

        let (flag, mhandle) = (transfer.flag, transfer.mhandle);
        let (address, length) = (transfer.address, transfer.length);
        let memory = transfer.memory.as_deref();
        let buffer = match admission {
            Admission::Immediate if keep => Buffer::kept(&device, address, length, memory)?,
            Admission::Immediate => Buffer::copied(address, length.min(room), memory)?,
            _ => transfer.buffer(&device, Use::Send)?,
        };

        let target = match keep {
            true => {
                let detail = EventDetail::Xfer(EvtXfer {
                    exs_evt_buffer: address,
                    exs_evt_length: length,
                    exs_evt_mhandle: mhandle,
                    exs_evt_flags: 0,
                });
                target.end(EXS_EVT_SEND, inner.fd, Ok(()), detail);
                Target::none()
            }
            false => target,
        };
        let op = Op {
            buffer,
            flag,
            mhandle,
            target,
        };

        if !file && inner.sends.occupied() {
            inner.sends.waiting.push_back(Waiting::Memory(op));
            return Ok(());
        }

        if let Phase::Connected(conn) = &mut inner.phase {
            conn.send(op);
        }

        inner.look();
        Ok(())
    }

    /// Starts a receive into memory.
    pub(crate) fn receive(
        &self,
        transfer: Transfer,
        admission: Admission,
        target: Target,
    ) -> Result<()> {
        let mut inner = self.lock();
        let file = admission == Admission::File;
        let conn = inner.connected()?;
        let receiving = conn.machine().map_or(0, |machine| machine.receiving());
        let ready = conn.machine().is_some_and(|machine| machine.readable());
        let device = Arc::clone(conn.device());
        match admission {
            Admission::Queued if receiving + inner.receives.waiting.len() >= EXS_RECVS_MAX => {
                return Err(Errno(libc::EAGAIN));
            }
            Admission::Immediate if !ready || receiving > 0 || inner.receives.occupied() => {
                return Err(Errno(libc::EAGAIN));
            }
            _ => {}
        }

        // To fill the buffer may take more than is there.
        let flag = transfer.flag && admission != Admission::Immediate;
        let mhandle = transfer.mhandle;
        let op = Op {
            buffer: transfer.buffer(&device, Use::Receive)?,
            flag,
            mhandle,
            target,
        };

        if !file && inner.receives.occupied() {
            inner.receives.waiting.push_back(Waiting::Memory(op));
            return Ok(());
        }

        if let Phase::Connected(conn) = &mut inner.phase {
            conn.receive(op);
        }

        inner.look();
        Ok(())
    }

    /// Queues a file transfer, whose `turn` is called once everything before it is on its way. It
    /// may be called right here, under the socket's lock: it must only pass the word on.
    pub(crate) fn queue_file(&self, used: Use, turn: Box<dyn FnOnce() + Send>) -> Result<()> {
        let mut inner = self.lock();
        match used {
            Use::Send => {
                inner.writable()?;
                if inner.sends.waiting.len() >= EXS_SENDS_MAX {
                    return Err(Errno(libc::EBUSY));
                }
                inner.sends.waiting.push_back(Waiting::File(turn));
            }
            Use::Receive => {
                inner.connected()?;
                if inner.receives.waiting.len() >= EXS_RECVS_MAX {
                    return Err(Errno(libc::EAGAIN));
                }
                inner.receives.waiting.push_back(Waiting::File(turn));
            }
        }

        inner.look();
        Ok(())
    }

    /// The file transfer that had its turn has queued all it had.
    pub(crate) fn file_over(&self, used: Use) {
        let mut inner = self.lock();
        match used {
            Use::Send => inner.sends.busy = false,
            Use::Receive => inner.receives.busy = false,
        }
        inner.look();
    }

    /// The device under a connection.
    pub(crate) fn device(&self) -> Result<Arc<Device>> {
        let inner = self.lock();
        inner.connected().map(|conn| Arc::clone(conn.device()))
    }

    /// Shuts down one direction or both.
    pub(crate) fn shutdown(&self, read: bool, write: bool, target: Target) -> Result<()> {
        let mut inner = self.lock();
        inner.connected()?;
        inner.write_shut |= write;
        inner.read_shut |= read;
        inner.shutdowns.push(Shutdown {
            read,
            write,
            target,
        });
        inner.look();
        Ok(())
    }
}

impl Transfer {
    fn buffer(self, device: &Arc<Device>, used: Use) -> Result<Buffer> {
        match &self.region {
            Some(region) => Ok(Buffer::of_region(self.address, self.length, region)),
            None => Buffer::new(device, self.address, self.length, self.memory, used),
        }
    }
}
