//! The extended transport headers that may follow a BTH, in the order in which they follow it.
//!
//! Which of them a packet carries is the opcode's say, see [`opcode`](crate::opcode); nothing here
//! guesses.

use crate::aeth::Aeth;
use crate::opcode::HeaderSet;
use crate::raw::{ByteAnd24, RawAeth, RawAtomicEth, RawDeth, RawReth, RawXrcEth, put, take};
use zerocopy::byteorder::big_endian::{U32, U64};

/// RDMA extended transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reth {
    /// Remote virtual address.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Bytes of the whole message, 0 to 2^31.
    pub len: u32,
}

/// FLUSH extended transport header. The values are as they came: which of them a responder knows is
/// its own say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feth {
    /// Placement types (PLT), 4 bits: 1 global visibility, 2 persistence, or both.
    pub placement: u8,
    /// Selectivity level (SEL), 2 bits: 0 the range of the RETH, 1 all that its R_Key names.
    pub selectivity: u8,
}

/// Extended header of an atomic request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicEth {
    /// Remote virtual address.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// The value to store (COMPARE & SWAP) or to add (FETCH & ADD).
    pub swap_add: u64,
    /// The value to compare with; unused by FETCH & ADD.
    pub compare: u64,
}

/// Datagram extended transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deth {
    /// Queue key.
    pub qkey: u32,
    /// Source QP number, 24 bits.
    pub src_qp: u32,
}

/// The extended headers of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ext {
    /// FETH.
    pub feth: Option<Feth>,
    /// RETH.
    pub reth: Option<Reth>,
    /// AETH.
    pub aeth: Option<Aeth>,
    /// AtomicETH.
    pub atomic: Option<AtomicEth>,
    /// AtomicAckETH: the value that was there before.
    pub atomic_ack: Option<u64>,
    /// Immediate data, as the bytes stand on the wire.
    pub imm: Option<[u8; 4]>,
    /// IETH: the R_Key to invalidate.
    pub ieth: Option<u32>,
    /// DETH.
    pub deth: Option<Deth>,
    /// XRCETH: number of the XRC shared receive queue, 24 bits.
    pub xrceth: Option<u32>,
}

impl Ext {
    /// The headers that are present.
    pub fn headers(&self) -> HeaderSet {
        let mut set = HeaderSet::empty();
        set.set(HeaderSet::DETH, self.deth.is_some());
        set.set(HeaderSet::XRCETH, self.xrceth.is_some());
        set.set(HeaderSet::FETH, self.feth.is_some());
        set.set(HeaderSet::RETH, self.reth.is_some());
        set.set(HeaderSet::ATOMIC, self.atomic.is_some());
        set.set(HeaderSet::AETH, self.aeth.is_some());
        set.set(HeaderSet::ATOMIC_ACK, self.atomic_ack.is_some());
        set.set(HeaderSet::IMM, self.imm.is_some());
        set.set(HeaderSet::IETH, self.ieth.is_some());
        set
    }

    /// Takes the headers of `set` off the front of `bytes`; `None` if those are too few.
    #[inline(always)]
    pub(crate) fn take(set: HeaderSet, bytes: &mut &[u8]) -> Option<Ext> {
        let mut ext = Ext::default();
        if set.contains(HeaderSet::DETH) {
            let raw: &RawDeth = take(bytes)?;
            ext.deth = Some(Deth {
                qkey: raw.qkey.get(),
                src_qp: raw.src_qp.number(),
            });
        }

        if set.contains(HeaderSet::XRCETH) {
            let raw: &RawXrcEth = take(bytes)?;
            ext.xrceth = Some(raw.srq.number());
        }

        if set.contains(HeaderSet::FETH) {
            let bits = take::<U32>(bytes)?.get() as u8;
            ext.feth = Some(Feth {
                placement: bits & 0xf,
                selectivity: bits >> 4 & 0x3,
            });
        }

        if set.contains(HeaderSet::RETH) {
            let raw: &RawReth = take(bytes)?;
            ext.reth = Some(Reth {
                va: raw.va.get(),
                rkey: raw.rkey.get(),
                len: raw.len.get(),
            });
        }

        if set.contains(HeaderSet::ATOMIC) {
            let raw: &RawAtomicEth = take(bytes)?;
            ext.atomic = Some(AtomicEth {
                va: raw.va.get(),
                rkey: raw.rkey.get(),
                swap_add: raw.swap_add.get(),
                compare: raw.compare.get(),
            });
        }

        if set.contains(HeaderSet::AETH) {
            let raw: &RawAeth = take(bytes)?;
            ext.aeth = Some(Aeth {
                syndrome: raw.syndrome_msn.byte(),
                msn: raw.syndrome_msn.number(),
            });
        }

        if set.contains(HeaderSet::ATOMIC_ACK) {
            ext.atomic_ack = Some(take::<U64>(bytes)?.get());
        }
        if set.contains(HeaderSet::IMM) {
            ext.imm = Some(*take::<[u8; 4]>(bytes)?);
        }
        if set.contains(HeaderSet::IETH) {
            ext.ieth = Some(take::<U32>(bytes)?.get());
        }

        Some(ext)
    }

    /// Writes the headers of `set`; one that is missing here is written as zeros.
    pub(crate) fn put(&self, set: HeaderSet, out: &mut [u8], at: &mut usize) {
        if set.contains(HeaderSet::DETH) {
            let h = self.deth.unwrap_or_default();
            put(
                out,
                at,
                &RawDeth {
                    qkey: h.qkey.into(),
                    src_qp: ByteAnd24::new(0, h.src_qp),
                },
            );
        }

        if set.contains(HeaderSet::XRCETH) {
            put(
                out,
                at,
                &RawXrcEth {
                    srq: ByteAnd24::new(0, self.xrceth.unwrap_or_default()),
                },
            );
        }

        if set.contains(HeaderSet::FETH) {
            let h = self.feth.unwrap_or_default();
            let bits = (h.selectivity & 0x3) << 4 | h.placement & 0xf;
            put(out, at, &U32::new(bits.into()));
        }

        if set.contains(HeaderSet::RETH) {
            let h = self.reth.unwrap_or_default();
            put(
                out,
                at,
                &RawReth {
                    va: h.va.into(),
                    rkey: h.rkey.into(),
                    len: h.len.into(),
                },
            );
        }

        if set.contains(HeaderSet::ATOMIC) {
            let h = self.atomic.unwrap_or_default();
            let raw = RawAtomicEth {
                va: h.va.into(),
                rkey: h.rkey.into(),
                swap_add: h.swap_add.into(),
                compare: h.compare.into(),
            };
            put(out, at, &raw);
        }

        if set.contains(HeaderSet::AETH) {
            let h = self.aeth.unwrap_or_default();
            put(
                out,
                at,
                &RawAeth {
                    syndrome_msn: ByteAnd24::new(h.syndrome, h.msn),
                },
            );
        }

        if set.contains(HeaderSet::ATOMIC_ACK) {
            put(out, at, &U64::new(self.atomic_ack.unwrap_or_default()));
        }
        if set.contains(HeaderSet::IMM) {
            put(out, at, &self.imm.unwrap_or_default());
        }
        if set.contains(HeaderSet::IETH) {
            put(out, at, &U32::new(self.ieth.unwrap_or_default()));
        }
    }
}
