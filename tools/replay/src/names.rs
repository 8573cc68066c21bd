//! The words that journals have for numbers: those of verbs, without what they begin with.

use ferroce_transport::{QpState, QpType, WcStatus};

use crate::journal::{Fate, PostVerb};

pub(crate) const VERBS: [(&str, PostVerb); 12] = [
    ("RDMA_WRITE", PostVerb::Write),
    ("RDMA_WRITE_WITH_IMM", PostVerb::WriteImm),
    ("SEND", PostVerb::Send),
    ("SEND_WITH_IMM", PostVerb::SendImm),
    ("RDMA_READ", PostVerb::Read),
    ("ATOMIC_CMP_AND_SWP", PostVerb::CompareSwap),
    ("ATOMIC_FETCH_AND_ADD", PostVerb::FetchAdd),
    ("LOCAL_INV", PostVerb::LocalInv),
    ("BIND_MW", PostVerb::Bind),
    ("SEND_WITH_INV", PostVerb::SendInv),
    ("FLUSH", PostVerb::Flush),
    ("ATOMIC_WRITE", PostVerb::AtomicWrite),
];

/// The states' names.
pub(crate) const STATES: [(&str, QpState); 7] = [
    ("RESET", QpState::Reset),
    ("INIT", QpState::Init),
    ("RTR", QpState::Rtr),
    ("RTS", QpState::Rts),
    ("SQD", QpState::Sqd),
    ("SQE", QpState::Sqe),
    ("ERR", QpState::Err),
];

pub(crate) const SERVICES: [(&str, QpType); 5] = [
    ("RC", QpType::Rc),
    ("UC", QpType::Uc),
    ("UD", QpType::Ud),
    ("XRC_SEND", QpType::XrcSend),
    ("XRC_RECV", QpType::XrcRecv),
];

/// The names of `enum ibv_wc_status`, without what they begin with.
pub(crate) const STATUSES: [(&str, WcStatus); 22] = [
    ("SUCCESS", WcStatus::Success),
    ("LOC_LEN_ERR", WcStatus::LocLenErr),
    ("LOC_QP_OP_ERR", WcStatus::LocQpOpErr),
    ("LOC_EEC_OP_ERR", WcStatus::LocEecOpErr),
    ("LOC_PROT_ERR", WcStatus::LocProtErr),
    ("WR_FLUSH_ERR", WcStatus::WrFlushErr),
    ("MW_BIND_ERR", WcStatus::MwBindErr),
    ("BAD_RESP_ERR", WcStatus::BadRespErr),
    ("LOC_ACCESS_ERR", WcStatus::LocAccessErr),
    ("REM_INV_REQ_ERR", WcStatus::RemInvReqErr),
    ("REM_ACCESS_ERR", WcStatus::RemAccessErr),
    ("REM_OP_ERR", WcStatus::RemOpErr),
    ("RETRY_EXC_ERR", WcStatus::RetryExcErr),
    ("RNR_RETRY_EXC_ERR", WcStatus::RnrRetryExcErr),
    ("LOC_RDD_VIOL_ERR", WcStatus::LocRddViolErr),
    ("REM_INV_RD_REQ_ERR", WcStatus::RemInvRdReqErr),
    ("REM_ABORT_ERR", WcStatus::RemAbortErr),
    ("INV_EECN_ERR", WcStatus::InvEecnErr),
    ("INV_EEC_STATE_ERR", WcStatus::InvEecStateErr),
    ("FATAL_ERR", WcStatus::FatalErr),
    ("RESP_TIMEOUT_ERR", WcStatus::RespTimeoutErr),
    ("GENERAL_ERR", WcStatus::GeneralErr),
];

pub(crate) const FATES: [(&str, Fate); 9] = [
    ("Lost", Fate::Lost),
    ("Held", Fate::Held),
    ("Arrives", Fate::Arrives),
    ("Twice", Fate::Twice),
    ("NotReady", Fate::NotReady),
    ("PsnSequence", Fate::PsnSequence),
    ("InvalidRequest", Fate::InvalidRequest),
    ("RemoteAccess", Fate::RemoteAccess),
    ("RemoteOperational", Fate::RemoteOperational),
];

/// The value of a name.
pub(crate) fn named<T: Copy>(names: &[(&str, T)], name: &str) -> Option<T> {
    names
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| *value)
}

/// The name of a value.
pub(crate) fn name_of<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names
        .iter()
        .find(|(_, known)| *known == value)
        .map_or("?", |(name, _)| name)
}

/// The name of a request.
pub(crate) fn name_of_verb(verb: PostVerb) -> &'static str {
    name_of(&VERBS, verb)
}
