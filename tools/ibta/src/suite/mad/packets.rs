//! Packets that are no MADs, or not whole: dropped before a management agent sees them.

use super::case::test;
use super::provoke;
use crate::catalog::{Mutant, Test};
use crate::mad::{SM_LID, Smp, Tester, lid_of, wire};
use crate::rig::Envelope;
use crate::run::{Outcome, Run};
use crate::sim::MadFaults;
use ferroce_wire::link::Head;
use ferroce_wire::mad::{LEN, Mad};
use ferroce_wire::smp::{attribute, method};
use ferroce_wire::{Bth, Deth, Ext, Header, Lrh, opcode};
use std::time::Duration;

/// Where the MAD begins in a packet without GRH: behind LRH, BTH and DETH.
const MAD_AT: usize = 8 + 12 + 8;

/// A packet with everything at will, and an ICRC that is right for it.
#[derive(Clone)]
struct Odd {
    lrh: Lrh,
    /// Words that the LRH says more than there are.
    more_words: i32,
    bth: Bth,
    deth: Deth,
    payload: Vec<u8>,
    /// Bits of the ICRC that are wrong.
    icrc: u32,
}

impl Odd {
    fn new(to: &Envelope, mad: &Mad) -> Odd {
        let ends = to.ends();
        Odd {
            lrh: to.head().lrh,
            more_words: 0,
            bth: Bth {
                opcode: opcode::UD_SEND_ONLY,
                pkey: ends.pkey,
                dest_qp: ends.dest_qp,
                ..Bth::default()
            },
            deth: Deth {
                qkey: ends.qkey,
                src_qp: ends.src_qp,
            },
            payload: mad.to_vec(),
            icrc: 0,
        }
    }

    fn emit(&self) -> Vec<u8> {
        let header = Header {
            bth: self.bth,
            ext: Ext {
                deth: Some(self.deth),
                ..Ext::default()
            },
        };

        // The opcode decides what is written, so headers go out as those of a datagram, whatever it
        // says.
        let mut transport = vec![0; 20];
        let datagram = Header {
            bth: Bth {
                opcode: opcode::UD_SEND_ONLY,
                ..header.bth
            },
            ..header
        };
        datagram.emit(&mut transport);
        transport[0] = self.bth.opcode;
        let len = transport.len() + self.payload.len() + 4;
        let head = Head {
            lrh: self.lrh,
            grh: None,
        };
        let mut packet = vec![0; head.len()];
        let said = len as i32 + 4 * self.more_words;
        let mut icrc = head.emit(said as usize, &mut packet);
        icrc.header(&transport);
        icrc.payload(&self.payload);
        packet.extend(transport);
        packet.extend(&self.payload);
        let right = u32::from_be_bytes(icrc.finish());
        packet.extend((right ^ self.icrc).to_be_bytes());
        packet
    }
}

/// What is wrong with a packet.
type Wrong = fn() -> Vec<(String, fn(&mut Odd, u8), u8)>;

pub(super) fn tests() -> Vec<Test> {
    let mut tests = link_layer();
    tests.extend(mads());
    tests
}

/// What is wrong with the link's header, the lane or the ICRC.
fn link_layer() -> Vec<Test> {
    vec![
        dropped(
            "C07_007_01",
            "C7-7",
            "another link version",
            "v1c07-007#01.03",
            0,
            || {
                (1..=15)
                    .map(|version| {
                        (
                            format!("LVer {version}"),
                            (|odd, version| odd.lrh.version = version) as fn(&mut Odd, u8),
                            version,
                        )
                    })
                    .collect()
            },
        ),
        dropped(
            "C07_007_02",
            "C7-7",
            "another length than the packet's",
            "v1c07-007#01.04",
            0,
            || {
                [1, 2, 255, 254]
                    .map(|words: u8| {
                        (
                            format!("PktLen is {} words off", words as i8),
                            (|odd, words| odd.more_words = (words as i8).into())
                                as fn(&mut Odd, u8),
                            words,
                        )
                    })
                    .into()
            },
        ),
        dropped(
            "S07_8_1_01",
            "7.8.1",
            "a wrong ICRC",
            "s7.8.1#01",
            0,
            || {
                [0, 7, 13, 31]
                    .map(|bit: u8| {
                        (
                            format!("bit {bit} of the ICRC is wrong"),
                            (|odd, bit| odd.icrc = 1 << bit) as fn(&mut Odd, u8),
                            bit,
                        )
                    })
                    .into()
            },
        ),
        dropped(
            "S13_5_1_01",
            "13.5.1",
            "an SMP on a data lane",
            "s13.5.1#01",
            0,
            || {
                (0..15)
                    .map(|vl| {
                        (
                            format!("VL {vl}"),
                            (|odd, vl| odd.lrh.vl = vl) as fn(&mut Odd, u8),
                            vl,
                        )
                    })
                    .collect()
            },
        ),
        dropped(
            "S13_5_1_02",
            "13.5.1",
            "a MAD for queue pair 1 on the management lane",
            "s13.5.1#02",
            1,
            || vec![("VL 15".to_owned(), |odd, vl| odd.lrh.vl = vl, 15)],
        ),
    ]
}

/// What is wrong with the transport header, or with the MAD's length.
fn mads() -> Vec<Test> {
    vec![
        dropped(
            "S13_4_2_01",
            "13.4.2",
            "another length than a MAD's",
            "s13.4.2#01",
            0,
            || {
                [0, 1, 32, 63, 65]
                    .map(|words: u8| {
                        (
                            format!("{} bytes of payload", 4 * u32::from(words)),
                            (|odd, words| odd.payload.resize(4 * usize::from(words), 0))
                                as fn(&mut Odd, u8),
                            words,
                        )
                    })
                    .into()
            },
        )
        .covers(&["C13-3"]),
        dropped(
            "S09_6_1_01",
            "9.6.1",
            "another operation than a datagram's SEND",
            "s9.6.1#mad-opcode",
            0,
            || {
                [
                    opcode::RC_SEND_ONLY,
                    opcode::UD_SEND_ONLY_IMM,
                    0x24,
                    0x7f,
                    0xe0,
                ]
                .map(|code| {
                    (
                        format!("opcode {code:#04x}"),
                        (|odd, code| odd.bth.opcode = code) as fn(&mut Odd, u8),
                        code,
                    )
                })
                .into()
            },
        ),
        dropped(
            "S09_6_1_02",
            "9.6.1",
            "another version of the transport header",
            "s9.6.1#mad-tver",
            0,
            || {
                [1, 2, 15]
                    .map(|version| {
                        (
                            format!("TVer {version}"),
                            (|odd, version| odd.bth.tver = version) as fn(&mut Odd, u8),
                            version,
                        )
                    })
                    .into()
            },
        ),
    ]
}

fn dropped(
    id: &'static str,
    statement: &'static str,
    title: &'static str,
    rule: &'static str,
    qp: u32,
    wrong: Wrong,
) -> Test {
    const GOOD: &str = "s13.5#whole";

    let body = move |run: &mut Run, tester: &mut Tester<'_>| -> Outcome {
        let mut sent = Vec::new();
        for (what, spoil, value) in wrong() {
            run.step("1", what);
            let (to, mad) = request(tester, qp);
            let mut odd = Odd::new(&to, &mad);
            spoil(&mut odd, value);
            sent.push(tester.send_packet(1, &odd.emit(), &mad)?);
        }

        run.step("2", "VerifyNoReceiveMad");
        tester.verify_none_received(run, rule, 1, &sent)?;
        run.step("3", "the same packet as it must be is answered");
        let (to, mad) = request(tester, qp);
        let sent = tester.send_packet(1, &Odd::new(&to, &mad).emit(), &mad)?;
        let answer = tester.receive_mad(1, &sent)?;
        run.check(
            GOOD,
            answer.is_some_and(|answer| answer.status() == 0),
            || format!("the answer is {answer:?}"),
        )
    };

    test(id, statement, format!("{title}: dropped"), body)
        .covers(&[statement])
        .asserts([rule, GOOD])
        .takes(Duration::from_secs(2))
        .mutant(Mutant::mad(
            "takes-anything",
            "whatever is wrong is overlooked",
            rule,
            move || {
                MadFaults::default().raw(move |packet| {
                    // The same MAD in a packet as it must be.
                    let mut mad: Mad = [0; LEN];
                    let end = packet.len().saturating_sub(4).min(MAD_AT + LEN);
                    if let Some(payload) = packet.get(MAD_AT..end) {
                        mad[..payload.len()].copy_from_slice(payload);
                    }
                    let dest_qp = u32::from(packet[15]);
                    if dest_qp == qp && wire::read(packet).is_err() {
                        let to = match qp {
                            0 => Envelope::directed(),
                            _ => Envelope::gmp(SM_LID, lid_of(1)),
                        };
                        *packet = wire::packet(&to, &mad);
                    }
                })
            },
        ))
}

/// A request that is answered if its packet is whole.
fn request(tester: &mut Tester<'_>, qp: u32) -> (Envelope, Mad) {
    match qp {
        0 => {
            let tid = tester.next_tid();
            (
                Envelope::directed(),
                Smp::get(attribute::NODE_INFO).emit(1, 0, tid),
            )
        }
        _ => (
            Envelope::gmp(SM_LID, lid_of(1)),
            provoke::perf(
                tester,
                method::GET,
                ferroce_wire::pma::attribute::CLASS_PORT_INFO,
            ),
        ),
    }
}
