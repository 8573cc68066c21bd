//! The performance management agent, against totals that a test moves.

#[path = "pma/bench.rs"]
mod bench;

use bench::{Bench, MICROSECOND, mad, of_port};
use ferroce_fabric::cm::Time;
use ferroce_fabric::pma::{COUNTERS, Counter, Totals};
use ferroce_wire::mad::{LEN, Mad, MadHeader};
use ferroce_wire::pma::{self, ClassPortInfo, PortCounters, PortSamplesControl, attribute, sample};
use ferroce_wire::smp::{method, status};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence::WithSource;

#[test]
fn the_class_says_what_it_can() {
    let (status, data) = Bench::new().ask(
        method::GET,
        attribute::CLASS_PORT_INFO,
        0,
        &[0; pma::DATA_LEN],
    );
    let info = ClassPortInfo::parse(&data);
    assert_eq!((status, info.base_version, info.class_version), (0, 1, 1));
    assert_eq!(info.capability_mask, 0x0300, "all ports, 64 bits");
    assert_eq!(info.redirect_lid, 0);
}

#[test]
fn every_counter_stops_at_its_width() {
    let mut bench = Bench::new();
    bench.totals.0[0] = Totals([u64::MAX / 2; COUNTERS]);
    let (_, data) = bench.ask(method::GET, attribute::PORT_COUNTERS, 0, &of_port(1));

    // What is not counted (the bit of PortXmitWait in ClassPortInfo) is reserved: zero.
    let not_counters = [
        "port_select",
        "counter_select",
        "counter_select2",
        "port_xmit_wait",
    ];

    assert_eq!(PortCounters::parse(&data).port_xmit_wait, 0);
    for field in PortCounters::FIELDS {
        if !not_counters.contains(&field.name) {
            assert_eq!(field.load(&data), field.max(), "{}", field.name);
        }
    }

    assert_eq!(bench.extended(1).port_xmit_data, u64::MAX / 2);
    assert_eq!(
        bench.narrow(2),
        PortCounters {
            port_select: 2,
            ..PortCounters::default()
        }
    );
}

#[test]
fn each_bit_resets_one_counter_of_one_port() {
    for bit in 0..16 {
        let mut bench = Bench::new();
        bench.totals.0 = [Totals([5; COUNTERS]); 2];
        let before = bench.narrow(1);
        bench.set_narrow(PortCounters {
            port_select: 1,
            counter_select: 1 << bit,
            ..PortCounters::default()
        });

        let (_, data) = bench.ask(method::GET, attribute::PORT_COUNTERS, 0, &of_port(1));
        let zero = PortCounters::FIELDS
            .iter()
            .filter(|field| !field.name.starts_with("counter_select"))
            .filter(|field| field.name != "port_xmit_wait" && field.load(&data) == 0);
        assert_eq!(zero.count(), 1, "bit {bit}");
        assert_eq!(
            bench.narrow(2),
            PortCounters {
                port_select: 2,
                ..before
            }
        );

        // The wide counters count from where they did.
        assert_eq!(bench.extended(1).port_xmit_data, 5);
    }
}

#[test]
fn a_counter_that_there_is_not_takes_no_value() {
    let mut bench = Bench::new();
    let written = bench.set_narrow(PortCounters {
        port_select: 1,
        counter_select2: 1,
        port_xmit_wait: 77,
        ..PortCounters::default()
    });
    assert_eq!(written.port_xmit_wait, 0);
    assert_eq!(bench.narrow(1).port_xmit_wait, 0);
    // To Linux it is one of a port's, all the same.
    let named = bench.pma.named(1, &bench.totals);
    assert!(named.contains(&("port_xmit_wait", 0)));
}

#[test]
fn a_counter_goes_on_from_what_was_written() {
    let mut bench = Bench::new();
    bench.totals.0[0][Counter::XmitPackets] = 100;
    let answer = bench.set_narrow(PortCounters {
        port_select: 1,
        counter_select: 1 << 14,
        port_xmit_pkts: 1000,
        ..PortCounters::default()
    });
    assert_eq!(answer.port_xmit_pkts, 1000);
    bench.totals.0[0][Counter::XmitPackets] += 7;
    assert_eq!(bench.narrow(1).port_xmit_pkts, 1007);
}

#[test]
fn port_255_is_all_of_them() {
    let mut bench = Bench::new();
    bench.totals.0[0][Counter::LinkDowned] = 200;
    bench.totals.0[1][Counter::LinkDowned] = 100;
    bench.totals.0[0][Counter::RcvData] = 30;
    bench.totals.0[1][Counter::RcvData] = 12;
    let all = bench.narrow(255);
    assert_eq!((all.link_downed_counter, all.port_rcv_data), (255, 42));
    bench.set_narrow(PortCounters {
        port_select: 255,
        counter_select: 0xffff,
        ..PortCounters::default()
    });

    assert_eq!(bench.narrow(1).link_downed_counter, 0);
    assert_eq!(bench.narrow(2).port_rcv_data, 0);
    assert_eq!(bench.extended(255).port_rcv_data, 42);
}

#[test]
fn what_is_not_there_is_refused_with_the_right_status() {
    let mut bench = Bench::new();
    let none = [0; pma::DATA_LEN];

    // Ports that do not exist, modifiers that mean nothing.
    for port in [0, 3, 254] {
        for attribute in [
            attribute::PORT_COUNTERS,
            attribute::PORT_COUNTERS_EXTENDED,
            attribute::PORT_SAMPLES_CONTROL,
        ] {
            for method in [method::GET, method::SET] {
                assert_eq!(
                    bench.ask(method, attribute, 0, &of_port(port)).0,
                    status::INVALID_VALUE
                );
            }
        }
    }

    assert_eq!(
        bench
            .ask(method::GET, attribute::PORT_COUNTERS, 1, &of_port(1))
            .0,
        status::INVALID_VALUE
    );

    // Optional attributes: PortRcvErrorDetails, PortXmitDataSL, PortRcvDataSL and so on.
    let known = [0x01, 0x10, 0x11, 0x12, 0x1d, 0x1e];
    for attribute in (0..=0x80).filter(|attribute| !known.contains(attribute)) {
        assert_eq!(
            bench.ask(method::GET, attribute, 0, &of_port(1)).0,
            status::UNSUPPORTED_ATTRIBUTE
        );
    }

    assert_eq!(
        bench
            .ask(method::SET, attribute::PORT_SAMPLES_RESULT, 0, &none)
            .0,
        status::UNSUPPORTED_ATTRIBUTE
    );

    assert_eq!(
        bench.ask(0x03, attribute::PORT_COUNTERS, 0, &none).0,
        status::UNSUPPORTED_METHOD
    );

    let mut versions = mad(method::GET, attribute::PORT_COUNTERS, 0, &of_port(1));
    versions[2] = 2;
    let answer = bench.exchange(&versions).unwrap();
    assert_eq!(
        MadHeader::parse(&answer).unwrap().status,
        status::BAD_VERSION
    );

    // Nothing answers an answer or a trap.
    for method in [method::GET_RESP, method::TRAP, method::TRAP_REPRESS, 0x82] {
        assert!(
            bench
                .exchange(&mad(method, attribute::PORT_COUNTERS, 0, &of_port(1)))
                .is_none()
        );
    }
}

#[test]
fn sampling_counts_from_start_to_end() {
    let mut bench = Bench::new();
    let (status, control) = bench.control(
        method::SET,
        PortSamplesControl {
            port_select: 1,
            sample_start: 10,
            sample_interval: 100,
            tag: 0xabcd,
            counter_select0: sample::XMIT_DATA,
            counter_select1: sample::RCV_PACKETS,
            ..PortSamplesControl::default()
        },
    );

    assert_eq!((status, control.sample_status, control.tag), (0, 1, 0xabcd));
    assert_eq!((control.counter_width, control.counter_mask0), (4, 1));
    bench.totals.0[0][Counter::XmitData] = 1000; // too early to count
    assert_eq!(
        bench.pma.next_timeout(),
        Some(Time::from_nanos(10 * MICROSECOND))
    );

    bench.now = 10 * MICROSECOND;
    bench
        .pma
        .handle_timeout(Time::from_nanos(bench.now), &bench.totals);
    assert_eq!(
        bench.pma.next_timeout(),
        Some(Time::from_nanos(110 * MICROSECOND))
    );

    bench.totals.0[0][Counter::XmitData] += 5;
    bench.totals.0[0][Counter::RcvPackets] += 3;
    bench.totals.0[1][Counter::XmitData] += 99; // another port
    assert_eq!(bench.result(), (0xabcd, 2, 5, 3));

    // A second sampling has to wait.
    let (status, control) = bench.control(
        method::SET,
        PortSamplesControl {
            port_select: 1,
            tag: 1,
            ..control
        },
    );

    assert_eq!((status, control.tag, control.sample_status), (0, 0xabcd, 2));
    bench.now = 110 * MICROSECOND;
    bench
        .pma
        .handle_timeout(Time::from_nanos(bench.now), &bench.totals);
    bench.totals.0[0][Counter::XmitData] += 1000; // too late
    assert_eq!(bench.result(), (0xabcd, 0, 5, 3));
    assert_eq!(bench.pma.next_timeout(), None);
    let wide = bench
        .ask(
            method::GET,
            attribute::PORT_SAMPLES_RESULT_EXTENDED,
            0,
            &[0; pma::DATA_LEN],
        )
        .1;

    assert_eq!((wide[4] >> 6, wide[15], wide[23]), (2, 5, 3));
    let unknown = PortSamplesControl {
        port_select: 1,
        counter_select3: 6,
        ..PortSamplesControl::default()
    };
    assert_eq!(bench.control(method::SET, unknown).0, status::INVALID_VALUE);
}

proptest! {
    #![proptest_config(ProptestConfig::with_failure_persistence(WithSource("regressions")))]

    #[test]
    fn no_bytes_are_too_strange(mads in prop::collection::vec(prop::collection::vec(any::<u8>(), LEN), 1..20), likely in any::<bool>()) {
        let mut bench = Bench::new();
        for mut bytes in mads {
            if likely {
                let (method, attribute) = (bytes[3] & 3, 0x10 | bytes[17] & 15);
                bytes[..4].copy_from_slice(&[1, 4, 1, method]);
                bytes[16..18].copy_from_slice(&[0, attribute]);
                bytes[20..24].fill(0);
                bytes[65] &= 3;
            }
            let mad: Mad = bytes.try_into().unwrap();
            bench.now += 1_000_000;
            if let Some(answer) = bench.exchange(&mad) {
                let header = MadHeader::parse(&answer).unwrap();
                prop_assert_eq!(header.method, method::GET_RESP);
                prop_assert!([0, 4, 8, 12, 28].contains(&header.status));
                prop_assert_eq!(&answer[8..16], &mad[8..16]);
            }
        }
    }
}
