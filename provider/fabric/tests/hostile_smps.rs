//! Random and strange SMPs: one of the specified statuses or silence, never a panic.

mod agent;

use agent::{Agent, DIRECTED, Out, request};
use ferroce_fabric::sma::Envelope;
use ferroce_wire::mad::{LEN, Mad, MadHeader};
use ferroce_wire::smp::{self, PERMISSIVE_LID, method};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence::WithSource;
use std::time::Duration;

/// The status that an answer may have.
const STATUS: [u16; 5] = [0, 4, 8, 12, 28];

fn check_random(agent: &mut Agent, ports: u8, smp: &Mad, lids: (u16, u16)) {
    for port in 0..=ports + 1 {
        let before = agent.out.0.len();
        agent.receive(
            port,
            Envelope {
                slid: lids.0,
                dlid: lids.1,
                sl: 0,
            },
            smp,
        );

        for out in agent.out.0.drain(before..) {
            if let Out::Send(exit, _, answer) = out {
                assert!((1..=ports).contains(&exit));
                let header = MadHeader::parse(&answer).unwrap();
                if header.method == method::GET_RESP && smp[3] & 0x80 == 0 {
                    assert!(STATUS.contains(&(header.status & 0x7fff)));
                    assert_eq!(answer[8..16], smp[8..16], "the transaction's number");
                }
            }
        }
    }
}

fn likely() -> impl Strategy<Value = Mad> {
    let head = (
        prop::sample::select(&[0x01u8, 0x81][..]),
        prop::sample::select(&[1u8, 2, 5, 7, 0x81, 3][..]),
        prop::sample::select(
            &[
                2u16, 0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1b, 0x20, 0x30, 0x31,
            ][..],
        ),
        prop_oneof![
            0u32..8,
            any::<u32>(),
            (0u32..6).prop_map(|half| half << 16),
            (0u32..16).prop_map(|at| at << 28)
        ],
    );

    let route = (0u8..6, 0u8..6, any::<bool>(), any::<[bool; 2]>());
    (
        head,
        route,
        prop::collection::vec(any::<u8>(), 64),
        prop::collection::vec(0u8..6, 128),
    )
        .prop_map(
            |(
                (class, method, attribute, modifier),
                (pointer, count, returning, permissive),
                data,
                paths,
            )| {
                let mut smp = request(method, attribute, modifier, 0, data[..].try_into().unwrap());
                smp[1] = class;
                smp::Directed {
                    returning: returning && class == smp::CLASS_DIRECTED,
                    hop_pointer: pointer,
                    hop_count: count,
                    dr_slid: if permissive[0] { PERMISSIVE_LID } else { 5 },
                    dr_dlid: if permissive[1] { PERMISSIVE_LID } else { 6 },
                }
                .emit(&mut smp);
                smp[128..].copy_from_slice(&paths);
                smp
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_failure_persistence(WithSource("regressions")))]

    #[test]
    fn random_bytes_do_no_harm(smps in prop::collection::vec(prop::collection::vec(any::<u8>(), LEN), 1..8), lids: (u16, u16)) {
        for mut agent in [Agent::adapter(2), Agent::switch(4)] {
            let ports = agent.node.config().ports;
            for smp in &smps {
                check_random(&mut agent, ports, smp[..].try_into().unwrap(), lids);
            }
        }
    }

    #[test]
    fn strange_requests_do_no_harm(smps in prop::collection::vec(likely(), 1..30), permissive: bool) {
        let lids = if permissive { (PERMISSIVE_LID, PERMISSIVE_LID) } else { (3, 5) };
        for mut agent in [Agent::adapter(2), Agent::switch(4)] {
            let ports = agent.node.config().ports;
            for smp in &smps {
                check_random(&mut agent, ports, smp, lids);
                agent.now += Duration::from_secs(1);
                agent.node.handle_timeout(agent.now, &mut agent.out);
                for port in 0..=ports {
                    agent.node.send(agent.now, port, DIRECTED, smp, &mut agent.out);
                    agent.node.link_up(agent.now, port, agent::OFFER, &mut agent.out);
                }
            }
        }
    }
}
