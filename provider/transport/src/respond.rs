//! The responder's sending half: READ and ATOMIC responses in request order, then the NAK or one
//! coalesced ACK.

use crate::budget::Budget;
use crate::make::stretched;
use crate::resources::Answer;
use crate::{Gather, Host, MemoryError, Qp, QpEvent, QpState, Sink, TxPacket};
use ferroce_wire::selective::Came;
use ferroce_wire::{Aeth, Bth, CreditCode, Ext, NakCode, Psn, Syndrome, opcode};

impl Qp {
    /// Sends owed responses, all of an earlier request before the first of a later one (C9-27,
    /// section 9.5); a plain ACK stays where `hold` says so. Returns whether the budget ran out.
    pub(crate) fn send_responses<H: Host, S: Sink>(
        &mut self,
        budget: &mut Budget,
        hold: bool,
        host: &mut H,
        sink: &mut S,
    ) -> bool {
        while self.resp.resources.owed() {
            if budget.is_spent() {
                return true;
            }
            self.send_answer(budget, host, sink);
        }
        if let Some((syndrome, psn)) = self.resp.nak.take() {
            self.resp.ack_pending = false;
            self.send_aeth(syndrome, psn, sink);
        } else if !hold {
            self.send_ack(sink);
        }
        false
    }

    /// Sends the plain ACK, if one is owed and nothing goes before it (section 9.7.5.1.2).
    pub(crate) fn send_ack<S: Sink>(&mut self, sink: &mut S) {
        if self.resp.ack_owed() {
            self.resp.ack_pending = false;
            let psn = self.resp.epsn.prev();
            let syndrome = Syndrome::Ack(self.credits());
            match &mut self.resp.early {
                None => self.send_aeth(syndrome, psn, sink),
                Some(early) => {
                    early.told();
                    let came = early.came(self.resp.epsn);
                    self.send_came(syndrome, psn, &came, sink);
                }
            }
        }
    }

    /// Receive requests that the peer may still count on (section 9.7.7.2; none are counted with a
    /// shared receive queue).
    fn credits(&self) -> CreditCode {
        if self.config.srq {
            CreditCode::UNLIMITED
        } else {
            CreditCode::for_count(self.rq.len() as u32)
        }
    }

    fn response_bth(&self, opcode: u8, psn: Psn, len: u32) -> Bth {
        Bth {
            opcode: opcode | self.opcode_base,
            migreq: true,
            pad: Bth::pad_for(len as usize),
            pkey: 0xffff,
            dest_qp: self.attr.dest_qp_num,
            selective: self.resp.selective,
            filled: self.filling.of_responses().shown,
            psn: psn.value(),
            ..Bth::default()
        }
    }

    fn send_aeth<S: Sink>(&self, syndrome: Syndrome, psn: Psn, sink: &mut S) {
        let packet = TxPacket {
            bth: self.response_bth(opcode::RC_ACKNOWLEDGE, psn, 0),
            ext: Ext {
                aeth: Some(Aeth::new(syndrome, self.resp.msn)),
                ..Ext::default()
            },
            payload: Gather::None,
            filler: 0,
            packets: 1,
            again: false,
            ah: None,
            srq: 0,
        };
        // Nothing is gathered, so nothing can fail.
        let _ = sink.packet(&packet);
    }

    /// Sends an acknowledgement that says what has come beyond a gap, too.
    fn send_came<S: Sink>(&self, syndrome: Syndrome, psn: Psn, came: &Came, sink: &mut S) {
        let bitmap = came.as_bytes();
        if bitmap.is_empty() {
            return self.send_aeth(syndrome, psn, sink);
        }

        let packet = TxPacket {
            bth: self.response_bth(opcode::RC_SELECTIVE_ACKNOWLEDGE, psn, bitmap.len() as u32),
            ext: Ext {
                aeth: Some(Aeth::new(syndrome, self.resp.msn)),
                ..Ext::default()
            },
            payload: Gather::Bytes(bitmap),
            filler: 0,
            packets: 1,
            again: false,
            ah: None,
            srq: 0,
        };
        // The bytes are at hand, so nothing can fail.
        let _ = sink.packet(&packet);
    }

    /// Sends packets of the oldest owed answer (section 9.7.5.1). Those of a READ are filled up to
    /// the path MTU but for the last (C5-8), and what has an AETH says the message's number
    /// (C9-148).
    pub(crate) fn send_answer<H: Host, S: Sink>(
        &mut self,
        budget: &mut Budget,
        host: &mut H,
        sink: &mut S,
    ) {
        let credits = self.credits();
        let mtu = self.attr.path_mtu;
        let base = self.response_bth(0, Psn::new(0), 0); // its opcode is the service's first
        let fill = self.filling.of_responses();
        let follows = self.resp.resources.more_are_owed();
        let Some(r) = self.resp.resources.first_owed() else {
            return;
        };

        let level = fill.levels(r.count.into(), follows);
        let aeth = Some(Aeth::new(Syndrome::Ack(credits), r.msn));
        while r.is_owed() && !budget.is_spent() {
            let psn = r.first.add(r.next);
            let again = r.next < r.sent;
            let mut packets = 1;
            let (opcode, ext, payload, len) = match r.answer {
                Answer::Atomic(value) => (
                    opcode::RC_ATOMIC_ACKNOWLEDGE,
                    Ext {
                        aeth,
                        atomic_ack: Some(value),
                        ..Ext::default()
                    },
                    Gather::None,
                    0,
                ),
                Answer::Read {
                    va,
                    rkey,
                    len,
                    start,
                } => {
                    let offset = u64::from(r.next - start) * u64::from(mtu);
                    let left = u64::from(len).saturating_sub(offset);
                    if !again {
                        packets = budget.stretch((r.end - r.next).into(), u64::MAX, mtu);
                    }
                    let n = left.min(u64::from(packets * mtu)) as u32;
                    let (first, last) = (r.next == start, r.next + packets == r.end);
                    let (opcode, aeth) = match (first, last) {
                        (true, true) => (opcode::RC_READ_RESPONSE_ONLY, aeth),
                        (true, false) => (opcode::RC_READ_RESPONSE_FIRST, aeth),
                        (false, true) => (opcode::RC_READ_RESPONSE_LAST, aeth),
                        (false, false) => (opcode::RC_READ_RESPONSE_MIDDLE, None),
                    };

                    let payload = match n {
                        0 => Gather::None,
                        len => Gather::Remote {
                            rkey,
                            va: va.wrapping_add(offset),
                            len,
                        },
                    };

                    (
                        opcode,
                        Ext {
                            aeth,
                            ..Ext::default()
                        },
                        payload,
                        n,
                    )
                }
            };

            let mut bth = Bth {
                opcode: opcode | base.opcode,
                psn: psn.value(),
                ..base
            };
            let filler = match packets {
                1 => fill.apply(&mut bth, len, mtu, level),
                _ => stretched(&mut bth, len),
            };

            if let Err(error) = sink.packet(&TxPacket {
                bth,
                ext,
                payload,
                filler,
                packets,
                again,
                ah: None,
                srq: r.srq,
            }) {
                r.next = r.end;
                return self.cannot_answer(psn, again, error, host);
            }

            budget.spend(len);
            r.next += packets;
            r.sent = r.sent.max(r.next);
        }

        if !r.is_owed() {
            self.resp.resources.settled();
        }
    }

    /// The region of the oldest owed answer went away while it was being read.
    #[cold]
    fn cannot_answer<H: Host>(&mut self, psn: Psn, again: bool, error: MemoryError, host: &mut H) {
        self.resp.resources.settled();
        if again || self.attr.qp_state == QpState::Err {
            // Nobody may be waiting for a replay; a peer that is will find out by its timer.
            return;
        }

        self.resp.resources.clear();
        self.refuse(Syndrome::Nak(NakCode::RemoteAccessError), psn);
        host.event(match error {
            MemoryError::Fault => QpEvent::Fatal,
            _ => QpEvent::AccessErr,
        });
        self.enter_error(host);
    }
}
