//! PortInfo, component by component: read-only stays, read-write takes legal values, illegal ones
//! are refused and nothing else changes (C14-24.1.1).

mod agent;
#[path = "port_info/legal.rs"]
mod legal;

use agent::{Agent, request};
use ferroce_fabric::cm::Time;
use ferroce_fabric::sma::{NodeConfig, NodeKind};
use ferroce_wire::bits::Field;
use ferroce_wire::smp::{Data, PortInfo, attribute, method, phys_state, state, status};
use legal::{Fate, KINDS, Kind, fate};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence::WithSource;

/// An agent with its port configured and active, and the number of the port.
fn bench(kind: Kind) -> (Agent, u8) {
    let mut config = NodeConfig::channel_adapter(1, &[0x10, 0x11]);
    if kind != Kind::Adapter {
        config = NodeConfig::switch(2, 4);
    }

    config.link.vl_cap = 4;
    let (mut agent, port) = match config.kind {
        NodeKind::ChannelAdapter => (Agent::linked(config), 1),
        NodeKind::Switch => (Agent::linked(config), u8::from(kind == Kind::External)),
    };

    if kind == Kind::Internal {
        agent
            .change(0, |info| (info.lid, info.master_sm_lid) = (7, 1))
            .unwrap();
    } else {
        agent.configure(port, 7, 1);
    }

    (agent, port)
}

fn data_of(info: &PortInfo) -> Data {
    let mut data = [0; 64];
    info.emit(&mut data);
    data
}

/// PortInfo as one reads it, and as one writes it back without changing a state.
fn read(agent: &mut Agent, port: u8) -> (Data, Data) {
    let smp = request(method::GET, attribute::PORT_INFO, port.into(), 0, &[0; 64]);
    let (status, data) = agent.ask(1, &smp).unwrap();
    assert_eq!(status, 0);
    let mut info = PortInfo::parse(&data);
    info.port_state = state::NO_CHANGE;
    info.port_physical_state = phys_state::NO_CHANGE;
    // What an external port does not have, it does not have legal values of.
    (data, data_of(&info))
}

/// Sets one component to one value, and looks at all of them.
fn check(kind: Kind, field: &Field, value: u128) {
    let (mut agent, port) = bench(kind);
    let (before, mut data) = read(&mut agent, port);
    let old = field.load(&before);
    field.store(&mut data, value);
    let smp = request(method::SET, attribute::PORT_INFO, port.into(), 0, &data);
    let (status, answer) = agent.ask(1, &smp).expect("it has no M_Key, so it answers");
    let expected = fate(kind, field, old, value);
    let mut after = before;
    if let Fate::Becomes(value) = expected {
        field.store(&mut after, value);
    }

    let refused = expected == Fate::Refused;
    assert_eq!(
        status,
        if refused { status::INVALID_VALUE } else { 0 },
        "{kind:?} {} = {value:#x}",
        field.name
    );

    // From here on the key is needed, and the states follow each other.
    let info = agent.node.port(port).unwrap().info();
    let mut now = data_of(info);
    for other in PortInfo::FIELDS {
        let follows = match other.name {
            "local_port_num" => true,
            "port_state" => field.name == "port_physical_state",
            "port_physical_state" => field.name == "port_state",
            "link_speed_ext_active" => info.port_state == state::DOWN,
            _ => false,
        };
        if follows && !refused {
            other.store(&mut now, other.load(&after));
        }
        if other.name == "local_port_num" {
            other.store(&mut now, other.load(&after));
        }

        assert_eq!(
            other.load(&now),
            other.load(&after),
            "{kind:?} {} = {value:#x} at {}",
            field.name,
            other.name
        );
    }

    if !refused && field.name != "client_reregister" {
        assert_eq!(
            field.load(&answer),
            field.load(&after),
            "the answer shows it"
        );
    }
}

#[test]
fn every_component_has_a_rule_and_keeps_it() {
    let mut checked = 0;
    for kind in KINDS {
        for field in PortInfo::FIELDS {
            // All values of what is narrow; of the rest the edges.
            let values: Vec<u128> = if field.bits <= 5 {
                (0..=field.max()).collect()
            } else {
                let edges = [
                    0,
                    1,
                    2,
                    3,
                    0xbfff,
                    0xc000,
                    0xfffe,
                    0xffff,
                    field.max() - 1,
                    field.max(),
                ];

                edges
                    .into_iter()
                    .filter(|value| *value <= field.max())
                    .collect()
            };

            for value in values {
                check(kind, field, value);
                checked += 1;
            }
        }
    }

    assert!(checked > 1200, "{checked}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_failure_persistence(WithSource("regressions")))]

    #[test]
    fn any_value_of_any_component(kind in prop::sample::select(&KINDS[..]), field in 0..PortInfo::FIELDS.len(), value: u128) {
        let field = &PortInfo::FIELDS[field];
        check(kind, field, value & field.max());
    }

    #[test]
    fn any_request_at_all_is_refused_whole_or_carried_out(random in prop::collection::vec(any::<u8>(), 64)) {
        let (mut agent, port) = bench(Kind::Adapter);
        let data: Data = random.try_into().unwrap();
        let before = *agent.node.port(port).unwrap().info();
        let smp = request(method::SET, attribute::PORT_INFO, 1, 0, &data);
        let (status, _) = agent.ask(1, &smp).unwrap();
        let after = *agent.node.port(port).unwrap().info();
        let refusals = PortInfo::FIELDS.iter().filter(|field| {
            let old = field.load(&data_of(&before));
            fate(Kind::Adapter, field, old, field.load(&data)) == Fate::Refused
        }).count();
        let both = PortInfo::parse(&data);
        let contradiction = both.port_state > 1 && both.port_physical_state != 0;
        prop_assert_eq!(status == status::INVALID_VALUE, refusals > 0 || contradiction);
        if status != 0 {
            prop_assert_eq!(before, after);
        }
    }
}

#[test]
fn states_go_only_where_they_may() {
    // From each state what each command leads to; `None` is a refusal.
    let table = [
        (
            state::DOWN,
            [Some(state::DOWN), Some(state::DOWN), None, None, None],
        ),
        (
            state::INIT,
            [
                Some(state::INIT),
                Some(state::DOWN),
                None,
                Some(state::ARMED),
                None,
            ],
        ),
        (
            state::ARMED,
            [
                Some(state::ARMED),
                Some(state::DOWN),
                None,
                None,
                Some(state::ACTIVE),
            ],
        ),
        (
            state::ACTIVE,
            [Some(state::ACTIVE), Some(state::DOWN), None, None, None],
        ),
    ];

    for (from, commands) in table {
        for (command, expected) in commands.into_iter().enumerate() {
            let mut agent = Agent::adapter(2);

            // The second port is asked by way of the first, which keeps its link.
            let reached = agent.bring(2, from);
            assert_eq!(reached, from);
            let (status, _) = agent
                .change_by(1, 2, |info| info.port_state = command as u8)
                .unwrap();
            let now = agent.node.port(2).unwrap().info().port_state;
            match expected {
                Some(state) => assert_eq!((status, now), (0, state), "{from} by {command}"),
                None => assert_eq!(
                    (status, now),
                    (status::INVALID_VALUE, from),
                    "{from} by {command}"
                ),
            }
        }
    }
}

#[test]
fn a_port_is_switched_off_and_stays_so() {
    use agent::{OFFER, Out};
    use ferroce_fabric::sma::{LinkCommand, PortEvent};

    let mut agent = Agent::adapter(2);
    agent.configure(2, 5, 1);
    let disable = |info: &mut PortInfo| info.port_physical_state = phys_state::DISABLED;
    agent.change_by(1, 2, disable).unwrap();
    let info = *agent.node.port(2).unwrap().info();
    assert_eq!(
        (info.port_state, info.port_physical_state),
        (state::DOWN, phys_state::DISABLED)
    );

    assert!(agent.out.0.contains(&Out::Event(2, PortEvent::Error)));
    assert!(agent.out.0.contains(&Out::Link(2, LinkCommand::Disable)));

    // Neither a peer nor a plain command to go down wakes it.
    assert!(!agent.node.link_up(Time::ZERO, 2, OFFER, &mut agent.out));
    agent
        .change_by(1, 2, |info| info.port_state = state::DOWN)
        .unwrap();
    assert_eq!(
        agent.node.port(2).unwrap().info().port_physical_state,
        phys_state::DISABLED
    );

    agent.out.0.clear();
    agent
        .change_by(1, 2, |info| info.port_physical_state = phys_state::POLLING)
        .unwrap();
    assert!(agent.out.0.contains(&Out::Link(2, LinkCommand::Poll)));
    assert!(agent.node.link_up(Time::ZERO, 2, OFFER, &mut agent.out));
    let info = agent.node.port(2).unwrap().info();
    assert_eq!(
        (info.port_state, info.port_physical_state, info.lid),
        (state::INIT, phys_state::LINK_UP, 5)
    );
}

#[test]
fn a_lost_link_goes_to_its_default_state() {
    let mut agent = Agent::adapter(1);
    agent
        .change(1, |info| info.link_down_default_state = phys_state::SLEEP)
        .unwrap();
    agent.node.link_down(Time::ZERO, 1, &mut agent.out);
    let port = agent.node.port(1).unwrap();
    assert_eq!(port.info().port_physical_state, phys_state::SLEEP);
    assert_eq!(
        (port.info().port_state, port.link_downed()),
        (state::DOWN, 1)
    );

    agent.node.link_down(Time::ZERO, 1, &mut agent.out);
    assert_eq!(
        agent.node.port(1).unwrap().link_downed(),
        1,
        "it cannot be lost twice"
    );
}

#[test]
fn both_ends_take_the_best_that_both_have() {
    use ferroce_fabric::sma::{Node, Offer};

    let trained = |widths, speeds, speeds_ext| {
        let mut node = Node::new(NodeConfig::channel_adapter(1, &[2]));
        let mut out = agent::Recorder::default();
        let up = node.link_up(
            Time::ZERO,
            1,
            Offer {
                widths,
                speeds,
                speeds_ext,
            },
            &mut out,
        );

        let info = node.port(1).unwrap().info();
        up.then_some((
            info.link_width_active,
            info.link_speed_active,
            info.link_speed_ext_active,
        ))
    };

    assert_eq!(trained(0b11, 0b111, 0b11), Some((2, 4, 2)));
    assert_eq!(trained(0b01, 0b011, 0b00), Some((1, 2, 0)));
    assert_eq!(trained(0b1111, 0b1111, 0b0001), Some((2, 4, 1)));
    assert_eq!(trained(0b1000, 0b111, 0b11), None, "no width in common");
}
