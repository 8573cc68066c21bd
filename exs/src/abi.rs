//! The types and constants of `exs.h`. A test compares every size, offset and value with the
//! header.

use std::ffi::c_int;

/// `EXS_VERSION1`, the one there is.
pub(crate) const EXS_VERSION1: c_int = 1;

pub(crate) const EXS_BLOCK: c_int = 0x0010_0000;
pub(crate) const EXS_UNSIGNALED: c_int = 0x0020_0000;
pub(crate) const EXS_SHUT_WR: c_int = 0x0040_0000;

pub(crate) const EXS_EVTVEC_MAX: usize = 1024;
pub(crate) const EXS_XFERVEC_MAX: usize = 1024;
pub(crate) const EXS_LENGTH_MAX: usize = 1 << 30;
pub(crate) const EXS_FILE_LIMIT: u64 = 1 << 30;
pub(crate) const EXS_SENDS_MAX: usize = 256;
pub(crate) const EXS_RECVS_MAX: usize = 256;
pub(crate) const EXS_ACCEPTS_MAX: usize = 1024;
pub(crate) const EXS_QUEUES_MAX: usize = 1024;
pub(crate) const EXS_QDEPTH_MAX: c_int = 1 << 20;

pub(crate) const EXS_QHANDLE_INVALID: usize = usize::MAX;
pub(crate) const EXS_MHANDLE_INVALID: usize = usize::MAX;
pub(crate) const EXS_MHANDLE_UNREGISTERED: usize = usize::MAX - 1;

pub(crate) const EXS_MRF_SHARED: c_int = 0x1;
pub(crate) const EXS_MRF_SEND_DISABLE: c_int = 0x4;
pub(crate) const EXS_MRF_RECV_DISABLE: c_int = 0x8;

pub(crate) const EXS_EVT_CONNECT: c_int = 1;
pub(crate) const EXS_EVT_ACCEPT: c_int = 2;
pub(crate) const EXS_EVT_SEND: c_int = 3;
pub(crate) const EXS_EVT_RECV: c_int = 4;
pub(crate) const EXS_EVT_SENDFILE: c_int = 5;
pub(crate) const EXS_EVT_RECVFILE: c_int = 6;
pub(crate) const EXS_EVT_SHUTDOWN: c_int = 7;
pub(crate) const EXS_EVT_CLOSE: c_int = 8;

pub(crate) const EXS_EVF_EOF: c_int = 0x0100_0000;

pub(crate) const EXS_IOVEC: c_int = 1;
pub(crate) const EXS_FDVEC: c_int = 2;
pub(crate) const EXS_PATHVEC: c_int = 3;

pub(crate) const EXS_QATTR_DEPTH: c_int = 1;
pub(crate) const EXS_QATTR_SIGNAL: c_int = 2;
pub(crate) const EXS_QATTR_EVENTS: c_int = 3;
pub(crate) const EXS_QATTR_WAIT: c_int = 4;
pub(crate) const EXS_WAIT_ADAPTIVE: c_int = 0;
pub(crate) const EXS_WAIT_NOTIFY: c_int = 1;
pub(crate) const EXS_WAIT_BUSY_POLL: c_int = 2;
pub(crate) const EXS_SIG_DISABLE: c_int = 0;
pub(crate) const EXS_SIG_ENABLE: c_int = 1;

pub(crate) const EXS_F_GETFILELIMIT: c_int = 0x4501;
pub(crate) const EXS_F_SETFILELIMIT: c_int = 0x4502;

/// `exs_evt_accept_t`; addresses are numbers, as nobody here follows them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EvtAccept {
    pub exs_evt_newsocket: c_int,
    pub exs_evt_addr: usize,
    pub exs_evt_addrlen: libc::socklen_t,
}

/// `exs_evt_xfer_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EvtXfer {
    pub exs_evt_buffer: usize,
    pub exs_evt_length: usize,
    pub exs_evt_mhandle: usize,
    pub exs_evt_flags: c_int,
}

/// `exs_evt_xferfile_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EvtXferfile {
    pub exs_evt_xfervec: usize,
    pub exs_evt_xfervec_cnt: c_int,
    pub exs_evt_length: i64,
    pub exs_evt_flags: c_int,
}

/// `union exs_evt_union`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union EvtUnion {
    pub exs_evt_accept: EvtAccept,
    pub exs_evt_xfer: EvtXfer,
    pub exs_evt_xferfile: EvtXferfile,
    /// All of it, so that none of it is left unset.
    whole: [u64; 4],
}

/// `exs_event_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Event {
    pub exs_evt_type: c_int,
    pub exs_evt_socket: c_int,
    pub exs_evt_errno: c_int,
    pub exs_evt_ahandle: usize,
    pub exs_evt_union: EvtUnion,
}

/// The member of an event's union.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventDetail {
    None,
    Accept(EvtAccept),
    Xfer(EvtXfer),
    Xferfile(EvtXferfile),
}

impl Event {
    pub(crate) fn new(
        kind: c_int,
        socket: c_int,
        errno: c_int,
        ahandle: usize,
        detail: EventDetail,
    ) -> Self {
        let mut union = EvtUnion { whole: [0; 4] };
        match detail {
            EventDetail::None => {}
            EventDetail::Accept(accept) => union.exs_evt_accept = accept,
            EventDetail::Xfer(xfer) => union.exs_evt_xfer = xfer,
            EventDetail::Xferfile(xferfile) => union.exs_evt_xferfile = xferfile,
        }
        Self {
            exs_evt_type: kind,
            exs_evt_socket: socket,
            exs_evt_errno: errno,
            exs_evt_ahandle: ahandle,
            exs_evt_union: union,
        }
    }

    /// The member of a send's or receive's event.
    pub(crate) fn xfer(&self) -> EvtXfer {
        // SAFETY: every member is made of integers, and the whole union is always set.
        unsafe { self.exs_evt_union.exs_evt_xfer }
    }

    /// The member of an accept's event.
    pub(crate) fn accept(&self) -> EvtAccept {
        // SAFETY: as above.
        unsafe { self.exs_evt_union.exs_evt_accept }
    }

    /// The member of a file transfer's event.
    pub(crate) fn xferfile(&self) -> EvtXferfile {
        // SAFETY: as above.
        unsafe { self.exs_evt_union.exs_evt_xferfile }
    }
}

/// `exs_acceptaddr_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AcceptAddr {
    pub exs_addr: usize,
    pub exs_addrlen: libc::socklen_t,
    pub exs_newsocket: c_int,
    pub exs_ahandle: usize,
}

/// `exs_iovec_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoVec {
    pub exs_iov_base: usize,
    pub exs_iov_len: usize,
    pub exs_iov_mhandle: usize,
}

/// `exs_fdvec_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct FdVec {
    pub exs_offset: i64,
    pub exs_length: usize,
    pub exs_flags: c_int,
    pub exs_fildes: c_int,
}

/// `exs_pathvec_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathVec {
    pub exs_offset: i64,
    pub exs_length: usize,
    pub exs_flags: c_int,
    pub exs_path: usize,
}

/// `union exs_xfvec`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union XfVec {
    pub exs_iov: IoVec,
    pub exs_fdv: FdVec,
    pub exs_pathv: PathVec,
}

/// `exs_xferfile_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct XferFile {
    pub exs_xfv_type: c_int,
    pub exs_xfv: XfVec,
}

/// `exs_signal_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExsSignal {
    pub exs_sig_state: c_int,
    pub exs_sig_signo: c_int,
    pub exs_sig_value: usize,
}

/// The flags of a receive's event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EvtFlags {
    /// `MSG_TRUNC`.
    pub truncated: bool,
    /// `MSG_EOR`: a message ended here.
    pub end: bool,
    /// `EXS_EVF_EOF`.
    pub eof: bool,
}

impl EvtFlags {
    pub(crate) fn bits(self) -> c_int {
        let bit = |set, bit| if set { bit } else { 0 };
        bit(self.truncated, libc::MSG_TRUNC)
            | bit(self.end, libc::MSG_EOR)
            | bit(self.eof, EXS_EVF_EOF)
    }
}
