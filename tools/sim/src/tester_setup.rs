//! What a tester's queue pair is made with: numbers, attributes, capacities, and its way to RTS.

use ferroce_transport::state::transition;
use ferroce_transport::{
    Access, EarlyMemory, QpAttr, QpAttrMask, QpCap, QpConfig, QpState, QpType,
};

/// Where queue pairs under test keep what comes early.
static EARLY: EarlyMemory = EarlyMemory::new(1 << 24);

/// Number of the queue pair under test.
pub const DUT: u32 = 0x00_0d17;
/// Number of the tester's.
pub const TT: u32 = 0x00_0777;
/// First PSN that the queue pair under test sends.
pub const DUT_PSN: u32 = 0xff_fff0;
/// Q_Key of a datagram queue pair under test.
pub const QKEY: u32 = 0x1111_2222;
/// What the GRH of an injected datagram is made of.
pub const GRH_BYTE: u8 = 0x47;
/// First PSN that the tester sends.
pub const TT_PSN: u32 = 0x00_1000;

/// Attributes that a tester connects with unless told otherwise.
pub fn usual() -> QpAttr {
    QpAttr {
        path_mtu: 1024,
        sq_psn: DUT_PSN,
        rq_psn: TT_PSN,
        dest_qp_num: TT,
        qp_access_flags: Access::REMOTE_READ
            | Access::REMOTE_WRITE
            | Access::REMOTE_ATOMIC
            | Access::FLUSH_GLOBAL
            | Access::FLUSH_PERSISTENT,
        max_rd_atomic: 4,
        max_dest_rd_atomic: 4,
        min_rnr_timer: 12,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
        port_num: 1,
        qkey: QKEY,
        ..QpAttr::default()
    }
}

/// Capacities that a tester has unless told otherwise.
pub const CAP: QpCap = QpCap {
    max_send_wr: 16,
    max_recv_wr: 16,
    max_send_sge: 3,
    max_recv_sge: 3,
    max_inline_data: 64,
};

/// Masks of RESET to INIT, INIT to RTR and RTR to RTS for a reliable connection.
pub fn ladder() -> [(QpState, QpAttrMask); 3] {
    ladder_of(QpType::Rc)
}

/// The same for any service.
pub fn ladder_of(service: QpType) -> [(QpState, QpAttrMask); 3] {
    let step = |from, to| {
        let row = transition(service, from, to).expect("every service has the way to RTS");
        (to, row.required | QpAttrMask::STATE)
    };
    [
        step(QpState::Reset, QpState::Init),
        step(QpState::Init, QpState::Rtr),
        step(QpState::Rtr, QpState::Rts),
    ]
}

/// What the queue pair under test is made with.
pub(crate) fn config(service: QpType, attr: &QpAttr, srq: bool) -> QpConfig {
    QpConfig {
        qpn: DUT,
        qp_type: service,
        cap: CAP,
        srq,
        mtu: attr.path_mtu,
        seed: 5,
        ..QpConfig::default()
    }
}

/// The same of one that understands selective acknowledgements.
pub(crate) fn understanding(service: QpType, attr: &QpAttr, srq: bool) -> QpConfig {
    QpConfig {
        selective: Some(&EARLY),
        ..config(service, attr, srq)
    }
}
