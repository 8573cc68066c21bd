//! Tag matching on a queue pair: completions of its messages, and the data that it reads from
//! senders.
//!
//! The send queue of such a queue pair is its shared receive queue's: for each announcement that
//! matched, a READ of the data and, when that is done, a message with the announcement's headers
//! that tells the sender so (`IBV_TMH_FIN`). The program posts nothing there.

use std::collections::VecDeque;
use std::sync::Arc;

use ferroce_transport::{
    Completion, PostError, QpCap, RecvWqe, SendData, SendFlags, SendOp, SendRequest, WcOpcode,
    WcStatus,
};
use ferroce_wire::Octets;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::verbs::completions::Completions;
use crate::verbs::limits;
use crate::verbs::shared_requests::SharedRequests;
use crate::verbs::tag_matching::{
    Arrival, HEADERS, Rendezvous, TMH_FIN, WC_TM_DATA_VALID, WC_TM_MATCH, WC_TM_NO_TAG, WC_TM_RECV,
};
use crate::verbs::wc::{TagInfo, Wc};

/// `IBV_WC_TM_RNDV_INCOMPLETE`: the buffer is too short and has got the headers instead.
const WC_TM_RNDV_INCOMPLETE: u32 = 23;
/// Requests in the send queue, two for each rendezvous.
const SEND_QUEUE: u32 = 64;

#[derive(Default)]
struct State {
    /// What the message at hand is.
    arrival: Option<Arrival>,
    /// Announced, and not in the send queue yet.
    waiting: VecDeque<Rendezvous>,
    /// Requests in the send queue.
    posted: u32,
}

/// What a queue pair keeps for tag matching.
pub(crate) struct TmQp {
    /// The shared receive queue's.
    completions: Arc<Completions>,
    state: Mutex<State>,
}

/// What a receive completion becomes.
pub(crate) struct TmCompletion {
    pub(crate) opcode: u32,
    pub(crate) status: u32,
    pub(crate) flags: u32,
    pub(crate) info: TagInfo,
    /// Headers to be placed in this buffer first, as far as it reaches.
    pub(crate) place: Option<(SmallVec<[ferroce_transport::Sge; 1]>, [u8; HEADERS])>,
}

impl TmQp {
    pub(crate) fn new(completions: &Arc<Completions>) -> TmQp {
        TmQp {
            completions: completions.clone(),
            state: Mutex::default(),
        }
    }

    /// Where everything completes.
    pub(crate) fn completions(&self) -> &Arc<Completions> {
        &self.completions
    }

    /// The capacities of the queue pair underneath.
    pub(super) fn capacities(asked: QpCap) -> QpCap {
        QpCap {
            max_send_wr: SEND_QUEUE,
            max_send_sge: limits::MAX_SGE,
            max_inline_data: HEADERS as u32,
            ..asked
        }
    }

    /// A message begins; returns where it goes, and `false` if the completion queue overran.
    pub(crate) fn receive(
        &self,
        srq: &SharedRequests,
        payload: Octets<'_>,
        only: bool,
        qp_num: u32,
    ) -> Option<(RecvWqe, bool)> {
        let tags = srq.tags()?;
        let (wqe, arrival, room) = tags.receive(payload, only, qp_num, || srq.take())?;
        self.state.lock().arrival = Some(arrival);
        Some((wqe, room))
    }

    /// The connection starts afresh.
    pub(super) fn reset(&self) {
        *self.state.lock() = State::default();
    }

    /// A message is complete, or failed. `None`: it was none that is matched (a WRITE with
    /// immediate data).
    pub(crate) fn received(&self, status: WcStatus) -> Option<TmCompletion> {
        let mut state = self.state.lock();
        let mut tagged = TmCompletion {
            opcode: WC_TM_RECV,
            status: status as u32,
            flags: 0,
            info: TagInfo::default(),
            place: None,
        };

        let arrival = state.arrival.take()?;
        if status != WcStatus::Success {
            return Some(tagged);
        }

        match arrival {
            Arrival::Untagged => tagged.opcode = WC_TM_NO_TAG,
            Arrival::Unexpected { flags } => tagged.flags = flags,
            Arrival::Eager {
                completed: true, ..
            } => tagged.flags = WC_TM_DATA_VALID,
            Arrival::Eager {
                info,
                completed: false,
            } => {
                tagged.flags = WC_TM_MATCH | WC_TM_DATA_VALID;
                tagged.info = info;
            }
            Arrival::Rendezvous(rendezvous) => {
                tagged.flags = WC_TM_MATCH;
                tagged.info = rendezvous.info;
                if rendezvous.fits {
                    state.waiting.push_back(rendezvous);
                } else {
                    tagged.status = WC_TM_RNDV_INCOMPLETE;
                    tagged.place = Some((rendezvous.sges, rendezvous.headers));
                }
            }
        }

        Some(tagged)
    }

    /// Puts what waits into the send queue, as far as that has room.
    pub(crate) fn start(&self, transport: &mut ferroce_transport::Qp, qp_num: u32) {
        let mut state = self.state.lock();
        while state.posted + 2 <= SEND_QUEUE
            && let Some(next) = state.waiting.front()
        {
            match post(transport, next) {
                Ok(()) => state.posted += 2,
                // Not in RTS yet.
                Err(PostError::BadState(_)) => return,
                Err(_) => {
                    self.completions.push(
                        failed(next.recv_wr_id, WcStatus::LocQpOpErr as u32, qp_num),
                        false,
                    );
                }
            }
            state.waiting.pop_front();
        }
    }

    /// A request of the send queue is done; what the program is told of it.
    pub(crate) fn sent(&self, completion: &Completion, qp_num: u32) -> Option<Wc> {
        let mut state = self.state.lock();
        state.posted = state.posted.saturating_sub(1);
        if completion.opcode != WcOpcode::RdmaRead {
            return None;
        }
        if completion.status != WcStatus::Success {
            return Some(failed(completion.wr_id, completion.status as u32, qp_num));
        }

        Some(Wc {
            wr_id: completion.wr_id,
            opcode: WC_TM_RECV,
            wc_flags: WC_TM_DATA_VALID,
            byte_len: completion.byte_len,
            qp_num,
            ..Wc::default()
        })
    }
}

fn failed(wr_id: u64, status: u32, qp_num: u32) -> Wc {
    Wc {
        wr_id,
        status,
        opcode: WC_TM_RECV,
        qp_num,
        ..Wc::default()
    }
}

/// The READ, and behind it the message that ends the rendezvous.
fn post(transport: &mut ferroce_transport::Qp, next: &Rendezvous) -> Result<(), PostError> {
    let read = SendRequest {
        wr_id: next.recv_wr_id,
        op: SendOp::Read {
            va: next.va,
            rkey: next.rkey,
        },
        flags: SendFlags::SIGNALED,
        data: SendData::Sges(&next.sges),
        dest: Default::default(),
    };

    transport.post_send(&read)?;
    let mut headers = next.headers;
    headers[0] = TMH_FIN;
    transport.post_send(&SendRequest {
        wr_id: next.recv_wr_id,
        op: SendOp::Send,
        // Not before the data is here.
        flags: SendFlags::SIGNALED | SendFlags::FENCE,
        data: SendData::Inline(&headers),
        dest: Default::default(),
    })
}
