//! Carrying requests out: SEND, RDMA WRITE, READ, ATOMIC, ATOMIC WRITE and FLUSH with the expected
//! PSN.
//!
//! Each checks everything that can be refused before it changes anything; a request without a
//! receive request for it leaves no trace and comes again.

use crate::recv_queue;
use crate::requester;
use crate::resources::{Answer, Resource};
use crate::responder::Refusal::{self, NotReady};
use crate::responder::{ACCESS, INVALID, Incoming, LOCAL_PROTECTION, TOO_LONG};
use crate::{
    Access, Completion, Flush, Host, MAX_MESSAGE, Qp, RecvWqe, Sge, WcData, WcOpcode, WcStatus,
};
use ferroce_wire::{Operation, Packet, Position};

impl Qp {
    /// Does the queue pair allow this kind of request at all? One that it does not is invalid,
    /// whatever the region's rights.
    pub(crate) fn may(&self, access: Access) -> bool {
        self.attr.qp_access_flags.contains(access)
    }

    /// Does the payload's length fit the packet's place in its message (C9-92, section 9.7.4.1)? Of
    /// a stretch all packets but the last are as long as the path MTU allows.
    #[inline]
    fn check_length(&self, packet: &Packet<'_>, packets: u32) -> Result<(), Refusal> {
        let (len, mtu) = (packet.payload.len(), self.attr.path_mtu as usize);
        let all = mtu * packets as usize;
        let fits = match packet.info.position {
            Position::First | Position::Middle => len == all,
            Position::Last => len > all - mtu && len <= all,
            Position::Only => (len > all - mtu || packets == 1) && len <= all,
        };
        if fits { Ok(()) } else { Err(INVALID) }
    }

    /// Is there a receive request? From a shared queue it is taken now.
    pub(crate) fn take_receive<H: Host>(&mut self, host: &mut H) -> Result<(), Refusal> {
        self.take_receive_by(host, H::take_srq)
    }

    fn take_receive_by<H: Host>(
        &mut self,
        host: &mut H,
        take: impl FnOnce(&mut H) -> Option<RecvWqe>,
    ) -> Result<(), Refusal> {
        if !self.config.srq {
            return if self.rq.len() > 0 {
                Ok(())
            } else {
                Err(NotReady)
            };
        }

        if self.resp.srq_wqe.is_none() {
            self.resp.srq_wqe = take(host);
        }

        if self.resp.srq_wqe.is_some() {
            Ok(())
        } else {
            Err(NotReady)
        }
    }

    /// The scatter list of the receive request at hand.
    pub(crate) fn receive_sges(&self) -> &[Sge] {
        match &self.resp.srq_wqe {
            Some(wqe) => &wqe.sges,
            None => self.rq.front_sges(),
        }
    }

    /// Bytes at the start of the message that are not placed.
    fn skipped(&self) -> u32 {
        self.resp.srq_wqe.as_ref().map_or(0, |wqe| wqe.skip)
    }

    /// Completes the receive request at hand with success.
    pub(crate) fn finish_receive<H: Host>(
        &mut self,
        opcode: WcOpcode,
        byte_len: u32,
        packet: &Packet<'_>,
        host: &mut H,
    ) {
        let wr_id = match self.resp.srq_wqe.take() {
            Some(wqe) => Some(wqe.wr_id),
            None => self.rq.pop(),
        };

        let data = match (packet.ext.imm, packet.ext.ieth) {
            (Some(imm), _) => WcData::Imm(imm),
            (None, Some(key)) => WcData::Invalidated(key),
            (None, None) => WcData::None,
        };

        if let Some(wr_id) = wr_id {
            host.complete_recv(Completion {
                wr_id,
                status: WcStatus::Success,
                opcode,
                byte_len,
                data,
                solicited: packet.bth.solicited,
                src_qp: packet
                    .ext
                    .deth
                    .map_or(self.attr.dest_qp_num, |deth| deth.src_qp),
                grh: packet.ext.deth.is_some(),
                srq: self.resp.srq,
                count: self.rq.base() as u32,
            });
        }
    }

    #[inline]
    pub(crate) fn on_send<H: Host>(
        &mut self,
        packet: &Packet<'_>,
        packets: u32,
        host: &mut H,
    ) -> Result<(), Refusal> {
        let (mut received, mut capacity) = match (packet.info.begins(), self.resp.incoming) {
            (true, Incoming::None) => (0, 0),
            (false, Incoming::Send { received, capacity }) => (received, capacity),
            _ => return Err(INVALID),
        };

        self.check_length(packet, packets)?;
        if packet.info.begins() {
            // As much as the first packet has of it.
            let only = packet.info.ends() && packets == 1;
            let len = packet.payload.len().min(self.attr.path_mtu as usize);
            let first = packet.payload.part(0..len);
            self.take_receive_by(host, |host| host.take_srq_for(first, only))?;
            capacity = recv_queue::capacity(self.receive_sges()) + u64::from(self.skipped());
            self.resp.incoming = Incoming::Send { received, capacity };
        }

        let len = packet.payload.len() as u64;
        if received + len > capacity || received + len > u64::from(MAX_MESSAGE) {
            return Err(TOO_LONG);
        }

        // What is placed of this packet, and where, if the host has taken out what the message
        // begins with.
        let hidden = u64::from(self.skipped()).saturating_sub(received).min(len);
        if len > hidden {
            let offset = received + hidden - u64::from(self.skipped());
            let (_, placed) = packet.payload.split_at(hidden as usize);
            host.scatter_received(self.receive_sges(), offset as u32, placed)
                .map_err(|_| LOCAL_PROTECTION)?;
        }

        received += len;
        if !packet.info.ends() {
            self.resp.incoming = Incoming::Send { received, capacity };
            self.accept(packets, packet, false);
            return Ok(());
        }

        if let Some(key) = packet.ext.ieth {
            host.invalidate_remote(key).map_err(|_| ACCESS)?;
        }

        self.resp.incoming = Incoming::None;
        self.accept(packets, packet, true);
        let placed = received.saturating_sub(u64::from(self.skipped()));
        self.finish_receive(WcOpcode::Recv, placed as u32, packet, host);
        Ok(())
    }

    #[inline]
    pub(crate) fn on_write<H: Host>(
        &mut self,
        packet: &Packet<'_>,
        packets: u32,
        host: &mut H,
    ) -> Result<(), Refusal> {
        let n = packet.payload.len() as u32;
        let (va, rkey, len, received) = match (packet.ext.reth, self.resp.incoming) {
            (Some(reth), Incoming::None) => (reth.va, reth.rkey, reth.len, 0),
            (
                None,
                Incoming::Write {
                    va,
                    rkey,
                    len,
                    received,
                },
            ) => (va, rkey, len, received),
            _ => return Err(INVALID),
        };

        self.check_length(packet, packets)?;
        let fits = if packet.info.ends() {
            n == len - received
        } else {
            n < len - received
        };

        // The greatest length: C9-94.
        if !fits || len > MAX_MESSAGE {
            return Err(INVALID);
        }

        if packet.info.begins() {
            if !self.may(Access::REMOTE_WRITE) {
                return Err(INVALID);
            }
            // The whole range once, with the first packet. Nothing is checked where nothing is
            // written (C9-88).
            if len > 0 {
                host.check_remote(rkey, va, u64::from(len), Access::REMOTE_WRITE)
                    .map_err(|_| ACCESS)?;
            }
        }

        // Without immediate data a WRITE takes no receive request (C10-87).
        if packet.info.has_imm() {
            self.take_receive(host)?;
        }
        if n > 0 {
            host.write_remote(rkey, va.wrapping_add(u64::from(received)), packet.payload)?;
        }

        if !packet.info.ends() {
            self.resp.incoming = Incoming::Write {
                va,
                rkey,
                len,
                received: received + n,
            };
            self.accept(packets, packet, false);
            return Ok(());
        }

        self.resp.incoming = Incoming::None;
        self.accept(packets, packet, true);
        if packet.info.has_imm() {
            self.finish_receive(WcOpcode::RecvRdmaWithImm, len, packet, host);
        }

        Ok(())
    }

    /// Room for one more READ or ATOMIC between messages.
    fn reserve_resource(&mut self) -> Result<(), Refusal> {
        if !matches!(self.resp.incoming, Incoming::None) {
            return Err(INVALID);
        }
        let limit = usize::from(self.attr.max_dest_rd_atomic);
        self.resp.resources.reserve(limit).map_err(|_| INVALID)
    }

    pub(crate) fn on_read<H: Host>(
        &mut self,
        packet: &Packet<'_>,
        host: &mut H,
    ) -> Result<(), Refusal> {
        let Some(reth) = packet.ext.reth else {
            return Err(INVALID);
        };

        // C9-94
        if reth.len > MAX_MESSAGE {
            return Err(INVALID);
        }
        if !self.may(Access::REMOTE_READ) {
            return Err(INVALID);
        }

        self.reserve_resource()?;

        // C9-88: a READ of no bytes is answered whatever its R_Key.
        if reth.len > 0 {
            host.check_remote(reth.rkey, reth.va, u64::from(reth.len), Access::REMOTE_READ)
                .map_err(|_| ACCESS)?;
        }

        let count = requester::packets(reth.len, self.attr.path_mtu);
        let answer = Answer::Read {
            va: reth.va,
            rkey: reth.rkey,
            len: reth.len,
            start: 0,
        };
        self.accept_and_answer(count, packet, answer);
        Ok(())
    }

    pub(crate) fn on_atomic<H: Host>(
        &mut self,
        packet: &Packet<'_>,
        host: &mut H,
    ) -> Result<(), Refusal> {
        let Some(eth) = packet.ext.atomic else {
            return Err(INVALID);
        };

        // Section 9.4.5: a word where words are.
        if eth.va % 8 != 0 {
            return Err(INVALID);
        }
        if !self.may(Access::REMOTE_ATOMIC) {
            return Err(INVALID);
        }

        self.reserve_resource()?;
        host.check_remote(eth.rkey, eth.va, 8, Access::REMOTE_ATOMIC)
            .map_err(|_| ACCESS)?;
        let before = match packet.info.operation {
            Operation::CompareSwap => {
                host.compare_swap(eth.rkey, eth.va, eth.compare, eth.swap_add)?
            }
            _ => host.fetch_add(eth.rkey, eth.va, eth.swap_add)?,
        };
        self.accept_and_answer(1, packet, Answer::Atomic(before));
        Ok(())
    }

    /// An ATOMIC WRITE, which is answered by the response to a READ of nothing.
    pub(crate) fn on_atomic_write<H: Host>(
        &mut self,
        packet: &Packet<'_>,
        host: &mut H,
    ) -> Result<(), Refusal> {
        let (Some(reth), Some(value)) = (packet.ext.reth, packet.payload.to_array()) else {
            return Err(INVALID);
        };
        if reth.len != 8 || reth.va % 8 != 0 || !self.may(Access::REMOTE_WRITE) {
            return Err(INVALID);
        }
        self.reserve_resource()?;
        host.check_remote(reth.rkey, reth.va, 8, Access::REMOTE_WRITE)
            .map_err(|_| ACCESS)?;
        host.write_word(reth.rkey, reth.va, value)?;
        self.accept_and_answer(1, packet, Answer::nothing(&reth));
        Ok(())
    }

    /// A FLUSH, which is answered likewise. What came before it on this connection has been placed,
    /// as requests are carried out one after the other; the host sees to the rest.
    pub(crate) fn on_flush<H: Host>(
        &mut self,
        packet: &Packet<'_>,
        host: &mut H,
    ) -> Result<(), Refusal> {
        let (Some(feth), Some(reth)) = (packet.ext.feth, packet.ext.reth) else {
            return Err(INVALID);
        };
        // Nothing that is not understood may be answered as done.
        let flush = Flush::parse(feth, reth).ok_or(INVALID)?;
        if !self.may(flush.placement.access()) {
            return Err(INVALID);
        }
        self.reserve_resource()?;
        // A region that may not be flushed is a remote access error (oA19-13).
        host.flush_remote(&flush)?;
        // It is answered when what came before it is placed, and not before (oA19-1).
        self.accept_and_answer(1, packet, Answer::nothing(&reth));
        Ok(())
    }

    /// Accepts a request that a response of `count` packets answers, and owes that.
    fn accept_and_answer(&mut self, count: u32, packet: &Packet<'_>, answer: Answer) {
        let first = self.resp.epsn;
        self.accept(count, packet, true);
        self.resp.resources.push(Resource {
            first,
            count,
            msn: self.resp.msn,
            answer,
            srq: self.resp.srq,
            next: 0,
            end: count,
            sent: 0,
        });
        // The response acknowledges, so no ACK is owed for it, nor for what came before.
        self.resp.ack_pending = false;
    }
}
