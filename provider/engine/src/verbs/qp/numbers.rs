//! A queue pair's numbers, as others are told of them: written under its lock, into memory that is
//! shared with the daemon. Who reads them here is the program itself, if it asks for them.

use ferroce_control::objects::{QpAttributes, QpNumbers, QpProgress};
use ferroce_transport::{QpAttr, QpState, Time};

use super::{Inner, Qp};
use crate::error::{Error, Result};
use crate::port::Outgoing;

/// A queue pair from inside, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Insight {
    /// Its state.
    pub state: QpState,
    /// Which of the program's it is, from 1, in the order in which they were made.
    pub ordinal: u32,
    /// Its numbers.
    pub numbers: QpNumbers,
    /// The most that its window can be; 0 where nothing is acknowledged, and without a peer.
    pub max_window: u32,
}

impl Qp {
    /// How it is from inside, now. `EIO` in a forked child, whose parent has it.
    pub fn insight(&self) -> Result<Insight> {
        let hca = self.hca();
        if hca.is_inherited() {
            return Err(Error::Dead);
        }

        let inner = self.inner.lock();
        let path = inner.path.as_ref().filter(|_| !self.is_unreliable());
        let window = path.map_or(0, |path| path.congestion.share());
        let mut numbers = self.context.hca().objects.numbers(self.row.place());
        numbers.progress = progress(&inner, window);
        Ok(Insight {
            state: inner.transport.state(),
            ordinal: self.ordinal,
            numbers,
            max_window: path.map_or(0, |path| path.exit.window()),
        })
    }

    /// Leaves word of how far it is. It has been moved, by a batch of packets or of requests.
    #[inline]
    pub(crate) fn publish(&self, inner: &Inner, window: u32) {
        // What a child of a fork does to its parent's is nothing that happened to it.
        if self.hca().is_inherited() {
            return;
        }
        self.row.publish(&progress(inner, window));
        if let Some(path) = inner.path.as_ref().filter(|p| p.congestion.has_rates()) {
            self.row.paced(path.congestion.pace());
        }
    }

    /// Leaves word of how much is queued: requests were posted, and nothing else has moved.
    #[inline]
    pub(crate) fn publish_queues(&self, inner: &Inner) {
        if !self.hca().is_inherited() {
            let at = inner.transport.standing();
            self.row.outstanding(at.sends, at.receives);
        }
    }

    /// Packets of one run have come.
    #[inline]
    pub(crate) fn received(&self, inner: &Inner, packets: u64, bytes: u64, now: Time) {
        self.row.received(packets, bytes, now.as_nanos());
        // Others are moved when they answer.
        if self.is_datagram() {
            self.publish_queues(inner);
        }
    }

    /// Leaves word of the attributes that only a verb changes.
    pub(super) fn publish_attributes(&self, attr: &QpAttr) {
        let av = &attr.av;
        self.row.describe(&QpAttributes {
            dgid: av.dgid,
            path_mtu: attr.path_mtu as u16,
            timeout: attr.timeout,
            retry_cnt: attr.retry_cnt,
            rnr_retry: attr.rnr_retry,
            min_rnr_timer: attr.min_rnr_timer,
            max_rd_atomic: attr.max_rd_atomic,
            max_dest_rd_atomic: attr.max_dest_rd_atomic,
            access: attr.qp_access_flags.bits(),
            pkey_index: attr.pkey_index,
            sgid_index: av.sgid_index,
            hop_limit: av.hop_limit,
            max_send_wr: self.cap.max_send_wr,
            max_recv_wr: self.cap.max_recv_wr,
            max_send_sge: self.cap.max_send_sge as u16,
            max_recv_sge: self.cap.max_recv_sge as u16,
            max_inline_data: self.cap.max_inline_data,
            qkey: attr.qkey,
            flow_label: av.flow_label,
            dlid: av.dlid,
            sl: av.sl,
            traffic_class: av.traffic_class,
            is_global: av.is_global,
            sq_sig_all: self.sq_sig_all,
            sq_draining: attr.sq_draining,
        });
    }
}

#[inline]
fn progress(inner: &Inner, window: u32) -> QpProgress {
    let at = inner.transport.standing();
    QpProgress {
        sends_completed: at.sends_completed,
        sends: at.sends,
        receives: at.receives,
        next_psn: at.next_psn,
        unacknowledged_psn: at.unacknowledged_psn,
        highest_psn: at.highest_psn,
        expected_psn: at.expected_psn,
        retries: at.retries,
        rnr_retries: at.rnr_retries,
        waits_for_receiver: at.waits_for_receiver,
        in_flight: at.in_flight,
        window,
    }
}
