//! Attributes of management: the tables of bit fields against another implementation's, and against
//! themselves.

use ferroce_wire::bits::Field;
use ferroce_wire::mad::{LEN, Mad, MadHeader};
use ferroce_wire::pma::{
    self, ClassPortInfo, PortCounters, PortCountersExtended, PortSamplesControl, PortSamplesResult,
};
use ferroce_wire::smp::{
    self, BadKey, BadMKey, CapabilityChange, Data, Directed, GuidInfo, LedInfo, LinearBlock,
    MulticastBlock, NodeInfo, Notice, NoticeHeader, PKeyBlock, PortInfo, SlToVl, SmInfo,
    SwitchInfo, VendorDiag, VlArbitration, VlWeight, trap,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence::WithSource;

/// An attribute: its name, its table, and what parsing and emitting makes of bytes.
struct Attribute {
    name: &'static str,
    len: usize,
    fields: &'static [Field],
    through: fn(&[u8]) -> Vec<u8>,
}

macro_rules! attributes {
    ($($type:ident: $len:expr),* $(,)?) => {
        &[$(Attribute {
            name: stringify!($type),
            len: $len,
            fields: $type::FIELDS,
            through: |bytes| {
                let mut out = [0xff; $len];
                $type::parse(bytes.try_into().unwrap()).emit(&mut out);
                out.to_vec()
            },
        },)*]
    };
}

const ATTRIBUTES: &[Attribute] = attributes![
    PortInfo: 64, NodeInfo: 64, SwitchInfo: 64, SmInfo: 64, NoticeHeader: 64, LedInfo: 64,
    PortCounters: 192, PortCountersExtended: 192, ClassPortInfo: 192, PortSamplesControl: 192,
];

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn components_lie_where_libibmad_puts_them() {
    let vectors = include_str!("vectors/libibmad.txt");
    let mut checked = 0;
    for attribute in ATTRIBUTES
        .iter()
        .filter(|attribute| attribute.name != "LedInfo")
    {
        let lines: Vec<(&str, &str)> = vectors
            .lines()
            .filter_map(|line| line.strip_prefix(attribute.name)?.strip_prefix(' '))
            .map(|line| line.split_once(' ').unwrap())
            .collect();
        let ((_, hex), values) = lines.split_last().unwrap();
        let encoded = bytes(hex);
        assert_eq!(values.len(), attribute.fields.len(), "{}", attribute.name);

        for (field, (name, value)) in attribute.fields.iter().zip(values) {
            let value = u128::from_str_radix(value, 16).unwrap();
            assert_eq!(
                field.load(&encoded),
                value,
                "{} {name}: {field:?}",
                attribute.name
            );
            checked += 1;
        }

        assert_eq!((attribute.through)(&encoded), encoded, "{}", attribute.name);
    }

    assert_eq!(checked, 174);
}

#[test]
fn components_neither_overlap_nor_leave_the_attribute() {
    for attribute in ATTRIBUTES {
        let mut end = 0;
        for field in attribute.fields {
            assert!(field.bit >= end, "{} {}", attribute.name, field.name);
            end = field.bit + field.bits;
        }
        assert!(end <= attribute.len * 8);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_failure_persistence(WithSource("regressions")))]

    #[test]
    fn only_reserved_bits_are_lost(which in 0..ATTRIBUTES.len(), random in prop::collection::vec(any::<u8>(), 192)) {
        let attribute = &ATTRIBUTES[which];
        let before = &random[..attribute.len];
        let after = (attribute.through)(before);
        let mut expected = vec![0; attribute.len];
        for field in attribute.fields {
            field.store(&mut expected, field.load(before));
            prop_assert_eq!(field.load(&after), field.load(before));
        }
        prop_assert_eq!(after, expected);
    }

    #[test]
    fn a_component_does_not_touch_its_neighbours(bit in 0usize..384, bits in 1usize..=128, value: u128, random in prop::collection::vec(any::<u8>(), 64)) {
        let field = Field { name: "", bit, bits, access: ferroce_wire::bits::Access::Rw };
        let mut changed = random.clone();
        field.store(&mut changed, value);
        prop_assert_eq!(field.load(&changed), value & field.max());
        field.store(&mut changed, field.load(&random));
        prop_assert_eq!(changed, random);
    }

    #[test]
    fn blocks_come_back(random in prop::collection::vec(any::<u8>(), 64)) {
        let data: Data = random.try_into().unwrap();
        let mut out = [0xff; 64];
        PKeyBlock::parse(&data).emit(&mut out);
        prop_assert_eq!(out, data);
        MulticastBlock::parse(&data).emit(&mut out);
        prop_assert_eq!(out, data);
        GuidInfo::parse(&data).emit(&mut out);
        prop_assert_eq!(out, data);
        LinearBlock::parse(&data).emit(&mut out);
        prop_assert_eq!(out, data);
        VendorDiag::parse(&data).emit(&mut out);
        prop_assert_eq!(out, data);
        let lanes = SlToVl::parse(&data);
        lanes.emit(&mut out);
        prop_assert_eq!(SlToVl::parse(&out), lanes);
        prop_assert_eq!(&out[8..], &[0; 56][..]);
        let weights = VlArbitration::parse(&data);
        weights.emit(&mut out);
        prop_assert_eq!(VlArbitration::parse(&out), weights);
    }

    #[test]
    fn directions_do_not_touch_the_rest(random in prop::collection::vec(any::<u8>(), LEN), returning: bool, hop_pointer: u8, hop_count: u8, dr_slid: u16, dr_dlid: u16) {
        let mut smp: Mad = random.clone().try_into().unwrap();
        let before = MadHeader::parse(&smp).unwrap();
        let route = Directed { returning, hop_pointer, hop_count, dr_slid, dr_dlid };
        route.emit(&mut smp);
        prop_assert_eq!(Directed::parse(&smp), route);
        let after = MadHeader::parse(&smp).unwrap();
        prop_assert_eq!(after.status & 0x7fff, before.status & 0x7fff);
        prop_assert_eq!(&smp[8..32], &random[8..32]);
        prop_assert_eq!(&smp[36..], &random[36..]);
    }
}

#[test]
fn tables_lie_in_the_order_of_the_wire() {
    let data: Data = std::array::from_fn(|at| at as u8);
    assert_eq!(PKeyBlock::parse(&data).0[..2], [0x0001, 0x0203]);
    assert_eq!(GuidInfo::parse(&data).0[1], 0x0809_0a0b_0c0d_0e0f);
    assert_eq!(LinearBlock::parse(&data).0[63], 63);
    assert_eq!(
        VlArbitration::parse(&data).0[1],
        VlWeight { vl: 2, weight: 3 }
    );
    let mut lanes = [0; 64];
    lanes[..8].copy_from_slice(&[0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
    assert_eq!(SlToVl::parse(&lanes).0, std::array::from_fn(|sl| sl as u8));
}

#[test]
fn the_parts_of_an_smp_lie_where_they_should() {
    let mut smp: Mad = std::array::from_fn(|at| at as u8);
    assert_eq!(smp::m_key(&smp), 0x1819_1a1b_1c1d_1e1f);
    assert_eq!(smp::data(&smp)[0], 64);
    assert_eq!(smp::initial_path(&smp)[0], 128);
    assert_eq!(smp::return_path(&smp)[63], 255);
    assert_eq!(pma::data(&smp)[191], 255);
    let route = Directed::parse(&smp);
    assert_eq!((route.hop_pointer, route.hop_count), (6, 7));
    assert_eq!((route.dr_slid, route.dr_dlid), (0x2021, 0x2223));
    assert!(!route.returning);
    smp[4] = 0x80;
    assert!(Directed::parse(&smp).returning);
    smp::set_m_key(&mut smp, 5);
    assert_eq!(smp::m_key(&smp), 5);
}

fn emitted(notice: Notice) -> Vec<u8> {
    let mut data = [0xff; 64];
    notice.emit(2, 0x1234, &mut data);
    data.to_vec()
}

/// A notice of 64 bytes whose first are these, in hexadecimal.
fn padded(hex: &str) -> Vec<u8> {
    let mut expected = bytes(&hex.replace(' ', ""));
    expected.resize(64, 0);
    expected
}

#[test]
fn traps_say_what_happened() {
    assert_eq!(
        emitted(Notice::LinkState(0x0a0b)),
        padded("81000002 0080 1234 0000 0a0b")
    );

    assert_eq!(
        emitted(Notice::LinkErrors(trap::BUFFER_OVERRUN, 0x0a0b, 7)),
        padded("81000002 0082 1234 0000 0000 0a0b 07")
    );

    assert_eq!(
        emitted(Notice::CapabilityChange(CapabilityChange {
            lid: 0x0a0b,
            capability_mask: 0x0251_0a4a,
            node_description: true,
            link_speed_enabled: true,
            ..CapabilityChange::default()
        })),
        padded("84000002 0090 1234 0000 0000 0a0b 00 01 02510a4a 0005")
    );

    assert_eq!(
        emitted(Notice::SystemImageGuidChange(0x0a0b, 0x0102_0304_0506_0708)),
        padded("84000002 0091 1234 0000 0000 0a0b 0000 0102030405060708")
    );
}

#[test]
fn traps_of_bad_keys_name_both_ends() {
    let bad = BadKey {
        lid1: 1,
        lid2: 2,
        key: 0x1111_2222,
        sl: 3,
        qp1: 0x0045_6789,
        qp2: 0x00ab_cdef,
        gid1: [0x51; 16],
        gid2: [0x62; 16],
    };

    let gids = format!("{}{}", "51".repeat(16), "62".repeat(16));
    let details = format!("1234 0000 0000 0001 0002 11112222 30456789 00abcdef {gids}");
    assert_eq!(
        emitted(Notice::BadPKey(bad)),
        padded(&format!("82000002 0101 {details}"))
    );

    assert_eq!(
        emitted(Notice::BadQKey(bad)),
        padded(&format!("82000002 0102 {details}"))
    );
}

#[test]
fn traps_of_bad_m_keys_tell_the_way_as_far_as_there_is_room() {
    let path: [u8; 64] = std::array::from_fn(|at| at as u8);
    let bad = |route| {
        Notice::BadMKey(BadMKey {
            lid: 0x0a0b,
            dr_slid: 0xffff,
            method: 2,
            attribute: 0x15,
            modifier: 3,
            m_key: 0x1122_3344_5566_7788,
            route,
        })
    };

    let head = "82000002 0100 1234 0000 0000 0a0b ffff 02 00 0015 00000003 1122334455667788";
    assert_eq!(emitted(bad(None)), padded(head));
    assert_eq!(
        emitted(bad(Some((3, path)))),
        padded(&format!("{head} 00 83 010203"))
    );

    let kept: String = (1..=30).map(|hop| format!("{hop:02x}")).collect();
    assert_eq!(
        emitted(bad(Some((30, path)))),
        padded(&format!("{head} 00 9e {kept}"))
    );

    assert_eq!(
        emitted(bad(Some((31, path)))),
        padded(&format!("{head} 00 de {kept}"))
    );
}

#[test]
fn samples_have_32_or_64_bits() {
    let mut counters = [0; pma::SAMPLES];
    counters[0] = 0x0123_4567_89ab_cdef;
    counters[14] = 7;
    let result = PortSamplesResult {
        tag: 0x0a0b,
        sample_status: 2,
        counters,
    };

    let mut data = [0xff; pma::DATA_LEN];
    result.emit(&mut data);
    assert_eq!(data[..8], [0x0a, 0x0b, 0, 2, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!((data[4 + 4 * 15 - 1], data[4 + 4 * 15]), (7, 0));
    result.emit_extended(&mut data);
    assert_eq!(data[..8], [0x0a, 0x0b, 0, 2, 0x80, 0, 0, 0]);
    assert_eq!(data[8..16], 0x0123_4567_89ab_cdefu64.to_be_bytes());
    assert_eq!(data[8 + 8 * 15 - 1], 7);
}
