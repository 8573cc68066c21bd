//! What there is to choose from, by name: NAKs, statuses of completions, verbs, errno values.

use std::fmt;
use std::str::FromStr;

use super::text::{TextError, as_text};

/// A list of names, each for a value, and what they are the names of.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident: $what:literal { $($(#[doc = $about:literal])* $variant:ident = $value:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[doc = $about])* $variant = $value,)* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The name.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }

        impl FromStr for $name {
            type Err = TextError;

            fn from_str(text: &str) -> Result<Self, TextError> {
                let wanted = text.trim().to_ascii_lowercase().replace('_', "-");
                let found = $name::ALL.iter().find(|one| one.name().replace('_', "-") == wanted);
                found.copied().ok_or_else(|| {
                    let names: Vec<&str> = $name::ALL.iter().map(|one| one.name()).collect();
                    TextError(format!("`{text}` is no {}: {}", $what, names.join(", ")))
                })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        as_text!($name);
    };
}

names! {
    /// What a responder answers a request with.
    Nak: "NAK" {
        /// PSN sequence error: the requester sends again from this one on.
        Psn = 0 "psn",
        /// The requester's work request ends with `IBV_WC_REM_INV_REQ_ERR`.
        InvalidRequest = 1 "invalid-request",
        /// `IBV_WC_REM_ACCESS_ERR`.
        RemoteAccess = 2 "remote-access",
        /// `IBV_WC_REM_OP_ERR`.
        RemoteOperation = 3 "remote-operation",
    }
}

names! {
    /// `enum ibv_wc_status` without success; the values are its own.
    Status: "status of a completion" {
        /// `IBV_WC_LOC_LEN_ERR`
        LocLen = 1 "loc-len",
        /// `IBV_WC_LOC_QP_OP_ERR`
        LocQpOp = 2 "loc-qp-op",
        /// `IBV_WC_LOC_EEC_OP_ERR`
        LocEecOp = 3 "loc-eec-op",
        /// `IBV_WC_LOC_PROT_ERR`
        LocProt = 4 "loc-prot",
        /// `IBV_WC_WR_FLUSH_ERR`
        WrFlush = 5 "wr-flush",
        /// `IBV_WC_MW_BIND_ERR`
        MwBind = 6 "mw-bind",
        /// `IBV_WC_BAD_RESP_ERR`
        BadResp = 7 "bad-resp",
        /// `IBV_WC_LOC_ACCESS_ERR`
        LocAccess = 8 "loc-access",
        /// `IBV_WC_REM_INV_REQ_ERR`
        RemInvReq = 9 "rem-inv-req",
        /// `IBV_WC_REM_ACCESS_ERR`
        RemAccess = 10 "rem-access",
        /// `IBV_WC_REM_OP_ERR`
        RemOp = 11 "rem-op",
        /// `IBV_WC_RETRY_EXC_ERR`
        RetryExc = 12 "retry-exc",
        /// `IBV_WC_RNR_RETRY_EXC_ERR`
        RnrRetryExc = 13 "rnr-retry-exc",
        /// `IBV_WC_LOC_RDD_VIOL_ERR`
        LocRddViol = 14 "loc-rdd-viol",
        /// `IBV_WC_REM_INV_RD_REQ_ERR`
        RemInvRdReq = 15 "rem-inv-rd-req",
        /// `IBV_WC_REM_ABORT_ERR`
        RemAbort = 16 "rem-abort",
        /// `IBV_WC_INV_EECN_ERR`
        InvEecn = 17 "inv-eecn",
        /// `IBV_WC_INV_EEC_STATE_ERR`
        InvEecState = 18 "inv-eec-state",
        /// `IBV_WC_FATAL_ERR`
        Fatal = 19 "fatal",
        /// `IBV_WC_RESP_TIMEOUT_ERR`
        RespTimeout = 20 "resp-timeout",
        /// `IBV_WC_GENERAL_ERR`
        General = 21 "general",
    }
}

names! {
    /// A verb that makes or changes an object.
    Verb: "verb that can be made to fail" {
        /// `ibv_alloc_pd`
        AllocPd = 0 "alloc_pd",
        /// `ibv_create_cq`, `ibv_create_cq_ex`
        CreateCq = 1 "create_cq",
        /// `ibv_resize_cq`
        ResizeCq = 2 "resize_cq",
        /// `ibv_create_qp`, `ibv_create_qp_ex`
        CreateQp = 3 "create_qp",
        /// `ibv_modify_qp`
        ModifyQp = 4 "modify_qp",
        /// `ibv_create_srq`, `ibv_create_srq_ex`
        CreateSrq = 5 "create_srq",
        /// `ibv_create_ah`
        CreateAh = 6 "create_ah",
        /// `ibv_reg_mr` and its like
        RegMr = 7 "reg_mr",
        /// `ibv_alloc_mw`
        AllocMw = 8 "alloc_mw",
        /// `ibv_alloc_dm`
        AllocDm = 9 "alloc_dm",
        /// `ibv_open_xrcd`
        OpenXrcd = 10 "open_xrcd",
        /// `ibv_attach_mcast`
        AttachMcast = 11 "attach_mcast",
    }
}

/// An errno, by its name or as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(i32);

impl Errno {
    /// What a verb without memory fails with.
    pub const NOMEM: Errno = Errno(libc::ENOMEM);
    /// The largest that Linux has.
    const MAX: u64 = 4095;

    /// The positive number.
    pub fn number(self) -> i32 {
        self.0
    }
}

/// Those that verbs fail with.
const ERRNOS: [(&str, i32); 18] = [
    ("EPERM", libc::EPERM),
    ("ENOENT", libc::ENOENT),
    ("EINTR", libc::EINTR),
    ("EIO", libc::EIO),
    ("ENXIO", libc::ENXIO),
    ("EBADF", libc::EBADF),
    ("EAGAIN", libc::EAGAIN),
    ("ENOMEM", libc::ENOMEM),
    ("EACCES", libc::EACCES),
    ("EFAULT", libc::EFAULT),
    ("EBUSY", libc::EBUSY),
    ("ENODEV", libc::ENODEV),
    ("EINVAL", libc::EINVAL),
    ("EMFILE", libc::EMFILE),
    ("ENOSPC", libc::ENOSPC),
    ("ENOSYS", libc::ENOSYS),
    ("EOPNOTSUPP", libc::EOPNOTSUPP),
    ("ETIMEDOUT", libc::ETIMEDOUT),
];

impl FromStr for Errno {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let name = text.trim().to_ascii_uppercase();
        if let Some((_, number)) = ERRNOS.iter().find(|(known, _)| *known == name) {
            return Ok(Errno(*number));
        }
        match name.parse() {
            Ok(number @ 1..=Errno::MAX) => Ok(Errno(number as i32)),
            _ => {
                let names: Vec<&str> = ERRNOS.iter().map(|(name, _)| *name).collect();
                Err(TextError(format!(
                    "`{text}` is no errno: a number from 1 to {}, or one of {}",
                    Errno::MAX,
                    names.join(", ")
                )))
            }
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ERRNOS.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

as_text!(Errno);
