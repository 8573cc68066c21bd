//! Tests of `opcode`.

use super::*;
use crate::MAX_HEADER;

#[test]
fn rows_agree_with_themselves() {
    for row in all() {
        assert_eq!(info(row.opcode), Some(row));
        let base = match row.service {
            Service::Rc => 0x00,
            Service::Uc => 0x20,
            Service::Ud => 0x60,
            Service::Cnp => 0x80,
            Service::Xrc => 0xa0,
        };
        let base = match row.operation {
            Operation::SelectiveAcknowledge => base | 0xc0,
            _ => base,
        };
        assert_eq!(row.opcode & 0xe0, base, "{}", row.name);
        assert!(usize::from(row.header_len) <= MAX_HEADER);
        assert_eq!(
            row.headers.contains(HeaderSet::DETH),
            row.service == Service::Ud
        );

        assert_eq!(
            row.headers.contains(HeaderSet::XRCETH),
            row.service == Service::Xrc && row.is_request()
        );

        assert_eq!(
            matches!(row.position, Position::First | Position::Middle),
            row.payload == PayloadRule::Full,
            "{}",
            row.name
        );
    }

    assert_eq!(all().count(), 26 + 12 + 2 + 1 + 25);
    assert_eq!(
        all().map(|r| usize::from(r.header_len)).max(),
        Some(MAX_HEADER)
    );
}

#[test]
fn with_their_filler_the_packets_of_a_message_are_of_one_length() {
    let whole = |opcode| {
        let row = info(opcode).expect("a row");
        row.header_len as i8 + row.filler.shorter()
    };
    let alike: [&[u8]; 5] = [
        &[
            RC_SEND_FIRST,
            RC_SEND_MIDDLE,
            RC_SEND_LAST,
            RC_SEND_LAST_IMM,
            RC_SEND_LAST_INV,
        ],
        &[
            RC_WRITE_FIRST,
            RC_WRITE_MIDDLE,
            RC_WRITE_LAST,
            RC_WRITE_LAST_IMM,
        ],
        &[
            RC_READ_RESPONSE_FIRST,
            RC_READ_RESPONSE_MIDDLE,
            RC_READ_RESPONSE_LAST,
        ],
        &[
            XRC_WRITE_FIRST,
            XRC_WRITE_MIDDLE,
            XRC_WRITE_LAST,
            XRC_WRITE_LAST_IMM,
        ],
        &[
            XRC_READ_RESPONSE_FIRST,
            XRC_READ_RESPONSE_MIDDLE,
            XRC_READ_RESPONSE_LAST,
        ],
    ];
    for opcodes in alike {
        let first = whole(opcodes[0]);
        assert!(opcodes.iter().all(|&opcode| whole(opcode) == first));
    }
    // Those that begin a message say that their sender understands filled packets, and nobody else
    // fills any.
    let reliable = |row: &OpcodeInfo| matches!(row.service, Service::Rc | Service::Xrc);
    assert!(all().all(|row| row.filler == Filler::None || !row.begins() && reliable(row)));
}

#[test]
fn uc_and_xrc_repeat_rc() {
    // ATOMIC WRITE came later, and for RC.
    for rc in all().filter(|r| r.service == Service::Rc && r.opcode != RC_ATOMIC_WRITE) {
        let xrc = info(rc.opcode | 0xa0).expect(rc.name);
        assert_eq!(
            (xrc.operation, xrc.position, xrc.payload),
            (rc.operation, rc.position, rc.payload)
        );
        assert_eq!(xrc.headers - HeaderSet::XRCETH, rc.headers);
        assert_eq!(xrc.name, format!("X{}", rc.name));
        if let Some(uc) = info(rc.opcode | 0x20) {
            assert_eq!(
                (uc.operation, uc.position, uc.payload),
                (rc.operation, rc.position, rc.payload)
            );
            assert_eq!(uc.headers, rc.headers);
        }
    }
}

#[test]
fn reserved_opcodes_have_no_row() {
    for opcode in [
        0x15, 0x18, 0x1f, 0x2c, 0x3c, 0x40, 0x60, 0x66, 0x7c, 0x80, 0xb5, 0xb8, 0xc0, 0xff,
    ] {
        assert_eq!(info(opcode), None, "{opcode:#x}");
    }
}

#[test]
fn docs_wire_md_has_the_same_table() {
    let page = include_str!("../../../docs/wire.md");
    for row in all().filter(|r| r.service != Service::Xrc) {
        let names = row.headers.iter().map(|h| match h {
            HeaderSet::DETH => "DETH",
            HeaderSet::FETH => "FETH",
            HeaderSet::RETH => "RETH",
            HeaderSet::ATOMIC => "AtomicETH",
            HeaderSet::AETH => "AETH",
            HeaderSet::ATOMIC_ACK => "AtomicAckETH",
            HeaderSet::IMM => "ImmDt",
            _ => "IETH",
        });

        let names: Vec<_> = names.collect();
        let headers = if names.is_empty() {
            "–".into()
        } else {
            names.join(", ")
        };

        let payload = match row.payload {
            PayloadRule::None => "none",
            PayloadRule::Full => "PMTU",
            PayloadRule::Some => "1–PMTU",
            PayloadRule::Any => "0–PMTU",
            PayloadRule::Word8 => "8",
            PayloadRule::Words => "4–256",
            PayloadRule::Reserved16 => "16, reserved",
        };

        let line = format!(
            "| `{:#04x}` | {} | {headers} | {payload} |",
            row.opcode, row.name
        );
        assert!(page.contains(&line), "{line}");
    }

    let table = page
        .lines()
        .skip_while(|l| *l != "### Opcodes")
        .take_while(|l| !l.starts_with("## "));
    let lines = table.filter(|l| l.starts_with("| `0x") && l.matches('|').count() == 5);
    assert_eq!(
        lines.count(),
        all().filter(|r| r.service != Service::Xrc).count()
    );
}
