//! What a port tells the subnet manager, how often, and until when; and what the subnet manager tells the clients.

mod agent;

use agent::{Agent, DIRECTED, Out, request};
use ferroce_fabric::sma::{Envelope, PortEvent, Violation};
use ferroce_wire::mad::{Mad, MadHeader};
use ferroce_wire::smp::{
    self, CLASS_LID, NoticeHeader, PortInfo, SwitchInfo, attribute, capability, method, state, trap,
};

/// The interval of SubnetTimeOut 18 in nanoseconds.
const INTERVAL: u64 = 4096 << 18;

fn number_of(trap: &Mad) -> u16 {
    NoticeHeader::parse(smp::data(trap)).trap_number
}

fn numbers(agent: &Agent) -> Vec<u16> {
    agent
        .out
        .traps()
        .iter()
        .map(|(_, _, trap)| number_of(trap))
        .collect()
}

fn configured() -> Agent {
    let mut agent = Agent::adapter(1);
    agent.configure(1, 5, 1);
    agent
}

/// TrapRepress by LID, as a subnet manager answers a trap.
fn repress(agent: &mut Agent, trap: &Mad) {
    let mut header = MadHeader::parse(trap).unwrap();
    header.method = method::TRAP_REPRESS;
    let mut smp = *trap;
    header.emit(&mut smp);
    agent.receive(
        1,
        Envelope {
            slid: 1,
            dlid: 5,
            sl: 0,
        },
        &smp,
    );
}

#[test]
fn bad_keys_are_counted_and_told() {
    let mut agent = configured();
    let violation = Violation {
        lid1: 9,
        lid2: 5,
        key: 0x8123,
        sl: 2,
        qp1: 0x11,
        qp2: 0x22,
        ..Violation::default()
    };
    agent.node.p_key_violation(0, 1, violation, &mut agent.out);
    agent.now = INTERVAL;
    agent
        .node
        .q_key_violation(agent.now, 1, violation, &mut agent.out);
    let info = *agent.node.port(1).unwrap().info();
    assert_eq!(
        (
            info.p_key_violations,
            info.q_key_violations,
            info.m_key_violations
        ),
        (1, 1, 0)
    );
    assert_eq!(numbers(&agent)[0], trap::BAD_P_KEY);
    agent.now = 2 * INTERVAL;
    agent.node.handle_timeout(agent.now, &mut agent.out);
    assert!(numbers(&agent).contains(&trap::BAD_Q_KEY));
    for _ in 0..0x1_0000u32 {
        agent
            .node
            .p_key_violation(agent.now, 1, violation, &mut agent.out);
        agent
            .node
            .q_key_violation(agent.now, 1, violation, &mut agent.out);
    }
    let info = *agent.node.port(1).unwrap().info();
    assert_eq!(
        (info.p_key_violations, info.q_key_violations),
        (0xffff, 0xffff)
    );
    agent
        .change(1, |info| {
            (info.p_key_violations, info.q_key_violations) = (0, 1)
        })
        .unwrap();
    let info = *agent.node.port(1).unwrap().info();
    assert_eq!((info.p_key_violations, info.q_key_violations), (0, 0xffff));
}

#[test]
fn a_trap_is_repeated_until_it_is_heard() {
    let mut agent = configured();
    agent
        .node
        .q_key_violation(0, 1, Violation::default(), &mut agent.out);
    assert_eq!(agent.out.traps().len(), 1);
    let (exit, to, first) = agent.out.traps()[0];
    assert_eq!(
        (exit, to),
        (
            1,
            Envelope {
                slid: 5,
                dlid: 1,
                sl: 0
            }
        )
    );
    assert_eq!(agent.node.next_timeout(), Some(INTERVAL));
    agent.node.handle_timeout(INTERVAL - 1, &mut agent.out);
    assert_eq!(agent.out.traps().len(), 1, "no faster than SubnetTimeOut");
    agent.node.handle_timeout(INTERVAL, &mut agent.out);
    assert_eq!(agent.out.traps().len(), 2);
    assert_eq!(
        agent.out.traps()[1].2,
        first,
        "the same, with the same number"
    );
    repress(&mut agent, &first);
    assert_eq!(agent.node.next_timeout(), None);
    agent.node.handle_timeout(10 * INTERVAL, &mut agent.out);
    assert_eq!(agent.out.traps().len(), 2);
}

#[test]
fn not_for_ever_and_not_without_bound() {
    let mut agent = configured();
    for key in 0..1000 {
        let violation = Violation {
            key,
            ..Violation::default()
        };
        agent.node.p_key_violation(0, 1, violation, &mut agent.out);
    }
    let mut now = 0;
    while let Some(due) = agent.node.next_timeout() {
        assert!(due > now);
        now = due;
        agent.node.handle_timeout(now, &mut agent.out);
    }
    let sent = agent.out.traps().len();
    assert_eq!(sent, 8 * 10, "eight traps, ten times each");
    assert_eq!(now, (sent as u64 - 1) * INTERVAL);
}

#[test]
fn nobody_is_told_before_there_is_a_subnet_manager() {
    let mut agent = Agent::adapter(1);
    agent
        .node
        .q_key_violation(0, 1, Violation::default(), &mut agent.out);
    agent.node.set_is_sm(0, 1, true, &mut agent.out);
    assert_eq!(
        (agent.out.traps().len(), agent.node.next_timeout()),
        (0, None)
    );
    // Nor when the link has gone meanwhile.
    let mut agent = configured();
    agent
        .node
        .q_key_violation(0, 1, Violation::default(), &mut agent.out);
    agent.node.link_down(0, 1, &mut agent.out);
    assert_eq!(agent.node.next_timeout(), None);
}

#[test]
fn changes_of_capabilities_are_told_by_trap_144() {
    let mut agent = configured();
    agent.node.set_is_sm(0, 1, true, &mut agent.out);
    assert_ne!(agent.port_info(1).capability_mask & capability::IS_SM, 0);
    agent.node.set_description(0, "another", &mut agent.out);
    agent.node.set_is_sm(0, 1, true, &mut agent.out); // no change
    agent.node.handle_timeout(INTERVAL, &mut agent.out);
    assert_eq!(numbers(&agent), [144, 144]);
    let data = |at: usize| *smp::data(&agent.out.traps()[at].2);
    let mask = agent.node.port(1).unwrap().info().capability_mask;
    assert_eq!(data(0)[12..14], [0, 5]);
    assert_eq!(data(0)[15], 0, "nothing but the mask");
    assert_eq!(data(0)[16..20], mask.to_be_bytes());
    assert_eq!(
        (data(1)[15], data(1)[20..22].to_vec()),
        (1, vec![0, 1]),
        "the description too"
    );
    agent
        .node
        .set_system_image_guid(INTERVAL, 77, &mut agent.out);
    let mut now = INTERVAL;
    while now < 5 * INTERVAL && !numbers(&agent).contains(&145) {
        now = agent.node.next_timeout().unwrap();
        agent.node.handle_timeout(now, &mut agent.out);
    }
    assert!(numbers(&agent).contains(&145));
}

#[test]
fn traps_to_a_subnet_manager_behind_the_same_port_stay_here() {
    let mut agent = Agent::adapter(1);
    agent.node.set_is_sm(0, 1, true, &mut agent.out);
    agent.configure(1, 5, 5);
    agent
        .node
        .q_key_violation(0, 1, Violation::default(), &mut agent.out);
    let delivered: Vec<_> = agent
        .out
        .0
        .iter()
        .filter(|out| {
            matches!(
                out,
                Out::Deliver(
                    1,
                    Envelope {
                        slid: 5,
                        dlid: 5,
                        ..
                    },
                    _
                )
            )
        })
        .collect();
    assert_eq!((delivered.len(), agent.out.traps().len()), (1, 0));
}

#[test]
fn a_switch_tells_when_a_port_changes() {
    let mut agent = Agent::switch(3);
    agent
        .change(0, |info| (info.lid, info.master_sm_lid) = (5, 9))
        .unwrap();
    // The subnet manager is behind port 2.
    let mut block = [0xff; 64];
    (block[5], block[9]) = (0, 2);
    agent
        .set(1, attribute::LINEAR_FORWARDING, 0, &block)
        .unwrap();
    let mut switch = SwitchInfo::parse(&agent.get(1, attribute::SWITCH_INFO, 0).unwrap().1);
    assert!(switch.port_state_change, "the links came up");
    switch.linear_fdb_top = 63;
    let mut data = [0; 64];
    switch.emit(&mut data);
    let (status, data) = agent.set(1, attribute::SWITCH_INFO, 0, &data).unwrap();
    assert_eq!(
        (status, SwitchInfo::parse(&data).port_state_change),
        (0, false),
        "writing one clears it"
    );
    agent.out.0.clear();

    agent.node.link_down(0, 3, &mut agent.out);
    let (exit, to, smp) = agent.out.traps()[0];
    assert_eq!(
        (exit, to),
        (
            2,
            Envelope {
                slid: 5,
                dlid: 9,
                sl: 0
            }
        )
    );
    let notice = NoticeHeader::parse(smp::data(&smp));
    assert_eq!(
        (notice.trap_number, notice.producer_type, notice.issuer_lid),
        (128, 2, 5)
    );
    assert_eq!(smp::data(&smp)[10..12], [0, 5]);
    let (_, data) = agent.get(1, attribute::SWITCH_INFO, 0).unwrap();
    assert!(SwitchInfo::parse(&data).port_state_change);
    // Writing zero leaves it.
    let mut zero = SwitchInfo::parse(&data);
    zero.port_state_change = false;
    let mut data = [0; 64];
    zero.emit(&mut data);
    let (_, data) = agent.set(1, attribute::SWITCH_INFO, 0, &data).unwrap();
    assert!(SwitchInfo::parse(&data).port_state_change);
    // Errors of links are told with the port's number.
    agent
        .node
        .link_errors(INTERVAL, 2, trap::LOCAL_LINK_INTEGRITY, &mut agent.out);
    agent.node.handle_timeout(2 * INTERVAL, &mut agent.out);
    let traps = agent.out.traps();
    let errors = traps
        .iter()
        .find(|(_, _, trap)| number_of(trap) == 129)
        .unwrap();
    assert_eq!(smp::data(&errors.2)[12..15], [0, 5, 2]);
}

#[test]
fn clients_are_asked_to_register_again_and_the_answer_says_so_once() {
    // o14-13, o11-6.1.2
    let mut agent = configured();
    assert_ne!(
        agent.port_info(1).capability_mask & capability::IS_CLIENT_REREGISTRATION_SUPPORTED,
        0
    );
    let (status, answer) = agent
        .change(1, |info| info.client_reregister = true)
        .unwrap();
    assert_eq!((status, answer.client_reregister), (0, true));
    assert_eq!(agent.out.events(), [(1, PortEvent::ClientReregister)]);
    assert!(!agent.port_info(1).client_reregister);
    let (_, answer) = agent
        .change(1, |info| info.client_reregister = false)
        .unwrap();
    assert!(!answer.client_reregister);
    assert_eq!(agent.out.events().len(), 1);
    // As often as it asks.
    agent
        .change(1, |info| info.client_reregister = true)
        .unwrap();
    assert_eq!(agent.out.events().len(), 2);
    // Not with a request that is refused.
    let (status, _) = agent
        .change(1, |info| {
            (info.client_reregister, info.neighbor_mtu) = (true, 9)
        })
        .unwrap();
    assert_eq!(
        (status, agent.out.events().len()),
        (smp::status::INVALID_VALUE, 2)
    );
    // External ports of a switch have no clients, port 0 has.
    let mut agent = Agent::switch(2);
    let (_, answer) = agent
        .change(1, |info| info.client_reregister = true)
        .unwrap();
    assert!(!answer.client_reregister);
    let (_, answer) = agent
        .change(0, |info| info.client_reregister = true)
        .unwrap();
    assert!(answer.client_reregister);
}

#[test]
fn each_event_has_its_cause() {
    let change = |what: fn(&mut PortInfo)| {
        let mut agent = configured();
        let (status, _) = agent.change(1, what).unwrap();
        assert_eq!(status, 0);
        agent
            .out
            .events()
            .into_iter()
            .map(|(_, event)| event)
            .collect::<Vec<_>>()
    };
    assert_eq!(change(|_| ()), []);
    assert_eq!(change(|info| info.lid = 6), [PortEvent::LidChange]);
    assert_eq!(change(|info| info.lmc = 1), [PortEvent::LidChange]);
    assert_eq!(change(|info| info.master_sm_lid = 2), [PortEvent::SmChange]);
    assert_eq!(change(|info| info.master_sm_sl = 2), [PortEvent::SmChange]);
    assert_eq!(change(|info| info.gid_prefix = 2), [PortEvent::GidChange]);
    assert_eq!(
        change(|info| info.port_state = state::DOWN),
        [PortEvent::Error]
    );
    assert_eq!(
        change(|info| info.port_physical_state = 2),
        [PortEvent::Error]
    );
    let mut agent = configured();
    agent.node.link_down(0, 1, &mut agent.out);
    assert_eq!(agent.out.events(), [(1, PortEvent::Error)]);
    // What was never active does not fail.
    let mut agent = Agent::adapter(1);
    agent.node.link_down(0, 1, &mut agent.out);
    assert_eq!(agent.out.events(), []);
}

#[test]
fn the_first_data_packet_activates_an_armed_port() {
    let mut agent = Agent::adapter(1);
    assert!(!agent.node.data_arrived(0, 1, &mut agent.out));
    agent.bring(1, state::ARMED);
    assert!(agent.node.data_arrived(0, 1, &mut agent.out));
    assert_eq!(agent.out.events(), [(1, PortEvent::Active)]);
    assert!(agent.node.data_arrived(0, 1, &mut agent.out));
    assert_eq!(agent.out.events().len(), 1);
    assert!(agent.node.port(1).unwrap().is_active());
}

#[test]
fn a_local_subnet_manager_gets_what_is_for_it() {
    let mut agent = configured();
    let sm_info = |method| {
        let mut smp = request(method, attribute::SM_INFO, 0, 0, &[0; 64]);
        smp[1] = CLASS_LID;
        smp
    };
    let from = Envelope {
        slid: 9,
        dlid: 5,
        sl: 0,
    };
    for (is_sm, method, delivered) in [
        (false, method::GET, false),
        (false, method::SET, false),
        (false, method::TRAP, false),
        (false, method::GET_RESP, true), // a program's answer
        (true, method::GET, true),
        (true, method::SET, true),
        (true, method::TRAP, true),
        (true, method::GET_RESP, true),
    ] {
        agent.node.set_is_sm(0, 1, is_sm, &mut agent.out);
        agent.out.0.clear();
        let smp = sm_info(method);
        agent.receive(1, from, &smp);
        if delivered {
            assert_eq!(agent.out.0, [Out::Deliver(1, from, smp)]);
        } else if method == method::TRAP {
            assert_eq!(agent.out.0, []);
        } else {
            let (_, _, answer) = agent.out.sent()[0];
            assert_eq!(
                MadHeader::parse(&answer).unwrap().status,
                smp::status::UNSUPPORTED_ATTRIBUTE
            );
        }
    }
    // By directed route too, and its answer finds the way back.
    agent.out.0.clear();
    let smp = request(method::GET, attribute::SM_INFO, 0, 0, &[0; 64]);
    agent.receive(1, DIRECTED, &smp);
    let Out::Deliver(1, DIRECTED, mut asked) = agent.out.0[0] else {
        panic!()
    };
    asked[3] = method::GET_RESP;
    asked[4] |= 0x80;
    agent.node.send(0, 1, DIRECTED, &asked, &mut agent.out);
    let (exit, to, answer) = agent.out.sent()[0];
    assert_eq!((exit, to), (1, DIRECTED));
    assert_eq!(smp::Directed::parse(&answer).hop_pointer, 1);
}
