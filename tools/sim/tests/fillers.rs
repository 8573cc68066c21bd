//! Packets that are filled up to one length: between whom, which, and what becomes of them.

use ferroce_sim::tester::{DUT_PSN, Sent, TT_PSN, Tester, aeth, ladder, usual};
use ferroce_transport::{Access, QpAttr, QpState, QpType, SendOp};
use ferroce_wire::{Ext, Filler, Header, NakCode, Reth, opcode};

const MTU: u32 = 1024;

/// A queue pair whose port prefers packets of one length, and whose peer is a stranger.
fn tester() -> Tester {
    let mut t = Tester::new();
    t.opts.fill = true;
    t
}

/// Bits of what was sent, in order.
fn bits(sent: &[Sent]) -> Vec<bool> {
    sent.iter().map(|p| p.bth.filled).collect()
}

/// Posts a WRITE of so many bytes; the bits of its packets.
fn write(t: &mut Tester, wr_id: u64, len: u32) -> Vec<bool> {
    let buffer = t.buffer(len, Access::empty());
    let (va, rkey) = (0x1000, 7);
    t.post(wr_id, SendOp::Write { va, rkey }, buffer);
    bits(&t.sent())
}

/// A READ request for so many bytes comes as the `n`th message; the bits of the answer's packets.
fn read(t: &mut Tester, n: u32, len: u32) -> Vec<bool> {
    let source = t.buffer(len, Access::REMOTE_READ);
    let reth = Some(Reth {
        va: source.va,
        rkey: source.key,
        len,
    });
    let ext = Ext {
        reth,
        ..Ext::default()
    };
    t.inject(opcode::RC_READ_REQUEST, TT_PSN + n, true, ext, &[]);
    bits(&t.sent())
}

#[test]
fn a_stranger_is_shown_nothing_whatever_its_reserved_bits_are() {
    let mut t = tester();
    t.peer_fills = true;
    assert_eq!(write(&mut t, 1, 4 * MTU), [false; 4]);
    t.ack(DUT_PSN + 3, 1);
    assert_eq!(write(&mut t, 2, 4 * MTU), [false; 4]);
    assert_eq!(read(&mut t, 0, 3 * MTU), [false; 3]);
}

#[test]
fn packets_are_filled_once_the_peer_has_shown_that_it_understands() {
    let mut t = Tester::new().filling();
    let shown = [true, false, false, false];
    assert_eq!(write(&mut t, 1, 4 * MTU), shown, "that this side does");
    t.ack(DUT_PSN + 3, 1);
    assert_eq!(write(&mut t, 2, 4 * MTU), shown, "an older one");

    t.peer_fills = true;
    t.ack(DUT_PSN + 7, 2);
    assert_eq!(write(&mut t, 3, 4 * MTU), [true; 4]);
    let short_last = [true, true, true, false];
    assert_eq!(write(&mut t, 4, 3 * MTU + 4), short_last);
    assert_eq!(write(&mut t, 5, MTU), [true]);

    // Where the port has no use for it.
    t.opts.fill = false;
    assert_eq!(write(&mut t, 6, 4 * MTU), shown);
}

#[test]
fn answers_are_filled_for_a_requester_that_has_shown_that_it_understands() {
    let mut t = Tester::new().filling();
    assert_eq!(read(&mut t, 0, 4 * MTU), [true, false, false, false]);
    t.peer_fills = true;
    // The last has an AETH, as the first has, and is as long by itself.
    assert_eq!(read(&mut t, 4, 4 * MTU), [true, true, true, false]);
    // What its requester understands says nothing of its responder.
    t.peer_fills = false;
    assert_eq!(write(&mut t, 1, 2 * MTU), [true, false]);
}

/// Two messages of so many bytes are posted before either is sent: how many bytes fill each packet.
/// The bit says so where it says anything of the packet.
fn two(t: &mut Tester, wr_id: u64, op: SendOp, len: u32) -> Vec<u16> {
    let buffer = t.buffer(len, Access::empty());
    t.post(wr_id, op, buffer);
    t.post(wr_id + 1, op, buffer);
    let sent = t.sent();
    for packet in sent.iter().filter(|p| p.info.filler != Filler::None) {
        assert_eq!(packet.bth.filled, packet.filler > 0, "{packet:?}");
        // What follows is a whole number of words.
        let tail = usize::from(packet.bth.pad) + usize::from(packet.filler);
        assert_eq!((packet.payload.len() + tail) % 4, 0, "{packet:?}");
    }
    sent.iter().map(|packet| packet.filler).collect()
}

/// A queue pair whose peer has shown that it understands filled packets.
fn known() -> Tester {
    let mut t = Tester::new().filling();
    t.peer_fills = true;
    write(&mut t, 0, 1);
    t.ack(DUT_PSN, 1);
    t
}

#[test]
fn a_short_last_packet_is_filled_where_another_message_follows() {
    let (va, rkey, imm) = (0x1000, 7, [9; 4]);
    let room = MTU as u16;
    // The packets of a message are as long as its first, whatever their headers.
    let cases = [
        (SendOp::Write { va, rkey }, [0, 16, room + 16 - 5]),
        (
            SendOp::WriteWithImm { va, rkey, imm },
            [0, 16, room + 12 - 5],
        ),
        (SendOp::Send, [0, 0, room - 5]),
        (SendOp::SendWithImm(imm), [0, 0, room - 4 - 5]),
    ];
    for (op, [first, middle, last]) in cases {
        let mut t = known();
        let expected = [first, middle, last, first, middle, 0];
        assert_eq!(two(&mut t, 1, op, 2 * MTU + 5), expected, "{op:?}");
    }
}

#[test]
fn a_line_carries_no_filler_of_short_packets() {
    let mut t = known();
    t.qp.expect_filled(false);
    let write = SendOp::Write {
        va: 0x1000,
        rkey: 7,
    };
    assert_eq!(two(&mut t, 1, write, 2 * MTU + 5), [0, 16, 0, 0, 16, 0]);
    assert_eq!(two(&mut t, 3, write, 2 * MTU), [0, 16, 0, 16]);
}

#[test]
fn a_last_packet_without_room_for_the_count_is_as_it_was() {
    let mut t = known();
    assert_eq!(two(&mut t, 1, SendOp::Send, 2 * MTU - 4), [0, 4, 0, 0]);
    assert_eq!(two(&mut t, 3, SendOp::Send, 2 * MTU - 3), [0; 4]);
    let imm = SendOp::SendWithImm([9; 4]);
    assert_eq!(two(&mut t, 5, imm, 2 * MTU - 8), [0, 4, 0, 0]);
    assert_eq!(two(&mut t, 7, imm, 2 * MTU - 7), [0; 4]);
    assert_eq!(two(&mut t, 9, SendOp::Send, MTU - 5), [0; 2], "one packet");
}

#[test]
fn what_fills_a_last_packet_counts_in_the_window() {
    let mut t = known();
    t.opts.window = 5 * MTU;
    // Four messages of a few more bytes than one packet fit without, and two and a half with it.
    let buffer = t.buffer(MTU + 4, Access::empty());
    for wr_id in 1..=4 {
        t.post(wr_id, SendOp::Send, buffer);
    }
    assert_eq!(t.sent().len(), 5);
}

#[test]
fn a_short_last_response_is_filled_where_another_follows() {
    let mut t = Tester::new().filling();
    t.peer_fills = true;
    let source = t.buffer(MTU + 5, Access::REMOTE_READ);
    let ext = Ext {
        reth: Some(Reth {
            va: source.va,
            rkey: source.key,
            len: MTU + 5,
        }),
        ..Ext::default()
    };
    for n in [0, 2] {
        t.inject(opcode::RC_READ_REQUEST, TT_PSN + n, true, ext, &[]);
    }
    let fillers: Vec<_> = t.sent().iter().map(|packet| packet.filler).collect();
    assert_eq!(fillers, [0, MTU as u16 - 5, 0, 0]);
}

#[test]
fn what_fills_a_last_packet_is_not_received() {
    let mut t = Tester::new().filling();
    t.peer_fills = true;
    let target = t.buffer(2 * MTU, Access::LOCAL_WRITE);
    t.post_recv(1, target);
    let mut expected = t.bytes(target);
    let last = opcode::RC_SEND_LAST;
    let mut header = Header::default();
    header.bth.opcode = last;
    let mut payload = vec![0; MTU as usize];
    let before = header.emit_count(MTU as u16 - 5, &mut payload);
    payload[before..][..5].fill(3);

    let first = [1; MTU as usize];
    t.inject(opcode::RC_SEND_FIRST, TT_PSN, false, Ext::default(), &first);
    t.inject(last, TT_PSN + 1, true, Ext::default(), &payload);
    expected[..MTU as usize].fill(1);
    expected[MTU as usize..][..5].fill(3);
    assert_eq!(t.bytes(target), expected);
    assert_eq!(t.receives()[0].byte_len, MTU + 5);
}

#[test]
fn a_count_that_cannot_be_is_none() {
    // More than there is, and so many that nothing is left of the message's end: a peer of our kind
    // that says so sends what it says as payload.
    for count in [MTU as u16, MTU as u16 + 1, u16::MAX, 3, 0] {
        let mut t = Tester::new().filling();
        t.peer_fills = true;
        let target = t.buffer(2 * MTU, Access::LOCAL_WRITE);
        t.post_recv(1, target);
        let mut payload = [3; MTU as usize];
        payload[..2].copy_from_slice(&count.to_be_bytes());
        let first = [1; MTU as usize];
        t.inject(opcode::RC_SEND_FIRST, TT_PSN, false, Ext::default(), &first);
        let last = opcode::RC_SEND_LAST;
        t.inject(last, TT_PSN + 1, true, Ext::default(), &payload);
        assert_eq!(t.receives()[0].byte_len, 2 * MTU, "{count}");
    }
}

#[test]
fn what_fills_a_write_is_not_written() {
    let mut t = Tester::new().filling();
    t.peer_fills = true;
    let target = t.buffer(3 * MTU, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
    let before = t.bytes(target);
    let reth = Reth {
        va: target.va,
        rkey: target.key,
        len: 2 * MTU + 8,
    };
    let first = Ext {
        reth: Some(reth),
        ..Ext::default()
    };
    let piece = |byte: u8, filler: usize| {
        let mut bytes = vec![byte; MTU as usize];
        bytes.resize(bytes.len() + filler, 0);
        bytes
    };
    let (begin, middle) = (opcode::RC_WRITE_FIRST, opcode::RC_WRITE_MIDDLE);
    t.inject(begin, TT_PSN, false, first, &piece(1, 0));
    t.inject(middle, TT_PSN + 1, false, Ext::default(), &piece(2, 16));
    let last = opcode::RC_WRITE_LAST;
    t.peer_fills = false;
    t.inject(last, TT_PSN + 2, true, Ext::default(), &[3; 8]);

    let mut expected = before;
    expected[..MTU as usize].fill(1);
    expected[MTU as usize..2 * MTU as usize].fill(2);
    expected[2 * MTU as usize..2 * MTU as usize + 8].fill(3);
    assert_eq!(t.bytes(target), expected);
    assert_eq!(t.one().bth.opcode, opcode::RC_ACKNOWLEDGE);
}

#[test]
fn what_fills_an_answer_is_not_placed() {
    let mut t = Tester::new().filling();
    let target = t.buffer(3 * MTU, Access::LOCAL_WRITE);
    let (va, rkey) = (0x1000, 7);
    t.post(1, SendOp::Read { va, rkey }, target);
    assert!(t.one().bth.filled, "that this side understands");

    t.peer_fills = true;
    let mut middle = vec![2; MTU as usize];
    middle.extend([0; 4]);
    let answers: [(u8, Ext, &[u8], bool); 3] = [
        (
            opcode::RC_READ_RESPONSE_FIRST,
            aeth(1),
            &[1; MTU as usize],
            true,
        ),
        (
            opcode::RC_READ_RESPONSE_MIDDLE,
            Ext::default(),
            &middle,
            true,
        ),
        (
            opcode::RC_READ_RESPONSE_LAST,
            aeth(1),
            &[3; MTU as usize],
            false,
        ),
    ];
    for (psn, (opcode, ext, payload, filled)) in (DUT_PSN..).zip(answers) {
        t.peer_fills = filled;
        t.inject(opcode, psn, false, ext, payload);
    }
    let expected: Vec<u8> = (1..=3).flat_map(|byte| [byte; MTU as usize]).collect();
    assert_eq!(t.bytes(target), expected);
}

#[test]
fn a_stranger_s_packet_that_is_too_long_is_refused() {
    let mut t = tester();
    t.peer_fills = true;
    let target = t.buffer(2 * MTU, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
    let reth = Reth {
        va: target.va,
        rkey: target.key,
        len: 2 * MTU,
    };
    let first = Ext {
        reth: Some(reth),
        ..Ext::default()
    };
    let payload = [0; MTU as usize + 16];
    let begin = opcode::RC_WRITE_FIRST;
    t.inject(begin, TT_PSN, false, first, &payload[..MTU as usize]);
    let last = opcode::RC_WRITE_LAST;
    t.inject(last, TT_PSN + 1, true, Ext::default(), &payload);
    let refused = Some((NakCode::InvalidRequest, TT_PSN + 1));
    assert_eq!(t.one().nak(), refused);
}

#[test]
fn after_a_reset_the_peer_is_a_stranger() {
    let mut t = Tester::new().filling();
    t.peer_fills = true;
    write(&mut t, 1, 2 * MTU);
    t.ack(DUT_PSN + 1, 1);
    t.go(QpState::Reset);
    for (qp_state, mask) in ladder() {
        let attr = QpAttr {
            qp_state,
            ..usual()
        };
        t.modify(&attr, mask).expect("the way to RTS");
    }
    assert_eq!(write(&mut t, 2, 2 * MTU), [false; 2]);
}

#[test]
fn unreliable_services_fill_nothing() {
    let mut t = Tester::service(QpType::Uc).filling();
    assert_eq!(write(&mut t, 1, 3 * MTU), [false; 3]);
}
