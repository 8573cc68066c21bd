//! The verbs objects of the agent. Each keeps what it was made of alive, so that they can be
//! dropped in any order, and each is destroyed once. What a device answers is passed on as it is;
//! nothing is checked in its stead.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::time::{Duration, Instant};

use ferroce_cabi::{
    ibv_ah, ibv_ah_attr, ibv_comp_channel, ibv_cq, ibv_mw, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_cap,
    ibv_qp_init_attr, ibv_srq, ibv_srq_attr, ibv_srq_init_attr, ibv_wc,
};
use libc::{c_int, c_uint};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::device::Device;
use super::library::{Verb, VerbsError};
use super::xrc::Xrcd;

/// Wraps what a creating function returned.
pub(super) fn created<T>(call: &'static str, object: *mut T) -> Verb<NonNull<T>> {
    NonNull::new(object).ok_or_else(|| VerbsError::last(call))
}

/// A protection domain.
pub(super) struct Pd {
    pub(super) device: Rc<Device>,
    pub(super) raw: NonNull<ibv_pd>,
}

impl Pd {
    /// `ibv_alloc_pd(3)`.
    pub(super) fn new(device: &Rc<Device>) -> Verb<Rc<Pd>> {
        // SAFETY: an open context.
        let raw = unsafe { (device.library.ibv_alloc_pd)(device.context.as_ptr()) };
        Ok(Rc::new(Pd {
            device: device.clone(),
            raw: created("ibv_alloc_pd", raw)?,
        }))
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: made by the library, and all that was made in it is gone.
        unsafe { (self.device.library.ibv_dealloc_pd)(self.raw.as_ptr()) };
    }
}

/// A completion queue with a channel of its own.
pub(super) struct Cq {
    device: Rc<Device>,
    channel: NonNull<ibv_comp_channel>,
    pub(super) raw: NonNull<ibv_cq>,
}

impl Cq {
    /// `ibv_create_cq(3)` for so many completions.
    pub(super) fn new(device: &Rc<Device>, entries: u32) -> Verb<Rc<Cq>> {
        let library = device.library;
        let context = device.context.as_ptr();

        // SAFETY: an open context; the channel is handed to the queue and outlives it.
        unsafe {
            let channel = (library.ibv_create_comp_channel)(context);
            let channel = created("ibv_create_comp_channel", channel)?;
            let entries = c_int::try_from(entries).unwrap_or(c_int::MAX);
            let raw =
                (library.ibv_create_cq)(context, entries, ptr::null_mut(), channel.as_ptr(), 0);
            let raw = created("ibv_create_cq", raw).inspect_err(|_| {
                (library.ibv_destroy_comp_channel)(channel.as_ptr());
            })?;
            Ok(Rc::new(Cq {
                device: device.clone(),
                channel,
                raw,
            }))
        }
    }

    /// Takes completions: as soon as `at_most` are there, or when the time has passed those that
    /// are. Sleeps while it waits.
    pub(super) fn poll(&self, at_most: usize, within: Duration) -> Verb<Vec<ibv_wc>> {
        let deadline = Instant::now() + within;
        let mut found = Vec::new();
        loop {
            found.extend(self.take(at_most - found.len())?);
            let left = deadline.saturating_duration_since(Instant::now());
            if found.len() >= at_most || left.is_zero() {
                return Ok(found);
            }
            // One that came between the look and the arming is found by the second look.
            self.arm()?;
            let late = self.take(at_most - found.len())?;
            match late.is_empty() {
                true => self.wait_event(left),
                false => found.extend(late),
            }
        }
    }

    /// Completions that are there.
    fn take(&self, at_most: usize) -> Verb<Vec<ibv_wc>> {
        // More than a queue holds need no room.
        let mut found = vec![ibv_wc::default(); at_most.min(1024)];
        let most = found.len() as c_int;
        let Some(poll_cq) = self.device.operations().poll_cq else {
            return Err(unsupported("ibv_poll_cq"));
        };

        // SAFETY: a live queue, and as much room as is said.
        let count = unsafe { poll_cq(self.raw.as_ptr(), most, found.as_mut_ptr()) };
        let Ok(count) = usize::try_from(count) else {
            return Err(VerbsError {
                call: "ibv_poll_cq",
                errno: libc::EIO,
            });
        };
        found.truncate(count);
        Ok(found)
    }

    fn arm(&self) -> Verb {
        let Some(notify) = self.device.operations().req_notify_cq else {
            return Err(unsupported("ibv_req_notify_cq"));
        };
        // SAFETY: a live queue.
        VerbsError::check("ibv_req_notify_cq", unsafe { notify(self.raw.as_ptr(), 0) })
    }

    /// Waits for an event of the channel and takes it.
    fn wait_event(&self, within: Duration) {
        // SAFETY: the channel owns the descriptor and is open as long as this borrow.
        let fd = unsafe { BorrowedFd::borrow_raw((*self.channel.as_ptr()).fd) };
        let timeout = Timespec::try_from(within).ok();
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        if !matches!(poll(&mut fds, timeout.as_ref()), Ok(1..)) {
            return;
        }

        let mut of = ptr::null_mut();
        let mut context = ptr::null_mut();
        let library = self.device.library;

        // SAFETY: a live channel whose descriptor is readable; an event that was taken is
        // acknowledged.
        unsafe {
            let channel = self.channel.as_ptr();
            if (library.ibv_get_cq_event)(channel, &mut of, &mut context) == 0 {
                (library.ibv_ack_cq_events)(of, 1);
            }
        }
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        let library = self.device.library;
        // SAFETY: made by the library; all queue pairs with this queue are gone, and all its events
        // are acknowledged.
        unsafe {
            (library.ibv_destroy_cq)(self.raw.as_ptr());
            (library.ibv_destroy_comp_channel)(self.channel.as_ptr());
        }
    }
}

/// What a device does not offer.
pub(super) fn unsupported(call: &'static str) -> VerbsError {
    VerbsError {
        call,
        errno: libc::EOPNOTSUPP,
    }
}

/// A shared receive queue.
pub(super) struct Srq {
    pub(super) pd: Rc<Pd>,
    pub(super) raw: NonNull<ibv_srq>,
    /// Its XRC domain, and what requests call it there.
    pub(super) xrc: Option<(Rc<Xrcd>, u32)>,
}

impl Srq {
    /// `ibv_create_srq(3)`.
    pub(super) fn new(pd: &Rc<Pd>, attr: ibv_srq_attr) -> Verb<Rc<Srq>> {
        let mut init = ibv_srq_init_attr {
            srq_context: ptr::null_mut(),
            attr,
        };
        // SAFETY: a live domain.
        let raw = unsafe { (pd.device.library.ibv_create_srq)(pd.raw.as_ptr(), &mut init) };
        Ok(Rc::new(Srq {
            pd: pd.clone(),
            raw: created("ibv_create_srq", raw)?,
            xrc: None,
        }))
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        // SAFETY: made by the library, and all queue pairs on it are gone.
        unsafe { (self.pd.device.library.ibv_destroy_srq)(self.raw.as_ptr()) };
    }
}

/// An address handle.
pub(super) struct Ah {
    pd: Rc<Pd>,
    pub(super) raw: NonNull<ibv_ah>,
}

impl Ah {
    /// `ibv_create_ah(3)`.
    pub(super) fn new(pd: &Rc<Pd>, mut attr: ibv_ah_attr) -> Verb<Rc<Ah>> {
        // SAFETY: a live domain.
        let raw = unsafe { (pd.device.library.ibv_create_ah)(pd.raw.as_ptr(), &mut attr) };
        Ok(Rc::new(Ah {
            pd: pd.clone(),
            raw: created("ibv_create_ah", raw)?,
        }))
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        // SAFETY: made by the library. Requests that name it keep it alive until the queue pair
        // that they were posted to is gone.
        unsafe { (self.pd.device.library.ibv_destroy_ah)(self.raw.as_ptr()) };
    }
}

/// A memory window.
pub(super) struct Mw {
    pd: Rc<Pd>,
    pub(super) raw: NonNull<ibv_mw>,
}

impl Mw {
    /// `ibv_alloc_mw(3)`; the type is 1 or 2.
    pub(super) fn new(pd: &Rc<Pd>, kind: c_uint) -> Verb<Rc<Mw>> {
        let Some(alloc) = pd.device.operations().alloc_mw else {
            return Err(unsupported("ibv_alloc_mw"));
        };
        // SAFETY: a live domain.
        let raw = unsafe { alloc(pd.raw.as_ptr(), kind) };
        Ok(Rc::new(Mw {
            pd: pd.clone(),
            raw: created("ibv_alloc_mw", raw)?,
        }))
    }

    /// Its R_Key as it is now.
    pub(super) fn rkey(&self) -> u32 {
        // SAFETY: made by the library, which keeps the field up to date.
        unsafe { (*self.raw.as_ptr()).rkey }
    }
}

impl Drop for Mw {
    fn drop(&mut self) {
        if let Some(dealloc) = self.pd.device.operations().dealloc_mw {
            // SAFETY: made by the library.
            unsafe { dealloc(self.raw.as_ptr()) };
        }
    }
}

/// What a queue pair is made of.
pub(super) struct QpParts {
    pub(super) service: c_uint,
    pub(super) send: Rc<Cq>,
    pub(super) recv: Rc<Cq>,
    pub(super) srq: Option<Rc<Srq>>,
    /// Of an XRC target.
    pub(super) xrcd: Option<Rc<Xrcd>>,
    pub(super) cap: ibv_qp_cap,
    /// Every send request raises a completion.
    pub(super) all_signaled: bool,
}

/// A queue pair.
pub(super) struct Qp {
    pub(super) pd: Rc<Pd>,
    pub(super) raw: NonNull<ibv_qp>,
    pub(super) parts: QpParts,
    /// Address handles that requests have named.
    handles: RefCell<Vec<Rc<Ah>>>,
}

impl Qp {
    /// `ibv_create_qp(3)`, of an XRC target `ibv_create_qp_ex(3)`. Capacities become what the
    /// device gives.
    pub(super) fn new(pd: &Rc<Pd>, mut parts: QpParts) -> Verb<Rc<Qp>> {
        let mut init = ibv_qp_init_attr {
            qp_context: ptr::null_mut(),
            send_cq: parts.send.raw.as_ptr(),
            recv_cq: parts.recv.raw.as_ptr(),
            srq: (parts.srq.as_ref()).map_or(ptr::null_mut(), |srq| srq.raw.as_ptr()),
            cap: parts.cap,
            qp_type: parts.service,
            sq_sig_all: c_int::from(parts.all_signaled),
        };

        let raw = match &parts.xrcd {
            Some(xrcd) => xrcd.target()?,
            None => {
                // SAFETY: a live domain and live queues, which this object keeps alive.
                let raw = unsafe { (pd.device.library.ibv_create_qp)(pd.raw.as_ptr(), &mut init) };
                created("ibv_create_qp", raw)?
            }
        };

        parts.cap = init.cap;
        Ok(Rc::new(Qp {
            pd: pd.clone(),
            raw,
            parts,
            handles: RefCell::default(),
        }))
    }

    /// Keeps an address handle for as long as requests that name it may be on the queue.
    pub(super) fn keep(&self, handle: &Rc<Ah>) {
        let mut handles = self.handles.borrow_mut();
        if !handles.iter().any(|kept| Rc::ptr_eq(kept, handle)) {
            handles.push(handle.clone());
        }
    }

    /// Its number, 24 bits.
    pub(super) fn number(&self) -> u32 {
        // SAFETY: made by the library; the number never changes.
        unsafe { (*self.raw.as_ptr()).qp_num }
    }

    /// `ibv_modify_qp(3)`.
    pub(super) fn modify(&self, mut attr: ibv_qp_attr, mask: c_int) -> Verb {
        let modify = self.pd.device.library.ibv_modify_qp;
        // SAFETY: a live queue pair.
        let returned = unsafe { modify(self.raw.as_ptr(), &mut attr, mask) };
        VerbsError::check("ibv_modify_qp", returned)
    }

    /// `ibv_query_qp(3)` for all attributes in `mask`.
    pub(super) fn query(&self, mask: c_int) -> Verb<ibv_qp_attr> {
        let mut attr = attributes();
        // SAFETY: integers, and pointers that may be null.
        let mut init: ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        let query = self.pd.device.library.ibv_query_qp;
        // SAFETY: a live queue pair, and room for the answers.
        let returned = unsafe { query(self.raw.as_ptr(), &mut attr, mask, &mut init) };
        VerbsError::check("ibv_query_qp", returned)?;
        Ok(attr)
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: made by the library, destroyed once.
        unsafe { (self.pd.device.library.ibv_destroy_qp)(self.raw.as_ptr()) };
    }
}

/// Attributes of a queue pair, all zeros.
pub(super) fn attributes() -> ibv_qp_attr {
    // SAFETY: integers and structures of them.
    unsafe { std::mem::zeroed() }
}
