//! The table of queue pair states: which transition takes which attributes.
//!
//! One row a transition and service. It says nothing of what a transition does (see `modify`), nor of the range
//! of a value. Services are added as rows, not as code.

use crate::{ModifyError, QpAttrMask as A, QpState};
use QpState::{Init, Reset, Rtr, Rts, Sqd, Sqe};

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

const RC: &[QpType] = &[QpType::Rc];

const fn row(from: QpState, to: QpState, required: &[A], optional: &[A]) -> Transition {
    Transition {
        services: RC,
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

/// All transitions that carry attributes. Any state goes to RESET and to ERR without any; those two
/// are not in the table.
pub static TRANSITIONS: &[Transition] = &[
    row(Reset, Init, &[A::PKEY_INDEX, A::PORT, A::ACCESS_FLAGS], &[]),
    row(Init, Init, &[], &[A::PKEY_INDEX, A::PORT, A::ACCESS_FLAGS]),
    row(
        Init,
        Rtr,
        &[
            A::AV,
            A::PATH_MTU,
            A::DEST_QPN,
            A::RQ_PSN,
            A::MAX_DEST_RD_ATOMIC,
            A::MIN_RNR_TIMER,
        ],
        &[A::ALT_PATH, A::ACCESS_FLAGS, A::PKEY_INDEX],
    ),
    row(
        Rtr,
        Rts,
        &[
            A::TIMEOUT,
            A::RETRY_CNT,
            A::RNR_RETRY,
            A::SQ_PSN,
            A::MAX_QP_RD_ATOMIC,
        ],
        &[
            A::ALT_PATH,
            A::ACCESS_FLAGS,
            A::MIN_RNR_TIMER,
            A::PATH_MIG_STATE,
        ],
    ),
    row(
        Rts,
        Rts,
        &[],
        &[
            A::ACCESS_FLAGS,
            A::ALT_PATH,
            A::PATH_MIG_STATE,
            A::MIN_RNR_TIMER,
        ],
    ),
    row(Rts, Sqd, &[], &[A::EN_SQD_ASYNC_NOTIFY]),
    row(
        Sqd,
        Rts,
        &[],
        &[
            A::ALT_PATH,
            A::ACCESS_FLAGS,
            A::MIN_RNR_TIMER,
            A::PATH_MIG_STATE,
        ],
    ),
    row(
        Sqd,
        Sqd,
        &[],
        &[
            A::EN_SQD_ASYNC_NOTIFY,
            A::PORT,
            A::AV,
            A::TIMEOUT,
            A::RETRY_CNT,
            A::RNR_RETRY,
            A::MAX_QP_RD_ATOMIC,
            A::MAX_DEST_RD_ATOMIC,
            A::ALT_PATH,
            A::PKEY_INDEX,
            A::ACCESS_FLAGS,
            A::MIN_RNR_TIMER,
            A::PATH_MIG_STATE,
        ],
    ),
    // An RC queue pair never enters SQE by itself; the row is there for a consumer that names it.
    row(Sqe, Rts, &[], &[A::ACCESS_FLAGS, A::MIN_RNR_TIMER]),
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
