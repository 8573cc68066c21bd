//! Words that tests of reliable connections share: statuses, extended headers, distances of PSNs.

use ferroce_wire::{AtomicEth, Ext, Psn, Reth, opcode};

/// Bytes of a bench's memory.
pub(super) const MEMORY: u32 = 1 << 15;
/// Path MTU of a bench unless a test says another.
pub(super) const PMTU: u32 = 1024;

/// `enum ibv_wc_status`.
pub(super) mod status {
    #![allow(missing_docs)]
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const LOC_LEN_ERR: u32 = 1;
    pub(crate) const LOC_PROT_ERR: u32 = 4;
    pub(crate) const WR_FLUSH_ERR: u32 = 5;
    pub(crate) const BAD_RESP_ERR: u32 = 7;
    pub(crate) const REM_INV_REQ_ERR: u32 = 9;
    pub(crate) const REM_ACCESS_ERR: u32 = 10;
    pub(crate) const REM_OP_ERR: u32 = 11;
    pub(crate) const RETRY_EXC_ERR: u32 = 12;
    pub(crate) const RNR_RETRY_EXC_ERR: u32 = 13;
}

/// The name of an opcode.
pub(super) fn name(opcode: u8) -> &'static str {
    opcode::info(opcode).map_or("a reserved opcode", |info| info.name)
}

/// Extended headers with immediate data.
pub(super) fn imm(bytes: [u8; 4]) -> Ext {
    Ext {
        imm: Some(bytes),
        ..Ext::default()
    }
}

/// Extended headers with a RETH.
pub(super) fn reth(va: u64, rkey: u32, len: u32) -> Ext {
    Ext {
        reth: Some(Reth { va, rkey, len }),
        ..Ext::default()
    }
}

/// Extended headers with an AtomicETH.
pub(super) fn atomic(va: u64, rkey: u32, swap_add: u64, compare: u64) -> Ext {
    Ext {
        atomic: Some(AtomicEth {
            va,
            rkey,
            swap_add,
            compare,
        }),
        ..Ext::default()
    }
}

/// How far `psn` is ahead of `of`; negative behind it.
pub(super) fn ahead(psn: u32, of: u32) -> i32 {
    Psn::new(psn).distance(Psn::new(of))
}
