//! The M_Key: who may, what is counted where, and when protection lapses (C14-15, C14-16, C14-17,
//! C14-19 to C14-21, C14-24.1.1, C14-28 to C14-30).

mod agent;

use agent::{Agent, DIRECTED, Out, Recorder, request};
use ferroce_fabric::cm::Time;
use ferroce_wire::mad::MadHeader;
use ferroce_wire::smp::{self, NoticeHeader, PortInfo, attribute, method, trap};

const KEY: u64 = 0x1122_3344_5566_7788;
const OTHER_KEY: u64 = 0x9999;
const WRONG: u64 = 0xbad;
const SECOND: u64 = 1_000_000_000;

/// An adapter with two ports, configured, with a key on each.
fn bench(protect: u8, keys: [u64; 2]) -> Agent {
    let mut agent = Agent::adapter(2);
    for port in [1, 2] {
        agent.configure(port, 10 + u16::from(port), 1);
        agent
            .change(port, |info| {
                info.m_key = keys[usize::from(port) - 1];
                info.m_key_protect_bits = protect;
            })
            .unwrap();
    }
    agent.out.0.clear();
    agent
}

fn violations(agent: &Agent, port: u8) -> u16 {
    agent.node.port(port).unwrap().info().m_key_violations
}

fn key_of(agent: &Agent, port: u8) -> u64 {
    agent.node.port(port).unwrap().info().m_key
}

/// A request for PortInfo of `named` by `port`, with the port's own values.
fn port_info(agent: &Agent, method: u8, named: u8, key: u64) -> smp::Data {
    let _ = (method, key);
    let mut info = *agent.node.port(named).unwrap().info();
    info.port_state = 0;
    info.port_physical_state = 0;
    let mut data = [0; 64];
    info.emit(&mut data);
    data
}

#[test]
fn both_ports_check_the_key_in_all_combinations() {
    let mut checked = 0;
    for protect in 0..=3 {
        for method in [method::GET, method::SET] {
            for port in [1u8, 2] {
                for modifier in [0u8, 1, 2] {
                    for key in [KEY, OTHER_KEY, WRONG, 0] {
                        for keys in [[KEY, KEY], [KEY, OTHER_KEY], [0, KEY], [KEY, 0], [0, 0]] {
                            combination(protect, method, port, modifier, key, keys);
                            checked += 1;
                        }
                    }
                }
            }
        }
    }

    assert_eq!(checked, 4 * 2 * 2 * 3 * 4 * 5);
}

fn combination(protect: u8, method: u8, port: u8, modifier: u8, key: u64, keys: [u64; 2]) {
    let mut agent = bench(protect, keys);
    let named = if modifier == 0 { port } else { modifier };
    let data = port_info(&agent, method, named, key);
    let smp = request(method, attribute::PORT_INFO, modifier.into(), key, &data);
    let answer = agent.ask(port, &smp);

    // A port without a key admits everybody; reading is free below level 2.
    let admits = |number: u8| {
        let own = keys[usize::from(number) - 1];
        own == 0 || own == key
    };

    let is_free = method == method::GET && protect < 2;
    let what = format!("{protect} {method} {port} {modifier} {key:#x} {keys:x?}");
    for number in [1, 2] {
        let concerned = number == port || number == named;
        let violated = concerned && !admits(number) && !is_free;
        assert_eq!(
            violations(&agent, number),
            u16::from(violated),
            "{what} at {number}"
        );

        // The violation is told by the port that it happened at.
        let traps = agent
            .out
            .traps()
            .iter()
            .filter(|(exit, _, _)| *exit == number)
            .count();
        assert_eq!(traps, usize::from(violated), "{what} at {number}");
    }

    let allowed = is_free || admits(port) && admits(named);
    assert_eq!(answer.is_some(), allowed, "{what}");
    if let Some((status, data)) = answer {
        assert_eq!(status, 0, "{what}");
        // Level 0 shows the key to everybody, level 1 only to those who have it.
        let shown = if admits(named) || protect == 0 {
            keys[usize::from(named) - 1]
        } else {
            0
        };
        assert_eq!(PortInfo::parse(&data).m_key, shown, "{what}");
    }

    assert_eq!(key_of(&agent, named), keys[usize::from(named) - 1]);
}

#[test]
fn who_sets_a_key_is_shown_it() {
    let mut agent = bench(0, [0, KEY]);
    let mut info = *agent.node.port(1).unwrap().info();
    (info.port_state, info.port_physical_state) = (0, 0);
    (info.m_key, info.m_key_protect_bits) = (KEY, 2);
    let mut data = [0; 64];
    info.emit(&mut data);
    // The request itself has no key yet.
    let smp = request(method::SET, attribute::PORT_INFO, 1, 0, &data);
    let (status, data) = agent.ask(1, &smp).unwrap();
    assert_eq!((status, PortInfo::parse(&data).m_key), (0, KEY));
    let smp = request(method::GET, attribute::PORT_INFO, 1, 0, &[0; 64]);
    assert_eq!(agent.ask(1, &smp), None);
}

#[test]
fn a_refused_set_changes_nothing() {
    let mut agent = bench(0, [KEY, KEY]);
    let mut info = *agent.node.port(1).unwrap().info();
    info.port_state = 0;
    info.port_physical_state = 0;
    info.m_key = WRONG;
    info.lid = 0x77;
    let mut data = [0; 64];
    info.emit(&mut data);
    let smp = request(method::SET, attribute::PORT_INFO, 1, WRONG, &data);
    assert_eq!(agent.ask(1, &smp), None);
    assert_eq!(key_of(&agent, 1), KEY);
    assert_eq!(agent.node.port(1).unwrap().lid(), 11);
}

#[test]
fn every_attribute_and_trap_repress_are_protected() {
    let attributes = [0x10, 0x11, 0x14, 0x15, 0x16, 0x17, 0x18, 0x30, 0x31, 0x7777];
    for attribute in attributes {
        let mut agent = bench(2, [KEY, KEY]);
        for method in [method::GET, method::SET, method::TRAP_REPRESS] {
            let before = violations(&agent, 1);
            assert_eq!(
                agent.ask(1, &request(method, attribute, 0, WRONG, &[0; 64])),
                None
            );
            assert_eq!(violations(&agent, 1), before + 1, "{attribute:#x} {method}");
        }
    }

    // Who is the subnet manager is no secret, and it is not the agent who answers.
    let mut agent = bench(2, [KEY, KEY]);
    assert!(
        agent
            .ask(
                1,
                &request(method::GET, attribute::SM_INFO, 0, WRONG, &[0; 64])
            )
            .is_some()
    );

    assert_eq!(violations(&agent, 1), 0);
}

#[test]
fn violations_stop_at_their_maximum_and_are_reset_by_zero_only() {
    let mut agent = bench(2, [KEY, KEY]);
    let bad = request(method::GET, attribute::NODE_INFO, 0, WRONG, &[0; 64]);
    for _ in 0..0x1_0005u32 {
        agent.receive(1, DIRECTED, &bad);
        agent.out.0.clear();
    }

    assert_eq!(violations(&agent, 1), 0xffff);

    for (written, expected) in [(5, 0xffff), (0, 0)] {
        let mut info = *agent.node.port(1).unwrap().info();
        info.port_state = 0;
        info.port_physical_state = 0;
        info.m_key_violations = written;
        let mut data = [0; 64];
        info.emit(&mut data);
        let smp = request(method::SET, attribute::PORT_INFO, 1, KEY, &data);
        assert_eq!(agent.ask(1, &smp).unwrap().0, 0);
        assert_eq!(violations(&agent, 1), expected);
    }
}

/// An adapter whose first port has a lease.
fn leased(period: u16) -> Agent {
    let mut agent = bench(2, [0, 0]);
    agent
        .change(1, |info| {
            info.m_key = KEY;
            info.m_key_lease_period = period;
        })
        .unwrap();
    agent.out.0.clear();
    agent
}

fn protect(agent: &Agent) -> u8 {
    agent.node.port(1).unwrap().info().m_key_protect_bits
}

fn get(agent: &mut Agent, key: u64) -> bool {
    agent
        .ask(
            1,
            &request(method::GET, attribute::NODE_INFO, 0, key, &[0; 64]),
        )
        .is_some()
}

#[test]
fn protection_lapses_when_the_lease_has_run_out() {
    let mut agent = leased(5);
    agent.now = Time::from_nanos(10 * SECOND);
    assert!(!get(&mut agent, WRONG));

    // A second violation does not prolong it.
    agent.now = Time::from_nanos(12 * SECOND);
    assert!(!get(&mut agent, WRONG));
    agent.now = Time::from_nanos(15 * SECOND - 1);
    agent.node.handle_timeout(agent.now, &mut agent.out);
    assert_eq!(protect(&agent), 2);
    assert!(!get(&mut agent, WRONG));
    assert!(
        agent
            .node
            .next_timeout()
            .is_some_and(|due| due <= Time::from_nanos(15 * SECOND))
    );

    agent.now = Time::from_nanos(15 * SECOND);
    agent.node.handle_timeout(agent.now, &mut agent.out);
    assert_eq!(
        (protect(&agent), key_of(&agent, 1)),
        (0, KEY),
        "the key stays"
    );

    // Everybody may read now, and so find the key; nobody may write without it.
    assert!(get(&mut agent, WRONG));
    let (_, data) = agent
        .ask(
            1,
            &request(method::GET, attribute::PORT_INFO, 1, WRONG, &[0; 64]),
        )
        .unwrap();
    assert_eq!(PortInfo::parse(&data).m_key, KEY);
    let before = violations(&agent, 1);
    assert_eq!(
        agent.ask(
            1,
            &request(method::SET, attribute::PORT_INFO, 1, WRONG, &data)
        ),
        None
    );

    assert_eq!(violations(&agent, 1), before + 1);
}

#[test]
fn it_lapses_without_a_timer_too() {
    let mut agent = leased(5);
    assert!(!get(&mut agent, WRONG));
    agent.now = Time::from_nanos(5 * SECOND);
    assert!(get(&mut agent, WRONG));
}

#[test]
fn whoever_shows_the_key_stops_the_lease() {
    for method in [method::GET, method::SET, method::TRAP_REPRESS] {
        let mut agent = leased(5);
        assert!(!get(&mut agent, WRONG));
        agent.now = Time::from_nanos(4 * SECOND);
        let data = port_info(&agent, method, 1, KEY);
        let attribute = if method == method::TRAP_REPRESS {
            attribute::NOTICE
        } else {
            attribute::PORT_INFO
        };
        agent.receive(1, DIRECTED, &request(method, attribute, 0, KEY, &data));
        agent.now = Time::from_nanos(100 * SECOND);
        agent.node.handle_timeout(agent.now, &mut agent.out);
        assert_eq!(protect(&agent), 2, "method {method}");
        assert!(!get(&mut agent, WRONG));
    }
}

#[test]
fn without_a_period_protection_is_for_ever() {
    let mut agent = leased(0);
    assert!(!get(&mut agent, WRONG));
    agent.now = Time::from_nanos(1 << 60);
    agent.node.handle_timeout(agent.now, &mut agent.out);
    assert_eq!(protect(&agent), 2);
}

#[test]
fn a_switch_has_one_key_for_all_ports() {
    let mut agent = Agent::switch(3);
    let set = |info: &mut PortInfo| {
        (info.lid, info.master_sm_lid) = (5, 1);
        (info.m_key, info.m_key_protect_bits) = (KEY, 2);
    };
    agent.change(0, set).unwrap();

    for port in 1..=3 {
        for modifier in 0..=3 {
            let smp = request(method::GET, attribute::PORT_INFO, modifier, WRONG, &[0; 64]);
            assert_eq!(agent.ask(port, &smp), None);
            let smp = request(method::GET, attribute::PORT_INFO, modifier, KEY, &[0; 64]);
            let (_, data) = agent.ask(port, &smp).unwrap();
            let info = PortInfo::parse(&data);
            assert_eq!(info.m_key, if modifier == 0 { KEY } else { 0 });
        }
    }

    assert_eq!(violations(&agent, 0), 12);
}

#[test]
fn trap_256_tells_who_tried_what() {
    let mut agent = bench(2, [KEY, KEY]);
    let bad = request(method::SET, attribute::P_KEY_TABLE, 3, WRONG, &[0; 64]);
    agent.receive(1, DIRECTED, &bad);
    let (exit, to, trap) = agent.out.traps()[0];
    let header = MadHeader::parse(&trap).unwrap();
    assert_eq!(
        (exit, to.slid, to.dlid),
        (1, 11, 1),
        "to the subnet manager"
    );

    assert_eq!(
        (header.class, header.attribute, header.modifier),
        (smp::CLASS_LID, attribute::NOTICE, 0)
    );

    let notice = NoticeHeader::parse(smp::data(&trap));
    assert_eq!(
        (notice.trap_number, notice.issuer_lid, notice.producer_type),
        (trap::BAD_M_KEY, 11, 1)
    );

    let details = &smp::data(&trap)[10..];
    assert_eq!(details[2..4], [0xff, 0xff], "where it came from");
    assert_eq!(details[4..6], [0xff, 0xff], "DrSLID");
    assert_eq!(details[6], method::SET);
    assert_eq!(details[8..10], [0, 0x16]);
    assert_eq!(details[10..14], [0, 0, 0, 3]);
    assert_eq!(details[14..22], WRONG.to_be_bytes());
    assert_eq!(details[23], 0x81, "a directed route of one hop");
    assert_eq!(details[24], 1, "by port 1");
    assert!(
        !agent
            .out
            .0
            .iter()
            .any(|out| matches!(out, Out::Deliver(..)))
    );

    assert_eq!(Recorder(agent.out.0.clone()).sent(), []);
}
