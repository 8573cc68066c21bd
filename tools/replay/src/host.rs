//! What is around a queue pair that is replayed: memory and receive requests as the capture shows
//! that they were, and completions until somebody asks for them.

use std::collections::BTreeMap;

use ferroce_transport::{
    Access, Completion, Flush, Host, MemoryError, PathSignal, QpEvent, RecvWqe, Sge, WindowBind,
};
use ferroce_wire::Octets;
use smallvec::SmallVec;

/// The key of memory that is not there.
pub(crate) const BAD_KEY: u32 = 1;

/// What a request finds there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// Why memory is not to be accessed at the moment, if it is not.
    pub(crate) refuses: Option<MemoryError>,
    /// XRC: there is no shared receive queue of the number that is named.
    pub(crate) no_queue: bool,
    /// The value that an ATOMIC finds.
    pub(crate) word: u64,
    /// Whether a shared receive queue has a request.
    pub(crate) shared: bool,
    /// Bytes that it takes, if that is known.
    pub(crate) room: Option<u32>,
}

/// What is around it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplayHost {
    /// What the request that is being carried out finds.
    pub(crate) found: Found,
    /// What those will find that came early, by PSN.
    pub(crate) early: BTreeMap<u32, Found>,
    /// Completions that nobody has asked for yet: of a receive request, and which.
    pub(crate) completions: Vec<(bool, Completion)>,
    pub(crate) events: Vec<QpEvent>,
}

pub(crate) fn are_good(sges: &[Sge]) -> bool {
    sges.iter().all(|sge| sge.lkey != BAD_KEY)
}

fn good(is: bool) -> Result<(), MemoryError> {
    match is {
        true => Ok(()),
        false => Err(MemoryError::Key),
    }
}

impl ReplayHost {
    fn allows(&self) -> Result<(), MemoryError> {
        self.found.refuses.map_or(Ok(()), Err)
    }
}

impl Host for ReplayHost {
    fn carries_out(&mut self, psn: u32) {
        self.found = self.early.get(&psn).copied().unwrap_or_default();
    }

    fn check_remote(&mut self, _: u32, _: u64, _: u64, _: Access) -> Result<(), MemoryError> {
        match self.found.refuses {
            Some(MemoryError::Fault) => Ok(()), // found when it is touched
            _ => self.allows(),
        }
    }

    fn write_remote(&mut self, _: u32, _: u64, _: Octets<'_>) -> Result<(), MemoryError> {
        self.allows()
    }

    fn compare_swap(&mut self, _: u32, _: u64, _: u64, _: u64) -> Result<u64, MemoryError> {
        self.allows().map(|()| self.found.word)
    }

    fn fetch_add(&mut self, _: u32, _: u64, _: u64) -> Result<u64, MemoryError> {
        self.allows().map(|()| self.found.word)
    }

    fn write_word(&mut self, _: u32, _: u64, _: [u8; 8]) -> Result<(), MemoryError> {
        self.allows()
    }

    fn flush_remote(&mut self, _: &Flush) -> Result<(), MemoryError> {
        self.allows()
    }

    fn invalidate_remote(&mut self, _: u32) -> Result<(), MemoryError> {
        self.allows()
    }

    fn invalidate_local(&mut self, key: u32) -> Result<(), MemoryError> {
        good(key != BAD_KEY)
    }

    fn bind_window(&mut self, bind: &WindowBind) -> Result<(), MemoryError> {
        good(bind.lkey != BAD_KEY)
    }

    fn select_srq(&mut self, _: u32) -> Result<(), MemoryError> {
        good(!self.found.no_queue)
    }

    fn check_local(&mut self, sges: &[Sge], _: Access) -> Result<(), MemoryError> {
        good(are_good(sges))
    }

    fn scatter(&mut self, sges: &[Sge], _: u32, _: Octets<'_>) -> Result<(), MemoryError> {
        good(are_good(sges))
    }

    fn scatter_received(&mut self, _: &[Sge], _: u32, _: Octets<'_>) -> Result<(), MemoryError> {
        match self.found.refuses {
            Some(MemoryError::Fault) => self.allows(),
            _ => Ok(()),
        }
    }

    fn take_srq(&mut self) -> Option<RecvWqe> {
        let length = self.found.room.unwrap_or(u32::MAX);
        self.found.shared.then(|| RecvWqe {
            wr_id: 0,
            sges: SmallVec::from_slice(&[Sge {
                length,
                ..Sge::default()
            }]),
            skip: 0,
        })
    }

    fn complete_send(&mut self, completion: Completion) {
        self.completions.push((false, completion));
    }

    fn complete_recv(&mut self, completion: Completion) {
        self.completions.push((true, completion));
    }

    fn event(&mut self, event: QpEvent) {
        self.events.push(event);
    }

    fn path_signal(&mut self, _: PathSignal) {}
}
