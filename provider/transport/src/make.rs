//! Request packets (section 9.7.3) as they are, whenever they are sent: headers, and where the
//! payload is. Nothing is sent from here.

use crate::filler::Fill;
use crate::send_queue::{SendQueue, SendWqe};
use crate::{Dest, Gather, QpAttr, SendFlags, SendOp, TxPacket};
use ferroce_wire::{AtomicEth, Bth, Ext, Reth, opcode};

/// What goes into every request packet of a queue pair.
#[derive(Clone, Copy)]
pub(crate) struct Maker<'a> {
    pub sq: &'a SendQueue,
    pub attr: &'a QpAttr,
    /// What is added to an RC opcode to get the service's own.
    pub base: u8,
    /// See [`Bth::selective`].
    pub selective: bool,
    /// See [`Bth::filled`].
    pub fill: Fill,
}

impl<'a> Maker<'a> {
    #[inline(always)]
    fn bth(&self, opcode: u8, psn: u64, ack_req: bool) -> Bth {
        Bth {
            opcode,
            ack_req,
            selective: self.selective,
            filled: self.fill.shown,
            ..request_bth(self.attr, psn)
        }
    }

    /// A packet of a SEND or RDMA WRITE, all but the last as long as the path MTU allows (C5-8), or
    /// a stretch of so many, and how long its payload is. Where new packets are sent it must cost
    /// no call, and no copy of the packet.
    #[inline(always)]
    pub(crate) fn message(
        &self,
        wqe: &SendWqe,
        psn: u64,
        packets: u32,
        ack_req: bool,
        again: bool,
    ) -> (TxPacket<'a>, u32) {
        let mtu = self.attr.path_mtu;
        let offset = ((psn - wqe.first) * u64::from(mtu)) as u32;
        let len = (packets * mtu).min(wqe.len - offset);
        let (first, last) = (psn == wqe.first, psn + u64::from(packets) == wqe.end);
        let (opcode, ext) = message_headers(wqe, first, last, self.base);
        let mut bth = Bth {
            solicited: last && wqe.flags.contains(SendFlags::SOLICITED),
            ..self.bth(opcode, psn, ack_req)
        };
        let filler = match packets {
            1 => self.fill.apply(&mut bth, len, mtu, wqe.level),
            _ => stretched(&mut bth, len),
        };
        let packet = TxPacket {
            bth,
            ext,
            payload: self.sq.gather(wqe, offset, len),
            filler,
            packets,
            again,
            ah: None,
            srq: 0,
        };
        (packet, len)
    }

    /// The READ request for the responses with these PSNs, the last of which may be the whole
    /// READ's; `None` for another operation.
    #[inline(always)]
    pub(crate) fn read(
        &self,
        wqe: &SendWqe,
        psn: u64,
        end: u64,
        again: bool,
    ) -> Option<TxPacket<'a>> {
        let SendOp::Read { va, rkey } = wqe.op else {
            return None;
        };

        let mtu = u64::from(self.attr.path_mtu);
        let offset = ((psn - wqe.first) * mtu) as u32;
        let until = ((end - wqe.first) * mtu).min(u64::from(wqe.len)) as u32;
        Some(TxPacket {
            bth: self.bth(opcode::RC_READ_REQUEST | self.base, psn, true),
            ext: Ext {
                reth: Some(Reth {
                    va: va.wrapping_add(u64::from(offset)),
                    rkey,
                    len: until - offset,
                }),
                xrceth: srq(wqe),
                ..Ext::default()
            },
            payload: Gather::None,
            filler: 0,
            packets: 1,
            again,
            ah: None,
            srq: 0,
        })
    }

    /// An ATOMIC, ATOMIC WRITE or FLUSH: one packet whose answer is awaited. `None` for another
    /// operation.
    #[inline(always)]
    pub(crate) fn answered(&self, wqe: &SendWqe, psn: u64, again: bool) -> Option<TxPacket<'a>> {
        let mut ext = Ext {
            xrceth: srq(wqe),
            ..Ext::default()
        };

        let mut payload = Gather::None;
        let opcode = match wqe.op {
            SendOp::CompareSwap {
                va,
                rkey,
                compare,
                swap,
            } => {
                ext.atomic = Some(AtomicEth {
                    va,
                    rkey,
                    swap_add: swap,
                    compare,
                });
                opcode::RC_COMPARE_SWAP
            }
            SendOp::FetchAdd { va, rkey, add } => {
                ext.atomic = Some(AtomicEth {
                    va,
                    rkey,
                    swap_add: add,
                    compare: 0,
                });
                opcode::RC_FETCH_ADD
            }
            SendOp::AtomicWrite { va, rkey } => {
                let len = wqe.len;
                ext.reth = Some(Reth { va, rkey, len });
                payload = self.sq.gather(wqe, 0, len);
                opcode::RC_ATOMIC_WRITE
            }
            SendOp::Flush(flush) => {
                let (feth, reth) = flush.headers();
                (ext.feth, ext.reth) = (Some(feth), Some(reth));
                opcode::RC_FLUSH
            }
            _ => return None,
        };

        Some(TxPacket {
            bth: self.bth(opcode | self.base, psn, true),
            ext,
            payload,
            filler: 0,
            packets: 1,
            again,
            ah: None,
            srq: 0,
        })
    }
}

/// Pad count and filler of a stretch: as no packet in it is filled, it does not show either that
/// filled ones are understood.
#[inline]
pub(crate) fn stretched(bth: &mut Bth, len: u32) -> u16 {
    bth.filled = false;
    bth.pad = Bth::pad_for(len as usize);
    0
}

/// The peer's shared receive queue, where the request names one (XRC).
#[inline]
fn srq(wqe: &SendWqe) -> Option<u32> {
    match wqe.dest {
        Dest::XrcSrq(srq) => Some(srq & 0xff_ffff),
        _ => None,
    }
}

/// A base transport header towards the peer. The P_Key is the default one: its table has one entry.
#[inline]
pub(crate) fn request_bth(attr: &QpAttr, psn: u64) -> Bth {
    Bth {
        migreq: true,
        pkey: 0xffff,
        dest_qp: attr.dest_qp_num,
        psn: psn as u32 & 0xff_ffff,
        ..Bth::default()
    }
}

/// Opcode and extended headers of a packet of a SEND or RDMA WRITE, for the service whose opcodes
/// begin at `base`.
#[inline]
pub(crate) fn message_headers(wqe: &SendWqe, first: bool, last: bool, base: u8) -> (u8, Ext) {
    use opcode::*;

    let pick = |only, begin, middle, end| match (first, last) {
        (true, true) => only,
        (true, false) => begin,
        (false, false) => middle,
        (false, true) => end,
    };

    let mut ext = Ext::default();
    let opcode = match wqe.op {
        SendOp::SendWithImm(imm) => {
            ext.imm = last.then_some(imm);
            pick(
                RC_SEND_ONLY_IMM,
                RC_SEND_FIRST,
                RC_SEND_MIDDLE,
                RC_SEND_LAST_IMM,
            )
        }
        SendOp::SendWithInv(key) => {
            ext.ieth = last.then_some(key);
            pick(
                RC_SEND_ONLY_INV,
                RC_SEND_FIRST,
                RC_SEND_MIDDLE,
                RC_SEND_LAST_INV,
            )
        }
        SendOp::Write { va, rkey } => {
            ext.reth = first.then_some(Reth {
                va,
                rkey,
                len: wqe.len,
            });
            pick(
                RC_WRITE_ONLY,
                RC_WRITE_FIRST,
                RC_WRITE_MIDDLE,
                RC_WRITE_LAST,
            )
        }
        SendOp::WriteWithImm { va, rkey, imm } => {
            ext.reth = first.then_some(Reth {
                va,
                rkey,
                len: wqe.len,
            });
            ext.imm = last.then_some(imm);
            pick(
                RC_WRITE_ONLY_IMM,
                RC_WRITE_FIRST,
                RC_WRITE_MIDDLE,
                RC_WRITE_LAST_IMM,
            )
        }
        _ => pick(RC_SEND_ONLY, RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_LAST),
    };

    ext.xrceth = srq(wqe);
    (opcode | base, ext)
}
