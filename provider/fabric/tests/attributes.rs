//! The other attributes of a channel adapter, and everything that is refused.

mod agent;

use agent::{Agent, DIRECTED, request};
use ferroce_fabric::cm::Time;
use ferroce_fabric::sma::{Envelope, NodeConfig, PortEvent};
use ferroce_wire::smp::{
    CLASS_LID, GuidInfo, LedInfo, PKeyBlock, SlToVl, VlArbitration, VlWeight, attribute, method,
    status,
};

/// An adapter with two ports and eight lanes.
fn with_lanes() -> Agent {
    let mut config = NodeConfig::channel_adapter(1, &[0x10, 0x11]);
    config.link.vl_cap = 4;
    config.p_keys = 40;
    config.guids = 12;
    config.description = "an adapter".into();
    Agent::linked(config)
}

#[test]
fn the_name_is_a_string_of_64_bytes() {
    let mut agent = with_lanes();
    let (status, data) = agent.get(1, attribute::NODE_DESCRIPTION, 0).unwrap();
    assert_eq!(status, 0);
    assert_eq!(&data[..11], b"an adapter\0");
    assert_eq!(
        agent
            .set(1, attribute::NODE_DESCRIPTION, 0, &data)
            .unwrap()
            .0,
        status::UNSUPPORTED_ATTRIBUTE
    );

    let long = "ü".repeat(40);
    agent
        .node
        .set_description(Time::ZERO, &long, &mut agent.out);
    let (_, data) = agent.get(1, attribute::NODE_DESCRIPTION, 0).unwrap();
    assert_eq!(std::str::from_utf8(&data).unwrap(), "ü".repeat(32));
}

#[test]
fn guids_but_the_first_are_the_subnet_managers() {
    let mut agent = with_lanes();
    let (status, data) = agent.get(2, attribute::GUID_INFO, 0).unwrap();
    assert_eq!(
        (status, GuidInfo::parse(&data).0),
        (0, [0x11, 0, 0, 0, 0, 0, 0, 0])
    );

    let mut wanted = [0; 64];
    GuidInfo([1, 2, 3, 4, 5, 6, 7, 8]).emit(&mut wanted);
    let (status, data) = agent.set(2, attribute::GUID_INFO, 0, &wanted).unwrap();
    assert_eq!(
        (status, GuidInfo::parse(&data).0),
        (0, [0x11, 2, 3, 4, 5, 6, 7, 8])
    );

    assert_eq!(agent.out.events(), [(2, PortEvent::GidChange)]);

    // The second block has room for four.
    let (status, data) = agent.set(2, attribute::GUID_INFO, 1, &wanted).unwrap();
    assert_eq!(
        (status, GuidInfo::parse(&data).0),
        (0, [1, 2, 3, 4, 0, 0, 0, 0])
    );

    // What exceeds GUIDCap is ignored, as long as GUIDCap could be that great.
    for block in [2, 31] {
        assert_eq!(
            agent.set(2, attribute::GUID_INFO, block, &wanted).unwrap(),
            (0, [0; 64])
        );
    }

    assert_eq!(
        agent.get(2, attribute::GUID_INFO, 32).unwrap().0,
        status::INVALID_VALUE
    );

    let gids: Vec<_> = agent.node.port(2).unwrap().gids().collect();
    assert_eq!(gids.len(), 12);
    let gid = 0xfe80_0000_0000_0000_0000_0000_0000_0011u128;
    assert_eq!(gids[0], (0, gid.to_be_bytes()));
    assert_eq!(
        agent.get(1, attribute::GUID_INFO, 0).unwrap().1[..8],
        0x10u64.to_be_bytes()
    );

    // Nothing has changed, so nothing is told.
    agent.out.0.clear();
    agent.set(2, attribute::GUID_INFO, 0, &wanted).unwrap();
    assert_eq!(agent.out.events(), []);
}

#[test]
fn p_keys_are_set_by_blocks() {
    let mut agent = with_lanes();
    let (status, data) = agent.get(1, attribute::P_KEY_TABLE, 0).unwrap();
    assert_eq!(
        (status, PKeyBlock::parse(&data).0[..2].to_vec()),
        (0, vec![0xffff, 0])
    );

    let keys: [u16; 32] = std::array::from_fn(|entry| 0x8001 + entry as u16);
    let mut wanted = [0; 64];
    PKeyBlock(keys).emit(&mut wanted);

    // An adapter does not look at the upper half of the modifier: its port is the one that was
    // asked.
    let (status, data) = agent
        .set(1, attribute::P_KEY_TABLE, 0x0002_0001, &wanted)
        .unwrap();
    let mut kept = [0; 32];
    kept[..8].copy_from_slice(&keys[..8]);
    assert_eq!(
        (status, PKeyBlock::parse(&data).0),
        (0, kept),
        "40 entries are a block and a quarter"
    );

    assert_eq!(agent.node.port(1).unwrap().p_keys()[..2], [0xffff, 0]);
    assert_eq!(
        agent.node.port(1).unwrap().p_keys()[32..34],
        [0x8001, 0x8002]
    );

    assert_eq!(agent.node.port(2).unwrap().p_keys()[32..], [0; 8]);
    assert_eq!(agent.out.events(), [(1, PortEvent::PkeyChange)]);
    assert_eq!(
        agent.get(1, attribute::P_KEY_TABLE, 2).unwrap().0,
        status::INVALID_VALUE
    );
}

#[test]
fn lanes_follow_service_levels() {
    let mut agent = with_lanes();
    let (_, data) = agent.get(1, attribute::SL_TO_VL, 0).unwrap();
    assert_eq!(
        SlToVl::parse(&data).0,
        std::array::from_fn(|sl| sl as u8 % 8)
    );

    let mut lanes = [0; 16];
    (lanes[3], lanes[4], lanes[5]) = (7, 8, 15);
    let mut wanted = [0; 64];
    SlToVl(lanes).emit(&mut wanted);
    assert_eq!(
        agent.set(1, attribute::SL_TO_VL, 0, &wanted).unwrap(),
        (0, wanted)
    );

    let port = agent.node.port(1).unwrap();
    let lanes: Vec<_> = (3..6).map(|sl| port.virtual_lane(0, sl)).collect();
    assert_eq!(
        lanes,
        [Some(7), None, None],
        "there are eight lanes, and 15 drops"
    );

    agent.change(1, |info| info.operational_vls = 2).unwrap();
    assert_eq!(
        agent.node.port(1).unwrap().virtual_lane(0, 3),
        None,
        "two in use"
    );
}

#[test]
fn arbitration_tables_have_the_entries_that_port_info_says() {
    let mut agent = with_lanes();
    let entries: [VlWeight; 32] = std::array::from_fn(|at| VlWeight {
        vl: at as u8 % 8,
        weight: at as u8,
    });

    let mut wanted = [0; 64];
    VlArbitration(entries).emit(&mut wanted);

    for half in [1, 3] {
        let (status, data) = agent
            .set(1, attribute::VL_ARBITRATION, half << 16, &wanted)
            .unwrap();
        let kept = VlArbitration::parse(&data).0;
        assert_eq!((status, &kept[..8]), (0, &entries[..8]));
        assert_eq!(kept[8..], [VlWeight::default(); 24]);
        assert_eq!(
            agent
                .get(2, attribute::VL_ARBITRATION, half << 16)
                .unwrap()
                .1,
            [0; 64],
            "each port has its own"
        );
    }

    for half in [0, 2, 4, 5, 0xffff] {
        assert_eq!(
            agent
                .get(1, attribute::VL_ARBITRATION, half << 16)
                .unwrap()
                .0,
            status::INVALID_VALUE
        );
    }

    wanted[2] = 15;
    assert_eq!(
        agent
            .set(1, attribute::VL_ARBITRATION, 1 << 16, &wanted)
            .unwrap()
            .0,
        status::INVALID_VALUE
    );

    // With one lane there is nothing to arbitrate.
    assert_eq!(
        Agent::adapter(1)
            .get(1, attribute::VL_ARBITRATION, 1 << 16)
            .unwrap()
            .0,
        status::UNSUPPORTED_ATTRIBUTE
    );
}

#[test]
fn the_lamp_is_switched() {
    let mut agent = with_lanes();
    let mut on = [0; 64];
    LedInfo { led_mask: true }.emit(&mut on);
    assert_eq!(agent.set(2, attribute::LED_INFO, 0, &on).unwrap(), (0, on));
    assert_eq!(agent.get(2, attribute::LED_INFO, 0).unwrap(), (0, on));
    assert_eq!(agent.get(1, attribute::LED_INFO, 0).unwrap(), (0, [0; 64]));
    assert!(agent.node.port(2).unwrap().led());
    assert_eq!(agent.out.events(), [(2, PortEvent::Led(true))]);
    assert_eq!(
        agent.get(2, attribute::LED_INFO, 1).unwrap().0,
        status::INVALID_VALUE
    );
}

#[test]
fn diagnostics_are_empty() {
    let mut agent = with_lanes();
    assert_eq!(
        agent.get(1, attribute::VENDOR_DIAG, 0).unwrap(),
        (0, [0; 64])
    );
    assert_eq!(
        agent.get(1, attribute::VENDOR_DIAG, 1).unwrap().0,
        status::INVALID_VALUE
    );
    assert_eq!(
        agent.set(1, attribute::VENDOR_DIAG, 0, &[0; 64]).unwrap().0,
        status::UNSUPPORTED_ATTRIBUTE
    );
}

/// What each method and attribute of an adapter answers (C14-3): `None` is nothing at all.
fn expected(method: u8, attribute: u16) -> Option<u16> {
    match method {
        method::GET | method::SET => {
            let is_set = method == method::SET;
            Some(match attribute {
                0x14 | 0x15 | 0x16 | 0x31 => 0,
                0x10 | 0x11 | 0x30 if !is_set => 0,
                // There is one lane, so neither SLtoVLMappingTable nor VLArbitrationTable.
                _ => status::UNSUPPORTED_ATTRIBUTE,
            })
        }
        method::TRAP | method::TRAP_REPRESS => None,
        method if method & 0x80 != 0 => None,
        _ => Some(status::UNSUPPORTED_METHOD),
    }
}

#[test]
fn every_method_with_every_attribute() {
    let mut agent = Agent::adapter(1);
    agent.configure(1, 5, 1);
    let mut info = *agent.node.port(1).unwrap().info();
    (info.port_state, info.port_physical_state) = (0, 0);
    let mut port_info = [0; 64];
    info.emit(&mut port_info);

    for method in 0..=u8::MAX {
        for attribute in (0..=0x40).chain([0xff00, 0xffff]) {
            let data = if attribute == attribute::PORT_INFO {
                port_info
            } else {
                [0; 64]
            };
            let answer = agent.ask(1, &request(method, attribute, 0, 0, &data));
            assert_eq!(
                answer.map(|(status, _)| status),
                expected(method, attribute),
                "{method:#x} {attribute:#x}"
            );
        }
    }
}

#[test]
fn other_versions_are_named() {
    let mut agent = Agent::adapter(1);
    for (at, version) in [(0, 0), (0, 2), (2, 0), (2, 2)] {
        for method in [method::GET, method::SET] {
            let mut smp = request(method, attribute::NODE_INFO, 0, 0, &[0; 64]);
            smp[at] = version;
            assert_eq!(agent.ask(1, &smp).unwrap().0, status::BAD_VERSION);
        }
    }
}

#[test]
fn other_classes_are_not_for_this_agent() {
    let mut agent = Agent::adapter(1);
    for class in (0..=u8::MAX).filter(|class| ![0x01, 0x81].contains(class)) {
        let mut smp = request(method::GET, attribute::NODE_INFO, 0, 0, &[0; 64]);
        smp[1] = class;
        agent.receive(1, DIRECTED, &smp);
    }
    assert_eq!(agent.out.0, []);
}

#[test]
fn everything_that_comes_is_counted() {
    let mut agent = Agent::adapter(1);
    agent.configure(1, 5, 1);
    let before = *agent.node.counters();
    let good = request(method::GET, attribute::NODE_INFO, 0, 0, &[0; 64]);
    let refused = request(method::GET, 0x7777, 0, 0, &[0; 64]);
    let mut lost = good;
    lost[7] = 9; // an adapter passes nothing on
    let mut answer = good;
    answer[3] = method::GET_RESP;
    let trap = request(method::TRAP, attribute::NOTICE, 0, 0, &[0; 64]);
    for smp in [good, refused, lost, answer, trap] {
        agent.receive(1, DIRECTED, &smp);
    }
    let stranger = Envelope {
        slid: 1,
        dlid: 6,
        sl: 0,
    };
    agent.receive(1, stranger, &good);
    let mut by_lid = good;
    by_lid[1] = CLASS_LID;
    agent
        .node
        .send(Time::ZERO, 1, stranger, &by_lid, &mut agent.out);
    let after = *agent.node.counters();
    assert_eq!(after.received - before.received, 6);
    assert_eq!(after.answered - before.answered, 2);
    assert_eq!(after.refused - before.refused, 1);
    assert_eq!(
        after.dropped - before.dropped,
        3,
        "the lost one, the trap, the stranger"
    );

    assert_eq!(after.delivered - before.delivered, 1);
    assert_eq!((after.passed_on, after.sent_by_programs), (1, 1));
}
