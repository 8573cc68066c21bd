//! Work completions as the consumer gets them.

/// A work completion with the layout of `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Wc {
    pub wr_id: u64,
    /// `enum ibv_wc_status`
    pub status: u32,
    /// `enum ibv_wc_opcode`
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    /// Immediate data as the bytes came, or the invalidated key in host byte order.
    pub imm_data: [u8; 4],
    pub qp_num: u32,
    pub src_qp: u32,
    /// `enum ibv_wc_flags`
    pub wc_flags: u32,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

/// `struct ibv_wc_tm_info`: what the header of a matched message said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagInfo {
    /// Its tag.
    pub tag: u64,
    /// What the sender added for the program.
    pub app_ctx: u32,
}
