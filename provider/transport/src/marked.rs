//! The notification point of RoCEv2's congestion management (annex A17): a packet that came with a
//! mark of congestion has its sender told, by a CNP.

use crate::{Gather, Host, Note, Qp, QpState, QpType, Sink, Time, TxPacket};
use ferroce_wire::{Bth, Ext, opcode};

impl Qp {
    /// A packet for this queue pair came with the mark of congestion (CE), and was good. The peer
    /// is told with the next [`transmit`](Self::transmit), once in 50 µs at most. A datagram has no
    /// queue pair at the other end that could send less.
    pub fn marked<H: Host>(&mut self, now: Time, host: &mut H) {
        host.note(Note::Marked);
        if self.config.qp_type != QpType::Ud && self.receiving() {
            self.notification.mark(now);
        }
    }

    /// Sends the CNP that is owed, if one is.
    #[inline]
    pub(crate) fn notify<H: Host, S: Sink>(&mut self, host: &mut H, sink: &mut S) {
        if self.notification.is_owed() {
            self.send_notification(host, sink);
        }
    }

    /// It bears BECN, and 16 bytes that are reserved. It leaves by itself: the network is not to
    /// mark it, as it may what follows.
    #[cold]
    fn send_notification<H: Host, S: Sink>(&mut self, host: &mut H, sink: &mut S) {
        self.notification.settle();
        if matches!(
            self.attr.qp_state,
            QpState::Reset | QpState::Init | QpState::Err
        ) {
            return;
        }
        let packet = TxPacket {
            bth: Bth {
                opcode: opcode::CNP,
                migreq: true,
                becn: true,
                pkey: 0xffff,
                dest_qp: self.attr.dest_qp_num,
                ..Bth::default()
            },
            ext: Ext::default(),
            payload: Gather::Bytes(&[0; 16]),
            filler: 0,
            packets: 1,
            again: false,
            ah: None,
            srq: 0,
        };
        // The bytes are at hand, so nothing can fail.
        let _ = sink.packet(&packet);
        sink.flush();
        host.note(Note::Notified);
    }
}
