//! The table of queue pair states (section 10.3.1): which transition takes which attributes.
//!
//! One row a transition and service. It says nothing of what a transition does (see `modify`), nor
//! of the range of a value. Services are added as rows, not as code.

use ferroce_wire::opcode;

use crate::{ModifyError, QpAttrMask as A, QpState};
use QpState::{Init, Reset, Rtr, Rts, Sqd, Sqe};
use QpType::{Rc, Uc, Ud, XrcRecv, XrcSend};

/// The transport service of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QpType {
    /// Reliable connection.
    #[default]
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Initiator of an extended reliable connection.
    XrcSend,
    /// Target of an extended reliable connection.
    XrcRecv,
}

impl QpType {
    /// What is added to an RC opcode to get the service's own.
    pub(crate) fn opcode_base(self) -> u8 {
        match self {
            Rc => opcode::RC_SEND_FIRST,
            Uc => opcode::UC_SEND_FIRST,
            Ud => opcode::UD_SEND_ONLY - opcode::RC_SEND_ONLY,
            XrcSend | XrcRecv => opcode::XRC_SEND_FIRST,
        }
    }
}

/// One row: a transition of a service, and its attributes beside `STATE` and `CUR_STATE`.
#[derive(Debug)]
pub struct Transition {
    /// Services that the row holds for.
    pub services: &'static [QpType],
    /// State before.
    pub from: QpState,
    /// State after.
    pub to: QpState,
    /// Attributes that must be given.
    pub required: A,
    /// Attributes that may be given.
    pub optional: A,
}

const CONNECTED: &[QpType] = &[Rc, Uc, XrcSend, XrcRecv];
const ALL: &[QpType] = &[Rc, Uc, Ud, XrcSend, XrcRecv];
const UD: &[QpType] = &[Ud];

const fn row(
    services: &'static [QpType],
    from: QpState,
    to: QpState,
    required: &[A],
    optional: &[A],
) -> Transition {
    Transition {
        services,
        from,
        to,
        required: union(required),
        optional: union(optional),
    }
}

const fn union(set: &[A]) -> A {
    let mut all = A::empty();
    let mut i = 0;
    while i < set.len() {
        all = all.union(set[i]);
        i += 1;
    }
    all
}

/// What an RTR responder must know of its connection, and what its own side of the path may still
/// be given.
const PEER: A = union(&[A::AV, A::PATH_MTU, A::DEST_QPN, A::RQ_PSN]);
const PATH: A = union(&[A::ALT_PATH, A::ACCESS_FLAGS, A::PATH_MIG_STATE]);
/// What a requester that is answered needs.
const RETRIES: A = union(&[A::TIMEOUT, A::RETRY_CNT, A::RNR_RETRY, A::MAX_QP_RD_ATOMIC]);

/// All transitions that carry attributes. Any state goes to RESET and to ERR without any; those two
/// are not in the table.
#[rustfmt::skip]
pub static TRANSITIONS: &[Transition] = &[
    row(CONNECTED, Reset, Init, &[A::PKEY_INDEX, A::PORT, A::ACCESS_FLAGS], &[]),
    row(UD, Reset, Init, &[A::PKEY_INDEX, A::PORT, A::QKEY], &[]),

    row(CONNECTED, Init, Init, &[], &[A::PKEY_INDEX, A::PORT, A::ACCESS_FLAGS]),
    row(UD, Init, Init, &[], &[A::PKEY_INDEX, A::PORT, A::QKEY]),

    row(
        &[Rc, XrcRecv], Init, Rtr,
        &[PEER, A::MAX_DEST_RD_ATOMIC, A::MIN_RNR_TIMER],
        &[A::ALT_PATH, A::ACCESS_FLAGS, A::PKEY_INDEX],
    ),
    row(&[Uc, XrcSend], Init, Rtr, &[PEER], &[A::ALT_PATH, A::ACCESS_FLAGS, A::PKEY_INDEX]),
    row(UD, Init, Rtr, &[], &[A::PKEY_INDEX, A::QKEY]),

    row(&[Rc], Rtr, Rts, &[RETRIES, A::SQ_PSN], &[PATH, A::MIN_RNR_TIMER]),
    row(&[XrcSend], Rtr, Rts, &[RETRIES, A::SQ_PSN], &[PATH]),
    // The target of an extended connection sends nothing of its own, but must name these all the
    // same.
    row(&[XrcRecv], Rtr, Rts, &[A::TIMEOUT, A::SQ_PSN], &[PATH, A::MIN_RNR_TIMER]),
    row(&[Uc], Rtr, Rts, &[A::SQ_PSN], &[PATH]),
    row(UD, Rtr, Rts, &[A::SQ_PSN], &[A::QKEY]),

    row(&[Rc, XrcRecv], Rts, Rts, &[], &[PATH, A::MIN_RNR_TIMER]),
    row(&[Uc, XrcSend], Rts, Rts, &[], &[PATH]),
    row(UD, Rts, Rts, &[], &[A::QKEY]),

    row(ALL, Rts, Sqd, &[], &[A::EN_SQD_ASYNC_NOTIFY]),

    row(&[Rc, XrcRecv], Sqd, Rts, &[], &[PATH, A::MIN_RNR_TIMER]),
    row(&[Uc, XrcSend], Sqd, Rts, &[], &[PATH]),
    row(UD, Sqd, Rts, &[], &[A::QKEY]),

    row(
        &[Rc], Sqd, Sqd, &[],
        &[
            A::EN_SQD_ASYNC_NOTIFY, A::PORT, A::AV, RETRIES, A::MAX_DEST_RD_ATOMIC, A::PKEY_INDEX,
            A::MIN_RNR_TIMER, PATH,
        ],
    ),
    row(
        &[XrcSend], Sqd, Sqd, &[],
        &[A::EN_SQD_ASYNC_NOTIFY, A::PORT, A::AV, RETRIES, A::PKEY_INDEX, PATH],
    ),
    row(
        &[XrcRecv], Sqd, Sqd, &[],
        &[
            A::EN_SQD_ASYNC_NOTIFY, A::PORT, A::AV, A::TIMEOUT, A::MAX_DEST_RD_ATOMIC, A::PKEY_INDEX,
            A::MIN_RNR_TIMER, PATH,
        ],
    ),
    row(&[Uc], Sqd, Sqd, &[], &[A::EN_SQD_ASYNC_NOTIFY, A::AV, A::PKEY_INDEX, PATH]),
    row(UD, Sqd, Sqd, &[], &[A::EN_SQD_ASYNC_NOTIFY, A::PKEY_INDEX, A::QKEY]),

    // Only the send queue of an unreliable service fails alone. A reliable one never enters SQE by
    // itself; its row is there for a consumer that names it.
    row(&[Rc], Sqe, Rts, &[], &[A::ACCESS_FLAGS, A::MIN_RNR_TIMER]),
    row(&[Uc], Sqe, Rts, &[], &[A::ACCESS_FLAGS]),
    row(UD, Sqe, Rts, &[], &[A::QKEY]),
];

/// States that a consumer may name in `cur_qp_state`.
const NAMEABLE: [QpState; 4] = [Rtr, Rts, Sqd, Sqe];

/// The row for a transition of a service.
pub fn transition(service: QpType, from: QpState, to: QpState) -> Option<&'static Transition> {
    TRANSITIONS
        .iter()
        .find(|t| t.from == from && t.to == to && t.services.contains(&service))
}

/// Checks the mask of a `modify` against the table.
///
/// # Errors
/// The first rule that is broken; see [`ModifyError`].
pub fn check(service: QpType, from: QpState, to: QpState, mask: A) -> Result<(), ModifyError> {
    let given = mask.difference(A::STATE | A::CUR_STATE);
    if mask.contains(A::CUR_STATE) && !NAMEABLE.contains(&from) {
        return Err(ModifyError::NotAllowed(A::CUR_STATE));
    }

    let (required, optional) = match to {
        Reset | QpState::Err => (A::empty(), A::empty()),
        _ => {
            let row = transition(service, from, to).ok_or(ModifyError::Transition { from, to })?;
            (row.required, row.optional)
        }
    };
    let missing = required.difference(given);
    if !missing.is_empty() {
        return Err(ModifyError::Missing(missing));
    }

    let extra = given.difference(required.union(optional));
    if !extra.is_empty() {
        return Err(ModifyError::NotAllowed(extra));
    }

    Ok(())
}
