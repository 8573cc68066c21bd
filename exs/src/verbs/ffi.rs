//! What `shim.c` defines. Its assertions and these sizes keep the two together.

use std::ffi::c_void;

use crate::proto::message::Kind;

/// An event of the connection manager.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CmEvent {
    /// The identifier's context; of a connection request the listener's.
    pub context: u64,
    /// The identifier. Only a connection request's is new and may be adopted.
    pub id: *mut c_void,
    /// `RDMA_CM_EVENT_…`.
    pub kind: i32,
    /// 0, a negative errno, or a reason of the protocol.
    pub status: i32,
    /// Bytes of private data.
    pub private_length: u32,
    /// The private data's first bytes.
    pub private: [u8; 64],
}

impl Default for CmEvent {
    fn default() -> Self {
        Self {
            context: 0,
            id: std::ptr::null_mut(),
            kind: 0,
            status: 0,
            private_length: 0,
            private: [0; 64],
        }
    }
}

/// A work request.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// The pieces' addresses.
    pub address: [u64; 2],
    /// The address at the peer.
    pub remote: u64,
    /// The pieces' lengths.
    pub length: [u32; 2],
    /// The pieces' keys.
    pub lkey: [u32; 2],
    /// The peer's key.
    pub rkey: u32,
    /// `SEND`, `WRITE`, `READ`, `WRITE_IMMEDIATE`, `SEND_IMMEDIATE`.
    pub opcode: u32,
    /// How many pieces there are.
    pub pieces: u32,
    /// `INLINE`.
    pub flags: u32,
    /// Immediate data of those that have any, in this machine's byte order.
    pub immediate: u32,
}

/// A completion.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Completion {
    /// The work request's.
    pub wr_id: u64,
    /// 0 for success.
    pub status: u32,
    /// Bytes of a message that was received, or of the RDMA WRITE that told of itself.
    pub length: u32,
    /// The immediate data that came with it, in this machine's byte order.
    pub immediate: u32,
    /// Whether any did: 0, or `OF_SEND` or `OF_WRITE`.
    pub immediate_of: u32,
}

impl Completion {
    /// What its immediate data are about, and they.
    pub(crate) fn immediate(&self) -> Option<(Kind, u32)> {
        match self.immediate_of {
            OF_SEND => Some((Kind::Data, self.immediate)),
            OF_WRITE => Some((Kind::Written, self.immediate)),
            _ => None,
        }
    }
}

const OF_SEND: u32 = 1;
const OF_WRITE: u32 = 2;

const _: () =
    assert!(size_of::<CmEvent>() == 96 && size_of::<Work>() == 72 && size_of::<Completion>() == 24);

unsafe extern "C" {
    pub(super) fn xv_cm_channel(fd: *mut i32) -> *mut c_void;
    pub(super) fn xv_cm_event(channel: *mut c_void, event: *mut CmEvent) -> i32;
    pub(super) fn xv_id_create(channel: *mut c_void, context: u64) -> *mut c_void;
    pub(super) fn xv_id_context(id: *mut c_void, context: u64);
    pub(super) fn xv_id_destroy(id: *mut c_void);
    pub(super) fn xv_id_bind(id: *mut c_void, address: *const libc::sockaddr_storage) -> i32;
    pub(super) fn xv_id_reuse(id: *mut c_void) -> i32;
    pub(super) fn xv_id_own_family(id: *mut c_void) -> i32;
    pub(super) fn xv_id_listen(id: *mut c_void) -> i32;
    pub(super) fn xv_id_resolve_address(
        id: *mut c_void,
        address: *const libc::sockaddr_storage,
        ms: i32,
    ) -> i32;
    pub(super) fn xv_id_resolve_route(id: *mut c_void, ms: i32) -> i32;
    pub(super) fn xv_id_connect(id: *mut c_void, data: *const u8, length: u8) -> i32;
    pub(super) fn xv_id_accept(id: *mut c_void, data: *const u8, length: u8) -> i32;
    pub(super) fn xv_id_reject(id: *mut c_void) -> i32;
    pub(super) fn xv_id_disconnect(id: *mut c_void) -> i32;
    pub(super) fn xv_id_verbs(id: *mut c_void) -> *mut c_void;
    pub(super) fn xv_id_peer(id: *mut c_void, address: *mut libc::sockaddr_storage);
    pub(super) fn xv_devices(contexts: *mut *mut c_void, room: i32) -> i32;
    pub(super) fn xv_pd(verbs: *mut c_void) -> *mut c_void;
    pub(super) fn xv_channel(verbs: *mut c_void, fd: *mut i32) -> *mut c_void;
    pub(super) fn xv_channel_event(channel: *mut c_void, context: *mut u64) -> i32;
    pub(super) fn xv_cq(
        verbs: *mut c_void,
        entries: i32,
        context: u64,
        channel: *mut c_void,
    ) -> *mut c_void;
    pub(super) fn xv_cq_entries(cq: *mut c_void) -> i32;
    pub(super) fn xv_cq_arm(cq: *mut c_void) -> i32;
    pub(super) fn xv_cq_poll(cq: *mut c_void, out: *mut Completion, room: i32) -> i32;
    pub(super) fn xv_mr(
        pd: *mut c_void,
        address: *mut c_void,
        length: usize,
        access: i32,
        lkey: *mut u32,
        rkey: *mut u32,
    ) -> *mut c_void;
    pub(super) fn xv_mr_free(mr: *mut c_void);
    pub(super) fn xv_qp(
        id: *mut c_void,
        pd: *mut c_void,
        cq: *mut c_void,
        sends: i32,
        receives: i32,
        inline: *mut u32,
    ) -> i32;
    pub(super) fn xv_qp_destroy(id: *mut c_void);
    pub(super) fn xv_post(id: *mut c_void, works: *const Work, count: i32) -> i32;
    pub(super) fn xv_post_receive(
        id: *mut c_void,
        wr_id: u64,
        address: u64,
        length: u32,
        lkey: u32,
    ) -> i32;
}
