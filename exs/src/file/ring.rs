//! The buffers that files pass through.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::abi::{Event, EvtXfer};
use crate::errno::{Errno, Result};
use crate::library::Library;
use crate::memory::{self, Use};
use crate::queue::{Queue, Target};
use crate::socket::{Admission, Socket, Transfer};
use crate::verbs::Mr;

/// Buffers of one transfer, and their size.
pub(super) const BUFFERS: usize = 4;
pub(super) const CHUNK: usize = 1 << 20;

/// The registered buffers of a transfer, and the private queue on which their operations end.
pub(super) struct Ring<'a> {
    pub library: &'static Library,
    pub socket: &'a Arc<Socket>,
    pub queue: Arc<Queue>,
    // Before the memory it is of.
    region: Option<Arc<Mr>>,
    memory: Vec<u8>,
    /// Operations started and not ended, in order: the buffer, if it is one of ours.
    pub flying: VecDeque<Option<usize>>,
    pub free: Vec<usize>,
}

/// An operation that is over.
pub(super) struct Landed {
    /// Its buffer, if it is one of ours.
    pub buffer: Option<usize>,
    /// What its event says; of one that failed, too.
    pub xfer: EvtXfer,
    pub result: Result<()>,
}

impl<'a> Ring<'a> {
    pub(super) fn new(library: &'static Library, socket: &'a Arc<Socket>) -> Self {
        Self {
            library,
            socket,
            queue: Queue::new(BUFFERS),
            region: None,
            memory: Vec::new(),
            flying: VecDeque::new(),
            free: (0..BUFFERS).collect(),
        }
    }

    /// The buffers, made at the first use.
    pub(super) fn region(&mut self) -> Result<Arc<Mr>> {
        if let Some(region) = &self.region {
            return Ok(Arc::clone(region));
        }

        self.memory = memory::zeroed(BUFFERS * CHUNK)?;
        let device = self.socket.device()?;

        // SAFETY: it is used through raw pointers while operations have it, and looked at when they
        // are over.
        let region = unsafe {
            device.register(
                self.memory.as_mut_ptr() as usize,
                self.memory.len(),
                true,
                true,
            )
        }?;

        let region = Arc::new(region);
        self.region = Some(Arc::clone(&region));
        Ok(region)
    }

    pub(super) fn address(&self, buffer: usize) -> usize {
        self.memory.as_ptr() as usize + buffer * CHUNK
    }

    /// A buffer that no operation has.
    pub(super) fn buffer(&mut self, buffer: usize, length: usize) -> &mut [u8] {
        &mut self.memory[buffer * CHUNK..][..length]
    }

    pub(super) fn target(&self) -> Result<Target> {
        Target::new(Some(Arc::clone(&self.queue)), 0, true)
    }

    /// Waits for the oldest operation.
    pub(super) fn wait(&mut self) -> Result<Landed> {
        let event = wait_one(self.library, &self.queue)?;
        let buffer = self.flying.pop_front().flatten();
        self.free.extend(buffer);
        let result = match event.exs_evt_errno {
            0 => Ok(()),
            code => Err(Errno(code)),
        };
        Ok(Landed {
            buffer,
            xfer: event.xfer(),
            result,
        })
    }

    /// Waits for all that is flying, whatever becomes of it: the buffers must not go before.
    pub(super) fn land(&mut self) {
        while !self.flying.is_empty() {
            let _ = self.wait();
        }
    }
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        self.land();
    }
}

/// Waits for one event of a private queue, through signals.
pub(crate) fn wait_one(library: &'static Library, queue: &Queue) -> Result<Event> {
    loop {
        match queue.take(1, 1, None, &library, || Ok(())) {
            Ok(events) => {
                if let Some(event) = events.first() {
                    return Ok(*event);
                }
            }
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
}
/// Starts an operation on memory of our own.
pub(super) fn submit(
    ring: &mut Ring<'_>,
    address: usize,
    length: usize,
    region: Option<&Arc<Mr>>,
    flag: bool,
    used: Use,
) -> Result<()> {
    let transfer = Transfer {
        address,
        length,
        memory: None,
        region: region.cloned(),
        mhandle: 0,
        flag,
    };

    let target = ring.target()?;
    match used {
        Use::Send => ring.socket.send(transfer, Admission::File, target)?,
        Use::Receive => ring.socket.receive(transfer, Admission::File, target)?,
    }

    ring.flying.push_back(None);
    Ok(())
}
