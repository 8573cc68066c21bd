//! The table of transitions, service by service and attribute by attribute.

use ferroce_transport::state::{TRANSITIONS, check, transition};
use ferroce_transport::{ModifyError, QpAttrMask as M, QpState, QpType};
use std::collections::HashSet;

const STATES: [QpState; 7] = [
    QpState::Reset,
    QpState::Init,
    QpState::Rtr,
    QpState::Rts,
    QpState::Sqd,
    QpState::Sqe,
    QpState::Err,
];

const SERVICES: [QpType; 5] = [
    QpType::Rc,
    QpType::Uc,
    QpType::Ud,
    QpType::XrcSend,
    QpType::XrcRecv,
];

/// What ibv_modify_qp(3) says each service needs on the way to RTS, and the kernel's table for
/// those that it does not name.
#[test]
fn required_attributes_are_those_of_the_manual() {
    let init = M::PKEY_INDEX | M::PORT;
    let peer = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
    let responder = peer | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
    let requester = M::SQ_PSN | M::MAX_QP_RD_ATOMIC | M::RETRY_CNT | M::RNR_RETRY | M::TIMEOUT;
    let want = [
        (QpType::Rc, [init | M::ACCESS_FLAGS, responder, requester]),
        (QpType::Uc, [init | M::ACCESS_FLAGS, peer, M::SQ_PSN]),
        (QpType::Ud, [init | M::QKEY, M::empty(), M::SQ_PSN]),
        (QpType::XrcSend, [init | M::ACCESS_FLAGS, peer, requester]),
        (
            QpType::XrcRecv,
            [init | M::ACCESS_FLAGS, responder, M::SQ_PSN | M::TIMEOUT],
        ),
    ];

    for (service, masks) in want {
        for ((from, to), mask) in [
            (QpState::Reset, QpState::Init),
            (QpState::Init, QpState::Rtr),
            (QpState::Rtr, QpState::Rts),
        ]
        .into_iter()
        .zip(masks)
        {
            let row = transition(service, from, to).map(|t| t.required);
            assert_eq!(row, Some(mask), "{service:?} {from:?} {to:?}");
        }
    }
}

#[test]
fn each_missing_and_each_extra_attribute_is_named() {
    for (row, service) in TRANSITIONS
        .iter()
        .flat_map(|row| row.services.iter().map(move |service| (row, *service)))
    {
        assert!(
            std::ptr::eq(transition(service, row.from, row.to).unwrap(), row),
            "two rows for {service:?} {:?} {:?}",
            row.from,
            row.to
        );

        let allowed = row.required | row.optional;
        let verdict = |mask| check(service, row.from, row.to, mask | M::STATE);
        assert_eq!(verdict(row.required), Ok(()), "{row:?}");
        assert_eq!(verdict(allowed), Ok(()), "{row:?}");

        for bit in M::all().iter() {
            if row.required.contains(bit) {
                assert_eq!(
                    verdict(allowed - bit),
                    Err(ModifyError::Missing(bit)),
                    "{row:?}"
                );
            } else if !row.optional.contains(bit) && !(M::STATE | M::CUR_STATE).contains(bit) {
                assert_eq!(
                    verdict(allowed | bit),
                    Err(ModifyError::NotAllowed(bit)),
                    "{row:?}"
                );
            }
        }
    }
}

#[test]
fn there_are_no_other_transitions() {
    for service in SERVICES {
        let rows: HashSet<_> = TRANSITIONS
            .iter()
            .filter(|t| t.services.contains(&service))
            .map(|t| (t.from, t.to))
            .collect();

        for from in STATES {
            for to in STATES {
                let verdict = check(service, from, to, M::STATE);
                match to {
                    QpState::Reset | QpState::Err => assert_eq!(verdict, Ok(())),
                    _ if rows.contains(&(from, to)) => {}
                    _ => assert_eq!(verdict, Err(ModifyError::Transition { from, to })),
                }

                for bit in M::all()
                    .iter()
                    .filter(|b| !(M::STATE | M::CUR_STATE).contains(*b))
                {
                    if matches!(to, QpState::Reset | QpState::Err) {
                        let verdict = check(service, from, to, M::STATE | bit);
                        assert_eq!(verdict, Err(ModifyError::NotAllowed(bit)));
                    }
                }
            }
        }
    }
}
