//! Packets of one message in one piece: which go so, how they count, and what is taken so.

use ferroce_sim::tester::{DUT, DUT_PSN, Sent, TT_PSN, Tester, aeth};
use ferroce_transport::{Access, SendOp, WcStatus};
use ferroce_wire::{Bth, Ext, NakCode, Packet, Position, Reth, Stretch, Syndrome, opcode};

const MTU: u32 = 1024;

/// A queue pair whose way out takes stretches.
fn tester() -> Tester {
    let mut t = Tester::new();
    t.opts.stretch = 1 << 16;
    t
}

/// Posts a WRITE of so many bytes.
fn write(t: &mut Tester, wr_id: u64, len: u32) -> Vec<u8> {
    let buffer = t.buffer(len, Access::empty());
    let (va, rkey) = (0x1000, 7);
    t.post(wr_id, SendOp::Write { va, rkey }, buffer);
    t.bytes(buffer)
}

/// Opcode, PSN and length of what is sent.
fn sent(t: &mut Tester) -> Vec<(u8, u32, usize)> {
    let sent = t.sent();
    let each = |p: &Sent| (p.bth.opcode, p.bth.psn, p.payload.len());
    sent.iter().map(each).collect()
}

/// A stretch comes whose packets are of `mtu` bytes; whether it is taken so.
fn comes(t: &mut Tester, opcode: u8, psn: u32, mtu: u32, ext: Ext, payload: &[u8]) -> bool {
    let packet = Packet {
        bth: Bth {
            opcode,
            psn,
            ack_req: true,
            dest_qp: DUT,
            pad: Bth::pad_for(payload.len()),
            ..Bth::default()
        },
        info: opcode::info(opcode).unwrap(),
        ext,
        payload: payload.into(),
    };
    let stretch = Stretch::new(packet, mtu as u16).unwrap();
    t.qp.receive_stretch(t.now, &stretch, &mut t.host)
}

/// PSN and message number of an acknowledgement, and whether it is an ACK.
fn answer(sent: &Sent) -> (u32, u32, bool) {
    let aeth = sent.ext.aeth.unwrap();
    let is_ack = matches!(aeth.kind(), Syndrome::Ack(_));
    (sent.bth.psn, aeth.msn, is_ack)
}

fn reth(va: u64, rkey: u32, len: usize) -> Ext {
    Ext {
        reth: Some(Reth {
            va,
            rkey,
            len: len as u32,
        }),
        ..Ext::default()
    }
}

#[test]
fn a_message_goes_in_one_piece_and_counts_as_its_packets() {
    let mut t = tester();
    let bytes = write(&mut t, 1, 3 * MTU - 5);
    let one = t.one();
    assert_eq!(one.bth.opcode, opcode::RC_WRITE_ONLY);
    assert_eq!((one.bth.psn, one.payload), (DUT_PSN, bytes));
    assert_eq!(one.ext.reth.unwrap().len, 3 * MTU - 5);
    assert_eq!(t.qp.packets_in_flight(), 3);

    t.ack(DUT_PSN + 2, 1);
    assert_eq!(t.host.sends.last().unwrap().status, WcStatus::Success);
    write(&mut t, 2, MTU);
    assert_eq!(sent(&mut t), [(opcode::RC_WRITE_ONLY, DUT_PSN + 3, 1024)]);
}

#[test]
fn a_long_message_goes_in_several_pieces() {
    let mut t = tester();
    t.opts.stretch = 2 * MTU;
    write(&mut t, 1, 5 * MTU + 1);
    let expected = [
        (opcode::RC_WRITE_FIRST, DUT_PSN, 2048),
        (opcode::RC_WRITE_MIDDLE, DUT_PSN + 2, 2048),
        (opcode::RC_WRITE_LAST, DUT_PSN + 4, 1025),
    ];
    assert_eq!(sent(&mut t), expected);
}

#[test]
fn a_piece_is_no_longer_than_the_window_has_room_for() {
    let mut t = tester();
    t.opts.window = 2 * MTU;
    write(&mut t, 1, 3 * MTU);
    assert_eq!(sent(&mut t), [(opcode::RC_WRITE_FIRST, DUT_PSN, 2048)]);
    t.ack(DUT_PSN + 1, 0);
    assert_eq!(sent(&mut t), [(opcode::RC_WRITE_LAST, DUT_PSN + 2, 1024)]);
}

#[test]
fn what_is_sent_again_goes_packet_by_packet() {
    let mut t = tester();
    write(&mut t, 1, 3 * MTU);
    t.one();
    t.answer(Syndrome::Nak(NakCode::PsnSequenceError), DUT_PSN + 1, 0);
    let expected = [
        (opcode::RC_WRITE_MIDDLE, DUT_PSN + 1, 1024),
        (opcode::RC_WRITE_LAST, DUT_PSN + 2, 1024),
    ];
    assert_eq!(sent(&mut t), expected);
}

#[test]
fn the_answer_to_a_read_goes_in_one_piece() {
    let mut t = tester();
    let source = t.buffer(3 * MTU, Access::REMOTE_READ);
    let ext = reth(source.va, source.key, 3 * MTU as usize);
    t.inject(opcode::RC_READ_REQUEST, TT_PSN, true, ext, &[]);
    let expected = [(opcode::RC_READ_RESPONSE_ONLY, TT_PSN, 3072)];
    assert_eq!(sent(&mut t), expected);

    // Asked for again, it goes by packets.
    t.inject(opcode::RC_READ_REQUEST, TT_PSN, true, ext, &[]);
    assert_eq!(t.sent().len(), 3);
}

#[test]
fn the_requests_that_are_expected_are_taken_in_one_piece() {
    let mut t = tester();
    let target = t.buffer(3 * MTU, Access::REMOTE_WRITE | Access::LOCAL_WRITE);
    let data: Vec<u8> = (0..3 * MTU).map(|i| (i * 7) as u8).collect();
    let ext = reth(target.va, target.key, data.len());
    assert!(comes(
        &mut t,
        opcode::RC_WRITE_ONLY,
        TT_PSN,
        MTU,
        ext,
        &data
    ));
    assert_eq!(t.bytes(target), data);
    assert_eq!(answer(&t.one()), (TT_PSN + 2, 1, true));

    let buffer = t.buffer(3 * MTU, Access::LOCAL_WRITE);
    t.post_recv(9, buffer);
    let none = Ext::default();
    let (first, rest) = data.split_at(2 * MTU as usize);
    assert!(comes(
        &mut t,
        opcode::RC_SEND_FIRST,
        TT_PSN + 3,
        MTU,
        none,
        first
    ));
    assert!(comes(
        &mut t,
        opcode::RC_SEND_LAST,
        TT_PSN + 5,
        MTU,
        none,
        rest
    ));
    assert_eq!(t.bytes(buffer), data);
    assert_eq!(t.host.receives.last().unwrap().wr_id, 9);
    assert_eq!(t.qp.expected_psn(), TT_PSN + 6);
}

#[test]
fn what_is_not_expected_is_not_taken_so_and_nothing_happens() {
    let mut t = tester();
    let target = t.buffer(3 * MTU, Access::REMOTE_WRITE | Access::LOCAL_WRITE);
    let before = t.bytes(target);
    let data = vec![1; 3 * MTU as usize];
    let ext = reth(target.va, target.key, data.len());
    let write = opcode::RC_WRITE_ONLY;
    for (psn, mtu) in [(TT_PSN + 1, MTU), (TT_PSN - 1, MTU), (TT_PSN, 512)] {
        assert!(!comes(&mut t, write, psn, mtu, ext, &data), "{psn} {mtu}");
    }
    // Of another service.
    assert!(!comes(&mut t, 0x20 | write, TT_PSN, MTU, ext, &data));
    t.none();
    assert_eq!(t.bytes(target), before);
    assert_eq!(t.qp.expected_psn(), TT_PSN);
    assert!(t.notes().is_empty() && t.events().len() <= 1);
}

#[test]
fn a_stretch_of_another_length_than_its_place_allows_is_refused() {
    // C9-92: all packets but the last are as long as the path MTU allows.
    let mut t = tester();
    let target = t.buffer(4 * MTU, Access::REMOTE_WRITE | Access::LOCAL_WRITE);
    let data = vec![1; 2 * MTU as usize + 4];
    let ext = reth(target.va, target.key, 4 * MTU as usize);
    let first = opcode::info(opcode::RC_WRITE_FIRST).unwrap();
    assert_eq!(first.position, Position::First);
    assert!(comes(&mut t, first.opcode, TT_PSN, MTU, ext, &data));
    let nak = t.one();
    assert_eq!(answer(&nak), (TT_PSN, 0, false));
    let code = Syndrome::Nak(NakCode::InvalidRequest);
    assert_eq!(nak.ext.aeth.unwrap().kind(), code);
}

#[test]
fn the_responses_that_are_awaited_are_taken_in_one_piece() {
    let mut t = tester();
    let buffer = t.buffer(5 * MTU, Access::LOCAL_WRITE);
    t.post(
        1,
        SendOp::Read {
            va: 0x1000,
            rkey: 7,
        },
        buffer,
    );
    assert_eq!(t.sent().len(), 1);
    let data: Vec<u8> = (0..5 * MTU).map(|i| (i * 11) as u8).collect();
    let ext = aeth(1);
    let (first, last) = (
        opcode::RC_READ_RESPONSE_FIRST,
        opcode::RC_READ_RESPONSE_LAST,
    );
    let (begin, end) = data.split_at(3 * MTU as usize);
    // Beyond what is awaited, and not the next.
    let long = [&data[..], &data[..1024]].concat();
    assert!(!comes(&mut t, first, DUT_PSN, MTU, ext, &long));
    assert!(!comes(&mut t, last, DUT_PSN + 3, MTU, ext, end));

    assert!(comes(&mut t, first, DUT_PSN, MTU, ext, begin));
    assert_eq!(t.qp.packets_in_flight(), 2);
    assert!(comes(&mut t, last, DUT_PSN + 3, MTU, ext, end));
    assert_eq!(t.bytes(buffer), data);
    assert_eq!(t.host.sends.last().unwrap().status, WcStatus::Success);
    assert!(!t.qp.has_requests_in_flight());
}

/// A message comes that wants an answer, and a WRITE of so many bytes follows. Where the ACK is
/// among the packets that go out then, and how many they are.
fn ack_beside(t: &mut Tester, n: u32, len: u32) -> (usize, usize) {
    let buffer = t.buffer(10, Access::LOCAL_WRITE);
    t.post_recv(0, buffer);
    let (send, psn) = (opcode::RC_SEND_ONLY, TT_PSN + n);
    t.inject(send, psn, true, Ext::default(), &[0; 10]);
    let mut sent = t.sent();
    write(t, 1, len);
    sent.extend(t.sent());
    let is_ack = |p: &Sent| p.bth.opcode == opcode::RC_ACKNOWLEDGE;
    let at = sent.iter().position(is_ack).expect("an ACK");
    let last = sent.iter().rfind(|p| !is_ack(p)).expect("a request");
    t.ack(last.bth.psn, n + 1);
    (at, sent.len())
}

/// `ib_write_lat` of 16 KiB within a device took 260 us: who had seen his own request complete by
/// an ACK that came first looked at memory only, and received nothing.
#[test]
fn an_ack_goes_out_right_behind_a_long_request() {
    let mut t = Tester::new();
    t.opts.flush_acks = false;
    t.opts.window = 1 << 20;
    // An answer is not expected until there were some.
    assert_eq!(ack_beside(&mut t, 0, 1_000), (0, 2));
    let mut n = 1;
    while ack_beside(&mut t, n, 1_000) == (0, 2) {
        n += 1;
        assert!(n < 100);
    }

    let mut ack = |t: &mut Tester, len| {
        n += 1;
        ack_beside(t, n, len)
    };
    assert_eq!(ack(&mut t, 1_000), (1, 2));
    assert_eq!(ack(&mut t, 40 * MTU), (40, 41));

    t.opts.stretch = 1 << 16;
    assert_eq!(ack(&mut t, 1_000), (1, 2));
    assert_eq!(ack(&mut t, 40 * MTU), (1, 2));
}
