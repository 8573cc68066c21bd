//! Tag matching on a shared receive queue (`IBV_SRQT_TM`): the list of tagged buffers, and which of
//! them a message takes.
//!
//! Messages begin with a header (`struct ibv_tmh`) that says how to match them. What matches no
//! buffer, or is sent without a tag, goes whole to the queue's ordinary requests and is the
//! program's to handle; so the program and this list must agree on how many messages were not
//! expected before a buffer that is added may match (`IBV_OPS_TM_SYNC`): else an older message,
//! still on its way through the program, would lose its buffer to a newer one.
//!
//! The list is searched in order, as MPI asks, which takes time in proportion to its length. What
//! happens on the queue pair, rendezvous above all, is in `rendezvous`.

use std::collections::VecDeque;
use std::sync::Arc;

use ferroce_transport::{RecvWqe, Sge};
use ferroce_wire::Octets;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::verbs::completions::Completions;
use crate::verbs::limits;
use crate::verbs::wc::{TagInfo, Wc};

/// `enum ibv_wc_opcode`
pub(super) const WC_TM_ADD: u32 = 130;
const WC_TM_DEL: u32 = 131;
const WC_TM_SYNC: u32 = 132;
pub(super) const WC_TM_RECV: u32 = 133;
pub(super) const WC_TM_NO_TAG: u32 = 134;
/// `enum ibv_wc_status`
const WC_TM_ERR: u32 = 22;
/// `enum ibv_wc_flags`
pub(super) const WC_TM_SYNC_REQ: u32 = 1 << 4;
pub(super) const WC_TM_MATCH: u32 = 1 << 5;
pub(super) const WC_TM_DATA_VALID: u32 = 1 << 6;
/// `enum ibv_tmh_op`
const TMH_RNDV: u8 = 1;
pub(super) const TMH_FIN: u8 = 2;
const TMH_EAGER: u8 = 3;
/// Bytes of `struct ibv_tmh`.
pub(super) const TMH: usize = 16;
/// Bytes of both headers of a rendezvous request, `struct ibv_tmh` and `struct ibv_rvh`.
pub(super) const HEADERS: usize = 32;
/// Unexpected messages that the program has not told of yet, from which on it is asked to.
const FAR_BEHIND: u16 = 1 << 14;

/// An operation on the list of tagged buffers (`ibv_post_srq_ops(3)`).
#[derive(Clone, Copy, Debug)]
pub struct TagOp<'a> {
    /// Names its completion.
    pub wr_id: u64,
    /// Raises a completion.
    pub signaled: bool,
    /// How many unexpected messages the program has handled.
    pub handled: Option<u32>,
    /// What is done.
    pub what: TagWork<'a>,
}

/// What an operation on the list does.
#[derive(Clone, Copy, Debug)]
pub enum TagWork<'a> {
    /// Adds a buffer for messages whose tag, under the mask, is this.
    Add {
        /// Names the message's completion.
        recv_wr_id: u64,
        /// The buffer.
        sges: &'a [Sge],
        /// The tag.
        tag: u64,
        /// Bits of a message's tag that count.
        mask: u64,
    },
    /// Takes a buffer out, unless a message has.
    Remove(u32),
    /// Nothing but what `handled` says.
    Sync,
}

/// A buffer in the list.
struct Tagged {
    handle: u32,
    recv_wr_id: u64,
    tag: u64,
    mask: u64,
    sges: SmallVec<[Sge; 1]>,
    /// Added in agreement on the unexpected messages, or since agreed on.
    matches: bool,
}

#[derive(Default)]
struct List {
    buffers: VecDeque<Tagged>,
    last_handle: u32,
    /// Unexpected messages, those that came and those that the program has told of. Programs count
    /// with 16 bits.
    arrived: u16,
    handled: u16,
}

impl List {
    fn agrees(&self) -> bool {
        self.arrived == self.handled
    }

    /// Takes out the first buffer that matches.
    fn take(&mut self, tag: u64) -> Option<Tagged> {
        let fits = |b: &Tagged| b.matches && tag & b.mask == b.tag;
        let at = self.buffers.iter().position(fits)?;
        self.buffers.remove(at)
    }

    /// A message came that no buffer was for; returns what its completion says besides.
    fn unexpected(&mut self) -> u32 {
        self.arrived = self.arrived.wrapping_add(1);
        let behind = self.arrived.wrapping_sub(self.handled) > FAR_BEHIND;
        if behind { WC_TM_SYNC_REQ } else { 0 }
    }

    /// Finds where a message with this header goes; see [`TagMatching::receive`].
    fn receive(
        &mut self,
        header: Header,
        only: bool,
        ordinary: impl FnOnce() -> Option<RecvWqe>,
    ) -> Option<(RecvWqe, Arrival)> {
        let Some(buffer) = self.take(header.info.tag) else {
            let wqe = ordinary()?;
            let flags = self.unexpected();
            return Some((wqe, Arrival::Unexpected { flags }));
        };
        let (wr_id, info) = (buffer.recv_wr_id, header.info);
        let Some(rendezvous) = header.rendezvous else {
            let wqe = RecvWqe {
                wr_id,
                sges: buffer.sges,
                skip: TMH as u32,
            };
            return Some((
                wqe,
                Arrival::Eager {
                    info,
                    completed: !only,
                },
            ));
        };

        let mut sges = buffer.sges;
        let fits = cut(&mut sges, rendezvous.len);
        let wqe = RecvWqe {
            wr_id,
            sges: SmallVec::new(),
            // The announcement is for nobody but us.
            skip: u32::MAX,
        };

        let arrival = Arrival::Rendezvous(Rendezvous {
            recv_wr_id: wr_id,
            info,
            sges,
            fits,
            headers: rendezvous.headers,
            va: rendezvous.va,
            rkey: rendezvous.rkey,
        });

        Some((wqe, arrival))
    }

    /// Carries an operation out; returns the handle of a buffer that was added, and the completion.
    fn operate(&mut self, op: &TagOp<'_>, max: u32) -> Result<(u32, Wc)> {
        if let TagWork::Add { sges, .. } = op.what {
            if sges.len() > limits::MAX_SGE as usize {
                return Err(Error::Invalid(
                    "more elements than a tagged buffer may have",
                ));
            }
            if self.buffers.len() >= max as usize {
                return Err(Error::Full("tagged buffers"));
            }
        }

        if let Some(handled) = op.handled {
            self.handled = handled as u16;
            if self.agrees() {
                self.buffers.iter_mut().for_each(|b| b.matches = true);
            }
        }

        let mut handle = 0;
        let (opcode, done) = match op.what {
            TagWork::Add {
                recv_wr_id,
                sges,
                tag,
                mask,
            } => {
                self.last_handle = self.last_handle.wrapping_add(1);
                handle = self.last_handle;
                self.buffers.push_back(Tagged {
                    handle,
                    recv_wr_id,
                    tag,
                    mask,
                    sges: SmallVec::from_slice(sges),
                    matches: self.agrees(),
                });
                (WC_TM_ADD, true)
            }
            TagWork::Remove(gone) => {
                let before = self.buffers.len();
                self.buffers.retain(|b| b.handle != gone);
                (WC_TM_DEL, self.buffers.len() < before)
            }
            TagWork::Sync => (WC_TM_SYNC, true),
        };

        let wc = Wc {
            wr_id: op.wr_id,
            status: if done { 0 } else { WC_TM_ERR },
            opcode,
            wc_flags: if self.agrees() { 0 } else { WC_TM_SYNC_REQ },
            ..Wc::default()
        };
        Ok((handle, wc))
    }
}

/// What a message turned out to be, when its first packet came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Without a tag, for the program.
    Untagged,
    /// With a tag that no buffer has, for the program; with what the completion says besides.
    Unexpected { flags: u32 },
    /// Into a buffer. `completed`: that it matched was completed already, as more packets follow.
    Eager { info: TagInfo, completed: bool },
    /// The announcement of data to be read into a buffer.
    Rendezvous(Rendezvous),
}

/// Data to be read from the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rendezvous {
    pub(crate) recv_wr_id: u64,
    pub(crate) info: TagInfo,
    /// The buffer, cut to the data's length; if that is too long, the whole of it.
    pub(crate) sges: SmallVec<[Sge; 1]>,
    pub(crate) fits: bool,
    /// Both headers as they came.
    pub(crate) headers: [u8; HEADERS],
    pub(crate) va: u64,
    pub(crate) rkey: u32,
}

/// The list of a shared receive queue.
pub(crate) struct TagMatching {
    /// Takes the completions of the queue's messages and of operations.
    completions: Arc<Completions>,
    max: u32,
    list: Mutex<List>,
}

impl TagMatching {
    /// A list of up to `max` buffers.
    pub(crate) fn new(completions: &Arc<Completions>, max: u32) -> Result<TagMatching> {
        if max == 0 || max > limits::MAX_TAGS {
            return Err(Error::Invalid(
                "max_num_tags must be between 1 and the device's max_num_tags",
            ));
        }
        Ok(TagMatching {
            completions: completions.clone(),
            max,
            list: Mutex::default(),
        })
    }

    pub(crate) fn completions(&self) -> &Arc<Completions> {
        &self.completions
    }

    /// Carries an operation out; returns the handle of a buffer that was added.
    pub(super) fn operate(&self, op: &TagOp<'_>) -> Result<u32> {
        let mut list = self.list.lock();
        let (handle, wc) = list.operate(op, self.max)?;
        if op.signaled {
            // Under the lock: completions are in the order of what they tell. A queue that overruns
            // says so itself.
            self.completions.push(wc, false);
        }
        Ok(handle)
    }

    /// Finds where a message goes whose first packet has this payload and, if `only`, is all of it.
    /// `ordinary` takes a request of the queue's own; without one, where one is needed, nothing has
    /// happened. `false`: the completion queue overran.
    pub(crate) fn receive(
        &self,
        payload: Octets<'_>,
        only: bool,
        qp_num: u32,
        ordinary: impl FnOnce() -> Option<RecvWqe>,
    ) -> Option<(RecvWqe, Arrival, bool)> {
        let Some(header) = Header::parse(payload, only) else {
            return Some((ordinary()?, Arrival::Untagged, true));
        };
        let mut list = self.list.lock();
        let (wqe, arrival) = list.receive(header, only, ordinary)?;
        let room = match &arrival {
            // The match is told at once, before what another message matches, also where the data
            // is not all here.
            Arrival::Eager {
                info,
                completed: true,
            } => {
                let wc = Wc {
                    wr_id: wqe.wr_id,
                    opcode: WC_TM_RECV,
                    wc_flags: WC_TM_MATCH,
                    qp_num,
                    ..Wc::default()
                };
                self.completions.push_tagged(wc, false, *info)
            }
            _ => true,
        };
        Some((wqe, arrival, room))
    }
}

/// Cuts a list to `len` bytes; `false`, and the list as it was, if it has fewer.
fn cut(sges: &mut SmallVec<[Sge; 1]>, len: u32) -> bool {
    let has: u64 = sges.iter().map(|s| u64::from(s.length)).sum();
    if has < u64::from(len) {
        return false;
    }
    let mut left = len;
    for sge in sges.iter_mut() {
        sge.length = sge.length.min(left);
        left -= sge.length;
    }
    sges.retain(|sge| sge.length > 0);
    true
}

/// A message's headers, where it has a tag.
struct Header {
    info: TagInfo,
    rendezvous: Option<Announcement>,
}

struct Announcement {
    headers: [u8; HEADERS],
    va: u64,
    rkey: u32,
    len: u32,
}

impl Header {
    /// `None` for what is not matched: no tag, an unknown or incomplete header, the end of a
    /// rendezvous.
    fn parse(payload: Octets<'_>, only: bool) -> Option<Header> {
        // Looked at in a copy: the sender's process may still write to it.
        let mut copy = [0; HEADERS];
        let copied = payload.copy_to(&mut copy);
        let bytes = &copy[..copied];
        let head: &[u8; TMH] = bytes.first_chunk()?;
        let info = TagInfo {
            app_ctx: u32::from_be_bytes(*head[4..].first_chunk()?),
            tag: u64::from_be_bytes(*head[8..].first_chunk()?),
        };
        let rendezvous = match head[0] {
            TMH_EAGER => None,
            TMH_RNDV if only && payload.len() <= limits::MAX_RNDV_HEADER as usize => {
                let headers: &[u8; HEADERS] = bytes.first_chunk()?;
                Some(Announcement {
                    headers: *headers,
                    va: u64::from_be_bytes(*headers[16..].first_chunk()?),
                    rkey: u32::from_be_bytes(*headers[24..].first_chunk()?),
                    len: u32::from_be_bytes(*headers[28..].first_chunk()?),
                })
            }
            _ => return None,
        };
        Some(Header { info, rendezvous })
    }
}

#[cfg(feature = "fuzzing")]
#[path = "tag_matching_fuzzing.rs"]
pub(crate) mod fuzzing;

#[cfg(test)]
#[path = "tag_matching_tests.rs"]
mod tests;
