//! What only switches have: SwitchInfo, forwarding tables, and where packets go.

mod agent;
#[path = "switch/configured.rs"]
mod configured;

use agent::Agent;
use configured::{PORTS, active, set_group, set_info, set_linear, switch_info};
use ferroce_fabric::cm::Time;
use ferroce_fabric::sma::{Discard, Node, NodeConfig, Route};
use ferroce_wire::bits::Access;
use ferroce_wire::smp::{
    LedInfo, MULTICAST_LID, NodeInfo, PERMISSIVE_LID, PKeyBlock, SlToVl, SwitchInfo, attribute,
    state, status,
};

#[test]
fn a_switch_says_what_it_is() {
    let mut agent = Agent::switch(PORTS);
    let info = NodeInfo::parse(&agent.get(7, attribute::NODE_INFO, 0).unwrap().1);
    assert_eq!(
        (info.node_type, info.num_ports, info.local_port_num),
        (2, PORTS, 7)
    );
    assert_eq!((info.node_guid, info.port_guid), (2, 2));
    let info = switch_info(&mut agent);
    assert_eq!(
        (
            info.linear_fdb_cap,
            info.random_fdb_cap,
            info.multicast_fdb_cap
        ),
        (0xc000, 0, 1024)
    );
    assert_eq!(
        (info.partition_enforcement_cap, info.enhanced_port0),
        (32, false)
    );
    // Port 0 has no link, and is active from the beginning.
    let port = agent.port_info(0);
    assert_eq!(
        (port.port_state, port.port_physical_state),
        (state::ACTIVE, 5)
    );
}

#[test]
fn every_component_of_switch_info() {
    let mut agent = active();
    let before = switch_info(&mut agent);
    // Read-only components stay.
    for field in SwitchInfo::FIELDS
        .iter()
        .filter(|field| field.access == Access::Ro)
    {
        let (_, mut data) = agent.get(1, attribute::SWITCH_INFO, 0).unwrap();
        let other = !field.load(&data);
        field.store(&mut data, other);
        let mut info = SwitchInfo::parse(&data);
        info.port_state_change = false;
        info.emit(&mut data);
        assert_eq!(agent.set(1, attribute::SWITCH_INFO, 0, &data).unwrap().0, 0);
        assert_eq!(switch_info(&mut agent), before, "{}", field.name);
    }
    // Legal values are taken, others refused.
    type Setter = fn(&mut SwitchInfo, u16);
    let rules: [(Setter, &[u16], &[u16]); 5] = [
        (
            |info, value| info.linear_fdb_top = value,
            &[0, 1, 0xbfff],
            &[0xc000, 0xffff],
        ),
        (
            |info, value| info.default_multicast_primary_port = value as u8,
            &[0, 1, 20, 255],
            &[21, 254],
        ),
        (
            |info, value| info.default_multicast_not_primary_port = value as u8,
            &[0, 1, 20, 255],
            &[21, 254],
        ),
        (
            |info, value| info.life_time_value = value as u8,
            &[0, 1, 19, 20, 31],
            &[],
        ),
        (
            |info, value| info.multicast_fdb_top = value,
            &[0, 0xbfff, 0xc000, 0xc3ff],
            &[1, 0xbffe, 0xc400, 0xffff],
        ),
    ];
    for (set, legal, illegal) in rules {
        for value in legal {
            let mut expected = switch_info(&mut agent);
            expected.port_state_change = false;
            set(&mut expected, *value);
            assert_eq!(
                set_info(&mut agent, |info| {
                    info.port_state_change = true;
                    set(info, *value);
                }),
                0
            );
            assert_eq!(switch_info(&mut agent), expected);
        }
        for value in illegal {
            let expected = switch_info(&mut agent);
            assert_eq!(
                set_info(&mut agent, |info| set(info, *value)),
                status::INVALID_VALUE
            );
            assert_eq!(switch_info(&mut agent), expected);
        }
    }
    assert_eq!(
        agent.get(1, attribute::SWITCH_INFO, 1).unwrap().0,
        status::INVALID_VALUE
    );
}

#[test]
fn tables_end_where_their_capacity_does() {
    let mut agent = active();
    assert_eq!(
        agent.get(1, attribute::LINEAR_FORWARDING, 767).unwrap(),
        (0, [0xff; 64])
    );
    assert_eq!(
        agent.get(1, attribute::LINEAR_FORWARDING, 768).unwrap().0,
        status::INVALID_VALUE
    );
    assert_eq!(
        agent.get(1, attribute::MULTICAST_FORWARDING, 31).unwrap(),
        (0, [0; 64])
    );
    for modifier in [32, 1 << 9, 2 << 28, 15 << 28] {
        assert_eq!(
            agent
                .get(1, attribute::MULTICAST_FORWARDING, modifier)
                .unwrap()
                .0,
            status::INVALID_VALUE
        );
    }
    assert_eq!(
        agent.get(1, attribute::RANDOM_FORWARDING, 0).unwrap().0,
        status::UNSUPPORTED_ATTRIBUTE
    );
    // Small tables have half a block.
    let mut config = NodeConfig::switch(2, 2);
    (config.linear_fdb, config.multicast_fdb) = (70, 3);
    let mut agent = Agent::linked(config);
    let (status, data) = agent
        .set(1, attribute::LINEAR_FORWARDING, 1, &[1; 64])
        .unwrap();
    assert_eq!(
        (status, &data[..8]),
        (0, &[1, 1, 1, 1, 1, 1, 0xff, 0xff][..])
    );
    let (status, data) = agent
        .set(1, attribute::MULTICAST_FORWARDING, 0, &[1; 64])
        .unwrap();
    assert_eq!((status, &data[..8]), (0, &[1, 1, 1, 1, 1, 1, 0, 0][..]));
}

#[test]
fn tables_of_ports() {
    let mut agent = Agent::switch(PORTS);
    // P_Keys: each port has a table of one block.
    for port in [0, 1, PORTS] {
        let modifier = u32::from(port) << 16;
        let (status, data) = agent.get(3, attribute::P_KEY_TABLE, modifier).unwrap();
        assert_eq!((status, PKeyBlock::parse(&data).0[0]), (0, 0xffff));
    }
    for modifier in [1, 1 << 16 | 1, u32::from(PORTS + 1) << 16] {
        assert_eq!(
            agent.get(3, attribute::P_KEY_TABLE, modifier).unwrap().0,
            status::INVALID_VALUE
        );
    }
    // Lanes by the ports of entry and exit.
    let mut data = [0; 64];
    SlToVl([0; 16]).emit(&mut data);
    for (input, output) in [(0, 1), (20, 20), (0, 0)] {
        let modifier = input << 8 | output;
        assert_eq!(
            agent.set(1, attribute::SL_TO_VL, modifier, &data).unwrap(),
            (0, data)
        );
    }
    for modifier in [21, 21 << 8, 1 << 16] {
        assert_eq!(
            agent.get(1, attribute::SL_TO_VL, modifier).unwrap().0,
            status::INVALID_VALUE
        );
    }
    // Lamps.
    LedInfo { led_mask: true }.emit(&mut data);
    assert_eq!(agent.set(1, attribute::LED_INFO, 4, &data).unwrap().0, 0);
    assert!(agent.node.port(4).unwrap().led() && !agent.node.port(1).unwrap().led());
    assert_eq!(
        agent.get(1, attribute::LED_INFO, 21).unwrap().0,
        status::INVALID_VALUE
    );
    assert_eq!(
        agent.get(1, attribute::PORT_INFO, 21).unwrap().0,
        status::INVALID_VALUE
    );
}

#[test]
fn packets_leave_by_the_port_of_their_lid() {
    let mut agent = active();
    set_linear(&mut agent, 0, &[(7, 3), (8, 0), (9, 21), (10, 2)]);
    set_linear(&mut agent, 3, &[(8, 4), (9, 4)]); // LIDs 200 and 201
    let node = &agent.node;
    let to = |dlid| node.forward(2, dlid, false);
    assert_eq!(to(7), Route::Port(3));
    assert_eq!(to(5), Route::Local, "its own");
    assert_eq!(to(8), Route::Local, "the table says port 0");
    assert_eq!(to(10), Route::Drop(Discard::Looping));
    for lid in [0, 6, 9, 201, 0xbfff] {
        assert_eq!(
            to(lid),
            Route::Drop(Discard::NoRoute),
            "{lid}: none, no such port, or behind LinearFDBTop"
        );
    }
    assert_eq!(to(200), Route::Port(4));
    assert_eq!(
        node.forward(0, 7, false),
        Route::Port(3),
        "from the switch itself"
    );
    assert_eq!(
        node.forward(21, 7, false),
        Route::Drop(Discard::NotReceiving)
    );
    assert_eq!(node.forward(2, PERMISSIVE_LID, true), Route::Local);
    let adapter = Node::new(NodeConfig::channel_adapter(1, &[2]));
    assert_eq!(adapter.forward(1, 7, false), Route::Drop(Discard::NoSwitch));
}

#[test]
fn only_active_ports_pass_data_and_any_link_passes_management() {
    let mut agent = active();
    set_linear(&mut agent, 0, &[(7, 3)]);
    for (from, to, data, management) in [
        (state::ACTIVE, state::ACTIVE, Route::Port(3), Route::Port(3)),
        (
            state::ARMED,
            state::ACTIVE,
            Route::Drop(Discard::NotReceiving),
            Route::Port(3),
        ),
        (
            state::INIT,
            state::ACTIVE,
            Route::Drop(Discard::NotReceiving),
            Route::Port(3),
        ),
        (
            state::ACTIVE,
            state::ARMED,
            Route::Drop(Discard::NotSending),
            Route::Port(3),
        ),
        (
            state::ACTIVE,
            state::INIT,
            Route::Drop(Discard::NotSending),
            Route::Port(3),
        ),
        (
            state::ACTIVE,
            state::DOWN,
            Route::Drop(Discard::NotSending),
            Route::Drop(Discard::NotSending),
        ),
        (
            state::DOWN,
            state::ACTIVE,
            Route::Drop(Discard::NotReceiving),
            Route::Drop(Discard::NotReceiving),
        ),
    ] {
        for (port, state) in [(2, from), (3, to)] {
            agent.node.link_down(Time::ZERO, port, &mut agent.out);
            if state != state::DOWN {
                assert!(
                    agent
                        .node
                        .link_up(Time::ZERO, port, agent::OFFER, &mut agent.out)
                );
                assert_eq!(agent.bring(port, state), state);
            }
        }
        assert_eq!(agent.node.forward(2, 7, false), data, "{from} {to}");
        assert_eq!(agent.node.forward(2, 7, true), management, "{from} {to}");
    }
}

#[test]
fn groups_leave_by_all_their_ports_but_one() {
    let mut agent = active();
    let group = MULTICAST_LID + 70;
    set_group(&mut agent, group, &[0, 1, 2, 17, 20]);
    let members = |agent: &Agent, from, lid| match agent.node.forward(from, lid, false) {
        Route::Ports(ports) => ports.iter().collect::<Vec<_>>(),
        route => panic!("{route:?}"),
    };
    assert_eq!(members(&agent, 2, group), [0, 1, 17, 20]);
    assert_eq!(members(&agent, 3, group), [0, 1, 2, 17, 20]);
    agent.node.link_down(Time::ZERO, 17, &mut agent.out);
    assert_eq!(members(&agent, 0, group), [1, 2, 20]);
    assert_eq!(
        agent.node.forward(2, group + 1, false),
        Route::Drop(Discard::NoRoute)
    );
    // Groups that the table does not know go to the primary port, and from there to the other.
    set_info(&mut agent, |info| {
        info.default_multicast_primary_port = 4;
        info.default_multicast_not_primary_port = 6;
    });
    for lid in [group + 1, 0xfffe] {
        assert_eq!(members(&agent, 2, lid), [4]);
        assert_eq!(members(&agent, 4, lid), [6]);
    }
    assert_eq!(members(&agent, 2, group), [0, 1, 20]);
    // Behind MulticastFDBTop nothing counts.
    set_info(&mut agent, |info| info.multicast_fdb_top = group - 1);
    assert_eq!(members(&agent, 2, group), [4]);
    set_info(&mut agent, |info| info.multicast_fdb_top = group);
    assert_eq!(members(&agent, 2, group), [0, 1, 20]);
}

#[test]
fn partitions_are_enforced_where_the_subnet_manager_says_so() {
    let mut agent = active();
    let set_keys = |agent: &mut Agent, port: u32, keys: &[u16]| {
        let mut block = [0; 32];
        block[..keys.len()].copy_from_slice(keys);
        let mut data = [0; 64];
        PKeyBlock(block).emit(&mut data);
        let set = agent.set(1, attribute::P_KEY_TABLE, port << 16, &data);
        assert_eq!(set.unwrap(), (0, data));
    };
    // Port 2 leads to a limited member of the default partition and a full one of 5, port 3 to a
    // full member of the first.
    set_keys(&mut agent, 2, &[0x7fff, 0x8005]);
    set_keys(&mut agent, 3, &[0xffff]);
    let keys = [0xffff, 0x7fff, 0x8005, 0x0005, 0x8006, 0x8000, 0];
    let says = |agent: &Agent, port| {
        let lets = |key: &u16| {
            (
                agent.node.lets_in(port, *key),
                agent.node.lets_out(port, *key),
            )
        };
        keys.iter().map(lets).collect::<Vec<_>>()
    };
    assert!(says(&agent, 2).iter().all(|both| *both == (true, true)));
    for port in [2, 3] {
        let on = |info: &mut ferroce_wire::smp::PortInfo| {
            info.partition_enforcement_inbound = true;
            info.partition_enforcement_outbound = true;
        };
        agent.change(port, on).unwrap();
    }
    // It may not say that it is a full member of what it is a limited one, and gets nothing from
    // the like.
    let limited = [
        (false, true),
        (true, false),
        (true, true),
        (true, true),
        (false, false),
        (false, false),
        (false, false),
    ];
    assert_eq!(says(&agent, 2), limited);
    let no = (false, false);
    let full = [(true, true), (true, true), no, no, no, no, no];
    assert_eq!(says(&agent, 3), full);
    assert!(says(&agent, 4).iter().all(|both| *both == (true, true)));
    // One direction alone.
    agent
        .change(2, |info| info.partition_enforcement_inbound = false)
        .unwrap();
    assert!(agent.node.lets_in(2, 0xffff) && !agent.node.lets_out(2, 0x7fff));
}
