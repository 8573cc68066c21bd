//! What the consumer's calls can be refused with. The C boundary maps each to one errno.

use crate::{QpAttrMask, QpState};

/// Why a work request was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The queue holds as many requests as it was created for (`ENOMEM`).
    #[error("the work queue is full")]
    QueueFull,
    /// The state does not take requests on this queue (`EINVAL`).
    #[error("work requests are not accepted in state {0:?}")]
    BadState(QpState),
    /// More scatter/gather elements than the queue pair was created for (`EINVAL`).
    #[error("too many scatter/gather elements")]
    TooManySges,
    /// More inline data than the queue pair was created for (`EINVAL`).
    #[error("too much inline data")]
    InlineTooLong,
    /// The operation cannot be combined with these flags or this data (`EINVAL`).
    #[error("the operation is not supported")]
    BadOpcode,
    /// The message is longer than 2^30 bytes, an ATOMIC's list is shorter than 8, an ATOMIC WRITE's
    /// is not 8, or a FLUSH asks for nothing or for more than 2^31 bytes (`EINVAL`).
    #[error("bad message length")]
    BadLength,
    /// The destination is not of the kind that the service takes (`EINVAL`).
    #[error("the destination does not fit the transport service")]
    BadDestination,
    /// The queue pair is the target of an extended connection and sends nothing of its own
    /// (`EINVAL`).
    #[error("the queue pair has no send queue")]
    NoSendQueue,
    /// The queue pair receives from shared receive queues, or not at all (`EINVAL`).
    #[error("the queue pair has no receive queue of its own")]
    HasSrq,
}

/// Why `modify` changed nothing. All of these are `EINVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModifyError {
    /// There is no such transition.
    #[error("no transition from {from:?} to {to:?}")]
    Transition {
        /// State before.
        from: QpState,
        /// State asked for.
        to: QpState,
    },
    /// `cur_qp_state` was given and is not the state.
    #[error("the queue pair is in state {0:?}")]
    CurrentState(QpState),
    /// Attributes that the transition requires were not given.
    #[error("missing attributes {0:?}")]
    Missing(QpAttrMask),
    /// Attributes that the transition does not allow were given.
    #[error("attributes {0:?} cannot be modified here")]
    NotAllowed(QpAttrMask),
    /// The value of an attribute is out of range.
    #[error("bad value of attribute {0:?}")]
    Value(QpAttrMask),
}
