//! The receiving half of unreliable datagrams (section 9.8.3): one packet is one message.
//!
//! The GRH (or what stands for one) goes into the first 40 bytes of the receive request, the
//! payload behind it. A datagram that cannot be taken is counted and dropped, whatever is wrong
//! with it; the receive request waits for the next.

use crate::recv_queue;
use crate::trace::received;
use crate::{Host, Note, Qp, QpType, Time, WcData, WcOpcode, WcStatus};
use ferroce_wire::{Operation, Packet, Service};

/// Bytes of a GRH.
const GRH: usize = 40;

impl Qp {
    /// Takes a datagram that was addressed to this queue pair (or to a multicast group that it is
    /// attached to) and passed the ICRC, with the GRH that goes before its payload. What the state
    /// or the protocol does not allow is dropped.
    pub fn receive_datagram<H: Host>(
        &mut self,
        _now: Time,
        packet: &Packet<'_>,
        grh: &[u8; GRH],
        host: &mut H,
    ) {
        if self.config.qp_type != QpType::Ud
            || packet.info.service != Service::Ud
            || packet.info.operation != Operation::Send
            || !self.receiving()
        {
            return;
        }

        received(self.config.qpn, packet);
        let Some(deth) = packet.ext.deth else { return };
        if deth.qkey != self.attr.qkey {
            return host.note(Note::QkeyViolation);
        }
        if packet.payload.len() > self.config.mtu as usize {
            return host.note(Note::Refused);
        }
        if self.take_receive(host).is_err() {
            return host.note(Note::NoReceive);
        }

        let len = GRH + packet.payload.len();

        // Adapters differ here: some complete the receive request with an error. A stranger should
        // not be able to use up receive requests, or end the queue pair, with datagrams that are
        // too long.
        if len as u64 > recv_queue::capacity(self.receive_sges()) {
            return host.note(Note::TooLong);
        }

        let sges = self.receive_sges();
        let placed = host
            .scatter_received(sges, 0, grh[..].into())
            .and_then(|()| {
                if packet.payload.is_empty() {
                    return Ok(());
                }
                host.scatter_received(sges, GRH as u32, packet.payload)
            });

        if placed.is_err() {
            let wr_id = match self.resp.srq_wqe.take() {
                Some(wqe) => Some(wqe.wr_id),
                None => self.rq.pop(),
            };
            if let Some(wr_id) = wr_id {
                let status = WcStatus::LocProtErr;
                self.complete_recv(wr_id, status, 0, WcData::None, true, host);
            }
            return self.enter_error(host);
        }

        self.finish_receive(WcOpcode::Recv, len as u32, packet, host);
    }
}
