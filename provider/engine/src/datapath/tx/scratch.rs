//! Buffers of a thread that sends.

use std::cell::RefCell;

use ferroce_wire::link::MAX_HEAD;
use ferroce_wire::{MAX_HEADER, MAX_TAIL};

use crate::memory::guard;
use crate::port::MAX_RUN;
use crate::tuning::STRETCH;

/// Room that one packet without long pieces needs beside its payload, also one that is sent ahead
/// of what is there.
const PACKET_SLACK: usize = MAX_HEAD + MAX_HEADER + MAX_TAIL + 4;
/// `UIO_MAXIOV`.
pub(super) const MAX_IOVECS: usize = 1024;

/// Buffers of one thread.
pub(super) struct Scratch {
    pub(super) arena: Box<[u8]>,
    pub(super) iov: Vec<libc::iovec>,
    pub(super) shared: super::together::Shared,
}

impl Scratch {
    pub(super) fn new() -> Scratch {
        Scratch {
            arena: vec![0; MAX_RUN.max(STRETCH as usize) + PACKET_SLACK].into_boxed_slice(),
            iov: Vec::with_capacity(MAX_IOVECS),
            shared: Default::default(),
        }
    }
}

thread_local! {
    pub(super) static SCRATCH: RefCell<Scratch> = {
        // What a thread sends it reads from registered memory.
        guard::admit_thread();
        RefCell::new(Scratch::new())
    };
}
