//! Completion queues: a bounded queue, its notification state, and the polling entry that drives the engine.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::events::{Delivered, EventPipe};
use crate::limits;

/// A work completion with the layout of `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Wc {
    pub wr_id: u64,
    /// `enum ibv_wc_status`
    pub status: u32,
    /// `enum ibv_wc_opcode`
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    /// Immediate data as the bytes came, or the invalidated key in host byte order.
    pub imm_data: [u8; 4],
    pub qp_num: u32,
    pub src_qp: u32,
    /// `enum ibv_wc_flags`
    pub wc_flags: u32,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

/// `IBV_EVENT_CQ_ERR`
const EVENT_CQ_ERR: u32 = 0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Armed {
    No,
    Solicited,
    Any,
}

struct Queue {
    entries: VecDeque<Wc>,
    capacity: u32,
    armed: Armed,
    /// Completion events written to the channel.
    notified: u32,
    events: u32,
    overrun: bool,
}

/// A completion queue.
pub struct Cq {
    context: Arc<Context>,
    handle: u32,
    cookie: u64,
    channel: Option<EventPipe<8>>,
    queue: Mutex<Queue>,
    /// Entries, readable without the lock.
    len: AtomicUsize,
    users: AtomicU32,
    destroyed: AtomicBool,
}

impl Cq {
    pub(crate) fn new(
        context: &Arc<Context>,
        cqe: u32,
        cookie: u64,
        channel: Option<RawFd>,
    ) -> Result<Arc<Cq>> {
        if cqe == 0 || cqe > limits::MAX_CQE {
            return Err(Error::Invalid(
                "cqe must be between 1 and the device's max_cqe",
            ));
        }
        let channel = channel.map(EventPipe::attach).transpose()?;
        context
            .hca()
            .count
            .cq
            .take(limits::MAX_CQ, "completion queues")?;
        Ok(Arc::new(Cq {
            context: context.clone(),
            handle: context.hca().new_handle(),
            cookie,
            channel,
            queue: Mutex::new(Queue {
                entries: VecDeque::new(),
                capacity: cqe,
                armed: Armed::No,
                notified: 0,
                events: 0,
                overrun: false,
            }),
            len: AtomicUsize::new(0),
            users: AtomicU32::new(0),
            destroyed: AtomicBool::new(false),
        }))
    }

    /// A number that identifies the queue in this process.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Entries that it can hold.
    pub fn cqe(&self) -> u32 {
        self.queue.lock().capacity
    }

    /// Takes up to `wc.len()` completions, oldest first. On an empty queue the caller's thread runs the engine for a moment.
    #[inline]
    pub fn poll(&self, wc: &mut [Wc]) -> Result<usize> {
        if self.len.load(Ordering::Acquire) == 0 {
            self.context.hca().poll_from_app();
            if self.len.load(Ordering::Acquire) == 0 {
                return Ok(0);
            }
        }
        let mut queue = self.queue.lock();
        let n = wc.len().min(queue.entries.len());
        for (slot, entry) in wc.iter_mut().zip(queue.entries.drain(..n)) {
            *slot = entry;
        }
        self.len.store(queue.entries.len(), Ordering::Release);
        Ok(n)
    }

    /// Asks for one completion event: for the next completion, or (`solicited_only`) the next solicited or failed one.
    pub fn req_notify(&self, solicited_only: bool) -> Result<()> {
        {
            let mut queue = self.queue.lock();
            // A request for any completion is not weakened by a later one for solicited completions only.
            if !(solicited_only && queue.armed == Armed::Any) {
                queue.armed = if solicited_only {
                    Armed::Solicited
                } else {
                    Armed::Any
                };
            }
        }
        self.context.hca().app_will_sleep();
        Ok(())
    }

    /// Changes the capacity; completions already there must fit (`EINVAL`).
    pub fn resize(&self, cqe: u32) -> Result<u32> {
        if cqe == 0 || cqe > limits::MAX_CQE {
            return Err(Error::Invalid(
                "cqe must be between 1 and the device's max_cqe",
            ));
        }
        let mut queue = self.queue.lock();
        if queue.entries.len() > cqe as usize {
            return Err(Error::Invalid(
                "more completions are queued than the new size holds",
            ));
        }
        queue.capacity = cqe;
        Ok(cqe)
    }

    /// Adds a completion. `false`: the queue overran, and the queue pair must fail.
    pub(crate) fn push(&self, wc: Wc, solicited: bool) -> bool {
        let mut queue = self.queue.lock();
        if queue.overrun || queue.entries.len() >= queue.capacity as usize {
            if !std::mem::replace(&mut queue.overrun, true)
                && self.context.async_event(self.cookie, EVENT_CQ_ERR)
            {
                queue.events += 1;
            }
            return false;
        }
        queue.entries.push_back(wc);
        self.len.store(queue.entries.len(), Ordering::Release);
        if queue.armed == Armed::Any
            || (queue.armed == Armed::Solicited && (solicited || wc.status != 0))
        {
            queue.armed = Armed::No;
            if let Some(channel) = &self.channel
                && channel.push(&self.cookie.to_ne_bytes())
            {
                queue.notified += 1;
            }
        }
        true
    }

    /// Drops the completions of a queue pair that was destroyed or reset, as its number may come back.
    pub(crate) fn purge(&self, qpn: u32) {
        let mut queue = self.queue.lock();
        queue.entries.retain(|wc| wc.qp_num != qpn);
        self.len.store(queue.entries.len(), Ordering::Release);
    }

    pub(crate) fn add_user(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_user(&self) {
        self.users.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Ends the queue. The caller then waits until the consumer has acknowledged what was delivered.
    pub fn destroy(&self) -> Result<Delivered> {
        if self.users.load(Ordering::Relaxed) != 0 {
            return Err(Error::Busy("completion queue"));
        }
        let mut queue = self.queue.lock();
        queue.entries.clear();
        queue.armed = Armed::No;
        self.len.store(0, Ordering::Release);
        let unread = self
            .channel
            .as_ref()
            .map_or(0, |c| c.take_back(|r| *r == self.cookie.to_ne_bytes()));
        let unread_events = self.context.take_back_events(self.cookie, queue.events);
        if !self.destroyed.swap(true, Ordering::Relaxed) {
            self.context.hca().count.cq.give_back();
        }
        Ok(Delivered {
            comp: queue.notified - unread,
            events: queue.events - unread_events,
        })
    }
}
