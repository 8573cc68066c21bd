//! Requests that are refused though nothing is wrong with them: what follows is what follows of a
//! real refusal.

use ferroce_sim::memory::Buffer;
use ferroce_sim::tester::{DUT, TT_PSN, Tester, reth};
use ferroce_transport::{Access, Injected, QpEvent, QpState, WcStatus};
use ferroce_wire::{Bth, Ext, NakCode, Packet, Syndrome, opcode};

const RW: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE);

fn packet(opcode: u8, psn: u32, ext: Ext, payload: &[u8]) -> Packet<'_> {
    Packet {
        bth: Bth {
            opcode,
            psn,
            dest_qp: DUT,
            ack_req: true,
            ..Bth::default()
        },
        info: opcode::info(opcode).unwrap(),
        ext,
        payload: payload.into(),
    }
}

fn refuse(t: &mut Tester, packet: &Packet<'_>, why: Injected) {
    assert!(t.qp.may_refuse(packet));
    t.qp.refuse_request(packet, why, &mut t.host);
}

/// A side with a receive request, and the memory that it is for.
fn receiving() -> (Tester, Buffer) {
    let mut t = Tester::new();
    let buffer = t.buffer(1000, RW);
    t.post_recv(1, buffer);
    (t, buffer)
}

fn send(psn: u32) -> Packet<'static> {
    packet(opcode::RC_SEND_ONLY, psn, Ext::default(), &[7; 100])
}

fn comes(t: &mut Tester, psn: u32, byte: u8) {
    let payload = [byte; 100];
    t.inject(opcode::RC_SEND_ONLY, psn, true, Ext::default(), &payload);
}

#[test]
fn a_request_that_is_not_ready_for_comes_again() {
    let (mut t, buffer) = receiving();
    refuse(&mut t, &send(TT_PSN), Injected::NotReady);
    let nak = t.one().syndrome();
    assert!(matches!(nak, Some(Syndrome::RnrNak { .. })), "{nak:?}");

    // What comes meanwhile is dropped, and the request itself is carried out when it comes again.
    comes(&mut t, TT_PSN + 1, 8);
    t.none();
    comes(&mut t, TT_PSN, 7);
    assert_eq!(t.recv_statuses(), [(1, WcStatus::Success)]);
    assert_eq!(t.bytes(buffer)[..100], [7; 100]);
    assert_eq!(t.qp.state(), QpState::Rts);
}

/// As when a receiver is late, so that the requester's probe comes with what it probes for.
#[test]
fn copies_that_come_together_are_refused_once() {
    let (mut t, _) = receiving();
    assert_eq!(t.qp.refusing(&send(TT_PSN)), None);
    refuse(&mut t, &send(TT_PSN), Injected::NotReady);
    assert_eq!(t.qp.refusing(&send(TT_PSN + 1)), None);
    assert_eq!(t.qp.refusing(&send(TT_PSN)), Some(Injected::NotReady));
    refuse(&mut t, &send(TT_PSN), Injected::NotReady);
    assert!(matches!(t.one().syndrome(), Some(Syndrome::RnrNak { .. })));

    // The answer has gone: another copy gets another.
    assert_eq!(t.qp.refusing(&send(TT_PSN)), None);
    refuse(&mut t, &send(TT_PSN), Injected::NotReady);
    assert!(matches!(t.one().syndrome(), Some(Syndrome::RnrNak { .. })));
}

/// What shows a gap may owe the same NAK by itself: the request that closes it is not refused.
#[test]
fn a_gap_that_closes_is_not_refused() {
    let (mut t, _) = receiving();
    comes(&mut t, TT_PSN + 1, 8);
    assert_eq!(t.qp.refusing(&send(TT_PSN)), None);
    let nak = t.one().nak();
    assert_eq!(nak, Some((NakCode::PsnSequenceError, TT_PSN)));
}

#[test]
fn a_sequence_error_asks_for_the_same_again() {
    let mut t = Tester::new();
    let buffer = t.buffer(1000, RW);
    let ext = reth(buffer.va, buffer.key, 100);
    let write = packet(opcode::RC_WRITE_ONLY, TT_PSN, ext, &[7; 100]);
    refuse(&mut t, &write, Injected::PsnSequence);
    let nak = t.one().nak();
    assert_eq!(nak, Some((NakCode::PsnSequenceError, TT_PSN)));
    t.inject(opcode::RC_WRITE_ONLY, TT_PSN, true, ext, &[7; 100]);
    assert_eq!(t.bytes(buffer)[..100], [7; 100]);
}

#[test]
fn errors_end_the_connection_as_real_ones_do() {
    for (why, code, event) in [
        (
            Injected::InvalidRequest,
            NakCode::InvalidRequest,
            QpEvent::ReqErr,
        ),
        (
            Injected::RemoteAccess,
            NakCode::RemoteAccessError,
            QpEvent::AccessErr,
        ),
        (
            Injected::RemoteOperational,
            NakCode::RemoteOperationalError,
            QpEvent::Fatal,
        ),
    ] {
        let mut t = Tester::new();
        let buffer = t.buffer(1000, RW);
        let before = t.bytes(buffer);
        t.post_recv(1, buffer);
        let ext = reth(buffer.va, buffer.key, 100);
        let write = packet(opcode::RC_WRITE_ONLY, TT_PSN, ext, &[7; 100]);
        refuse(&mut t, &write, why);
        assert_eq!(t.one().nak(), Some((code, TT_PSN)));
        assert_eq!((t.qp.state(), t.events()), (QpState::Err, &[event][..]));
        assert_eq!(t.recv_statuses(), [(1, WcStatus::WrFlushErr)]);
        assert_eq!(t.bytes(buffer), before);
    }
}

#[test]
fn only_what_is_expected_can_be_refused() {
    let mut t = Tester::new();
    assert!(t.qp.may_refuse(&send(TT_PSN)));
    assert!(!t.qp.may_refuse(&send(TT_PSN + 1)) && !t.qp.may_refuse(&send(TT_PSN - 1)));
    let other = packet(opcode::UC_SEND_ONLY, TT_PSN, Ext::default(), &[7; 100]);
    assert!(!t.qp.may_refuse(&other));
    t.go(QpState::Err);
    assert!(!t.qp.may_refuse(&send(TT_PSN)));
}
