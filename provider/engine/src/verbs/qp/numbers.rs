//! A queue pair's numbers, as others are told of them: written under its lock, into memory that is
//! shared with the daemon. Nobody here reads them.

use ferroce_control::objects::{QpAttributes, QpProgress};
use ferroce_transport::{QpAttr, Time};

use super::{Inner, Qp};

impl Qp {
    /// Leaves word of how far it is. It has been moved, by a batch of packets or of requests.
    #[inline]
    pub(crate) fn publish(&self, inner: &Inner, window: u32) {
        // What a child of a fork does to its parent's is nothing that happened to it.
        if self.hca().is_inherited() {
            return;
        }
        let at = inner.transport.standing();
        self.row.publish(&QpProgress {
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
        });
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
