//! What a port tells the subnet manager, how often, and until when.

mod agent;

use agent::{Agent, Out};
use ferroce_fabric::cm::Time;
use ferroce_fabric::sma::{Envelope, Gate, Violation};
use ferroce_wire::mad::{Mad, MadHeader, QP1_QKEY};
use ferroce_wire::smp::{
    self, NoticeHeader, SwitchInfo, attribute, capability, method, state, trap,
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

    agent
        .node
        .p_key_violation(Time::ZERO, 1, 1, violation, &mut agent.out);
    agent.now = Time::from_nanos(INTERVAL);
    agent
        .node
        .q_key_violation(agent.now, 1, 1, violation, &mut agent.out);
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
    agent.now = Time::from_nanos(2 * INTERVAL);
    agent.node.handle_timeout(agent.now, &mut agent.out);
    assert!(numbers(&agent).contains(&trap::BAD_Q_KEY));

    for _ in 0..0x1_0000u32 {
        agent
            .node
            .p_key_violation(agent.now, 1, 1, violation, &mut agent.out);
        agent
            .node
            .q_key_violation(agent.now, 1, 1, violation, &mut agent.out);
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
        .q_key_violation(Time::ZERO, 1, 1, Violation::default(), &mut agent.out);
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

    assert_eq!(agent.node.next_timeout(), Some(Time::from_nanos(INTERVAL)));
    agent
        .node
        .handle_timeout(Time::from_nanos(INTERVAL - 1), &mut agent.out);
    assert_eq!(agent.out.traps().len(), 1, "no faster than SubnetTimeOut");
    agent
        .node
        .handle_timeout(Time::from_nanos(INTERVAL), &mut agent.out);
    assert_eq!(agent.out.traps().len(), 2);
    assert_eq!(
        agent.out.traps()[1].2,
        first,
        "the same, with the same number"
    );

    repress(&mut agent, &first);
    assert_eq!(agent.node.next_timeout(), None);
    agent
        .node
        .handle_timeout(Time::from_nanos(10 * INTERVAL), &mut agent.out);
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
        agent
            .node
            .p_key_violation(Time::ZERO, 1, 1, violation, &mut agent.out);
    }

    let mut now = 0;
    while let Some(due) = agent.node.next_timeout() {
        assert!(due > Time::from_nanos(now));
        now = due.as_nanos();
        agent
            .node
            .handle_timeout(Time::from_nanos(now), &mut agent.out);
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
        .q_key_violation(Time::ZERO, 1, 1, Violation::default(), &mut agent.out);
    agent.node.set_is_sm(Time::ZERO, 1, true, &mut agent.out);
    assert_eq!(
        (agent.out.traps().len(), agent.node.next_timeout()),
        (0, None)
    );

    // Nor when the link has gone meanwhile.
    let mut agent = configured();
    agent
        .node
        .q_key_violation(Time::ZERO, 1, 1, Violation::default(), &mut agent.out);
    agent.node.link_down(Time::ZERO, 1, &mut agent.out);
    assert_eq!(agent.node.next_timeout(), None);
}

#[test]
fn changes_of_capabilities_are_told_by_trap_144() {
    let mut agent = configured();
    agent.node.set_is_sm(Time::ZERO, 1, true, &mut agent.out);
    assert_ne!(agent.port_info(1).capability_mask & capability::IS_SM, 0);
    agent
        .node
        .set_description(Time::ZERO, "another", &mut agent.out);
    agent.node.set_is_sm(Time::ZERO, 1, true, &mut agent.out); // no change
    agent
        .node
        .handle_timeout(Time::from_nanos(INTERVAL), &mut agent.out);
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
        .set_system_image_guid(Time::from_nanos(INTERVAL), 77, &mut agent.out);
    let mut now = INTERVAL;
    while now < 5 * INTERVAL && !numbers(&agent).contains(&145) {
        now = agent.node.next_timeout().unwrap().as_nanos();
        agent
            .node
            .handle_timeout(Time::from_nanos(now), &mut agent.out);
    }

    assert!(numbers(&agent).contains(&145));
}

#[test]
fn traps_to_a_subnet_manager_behind_the_same_port_stay_here() {
    let mut agent = Agent::adapter(1);
    agent.node.set_is_sm(Time::ZERO, 1, true, &mut agent.out);
    agent.configure(1, 5, 5);
    agent
        .node
        .q_key_violation(Time::ZERO, 1, 1, Violation::default(), &mut agent.out);
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

    // What the subnet manager does itself is no news to it.
    for command in [state::ARMED, state::ACTIVE, state::DOWN] {
        agent.change(3, |info| info.port_state = command).unwrap();
    }
    let switch = SwitchInfo::parse(&agent.get(1, attribute::SWITCH_INFO, 0).unwrap().1);
    assert_eq!(
        (switch.port_state_change, agent.out.traps().len()),
        (false, 0)
    );

    assert!(
        agent
            .node
            .link_up(Time::ZERO, 3, agent::OFFER, &mut agent.out)
    );

    let (_, _, up) = agent.out.traps()[0];
    assert_eq!(number_of(&up), 128, "but that the link came back");
    let mut heard = up;
    heard[3] = method::TRAP_REPRESS;
    agent.receive(
        2,
        Envelope {
            slid: 9,
            dlid: 5,
            sl: 0,
        },
        &heard,
    );

    agent.now = Time::from_nanos(INTERVAL);
    agent.out.0.clear();

    agent.node.link_down(agent.now, 3, &mut agent.out);
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
    agent.node.link_errors(
        Time::from_nanos(2 * INTERVAL),
        2,
        trap::LOCAL_LINK_INTEGRITY,
        &mut agent.out,
    );

    agent
        .node
        .handle_timeout(Time::from_nanos(3 * INTERVAL), &mut agent.out);
    let traps = agent.out.traps();
    let errors = traps
        .iter()
        .find(|(_, _, trap)| number_of(trap) == 129)
        .unwrap();
    assert_eq!(smp::data(&errors.2)[12..15], [0, 5, 2]);
}

#[test]
fn qp1_takes_what_has_its_keys() {
    let mut agent = Agent::adapter(1);
    let gate = |agent: &mut Agent, dlid, p_key, q_key| {
        agent.node.gate(1, dlid, p_key, q_key, &mut agent.out)
    };
    assert_eq!(gate(&mut agent, 5, 0xffff, QP1_QKEY), Gate::Closed);
    agent.configure(1, 5, 1);
    assert_eq!(gate(&mut agent, 6, 0xffff, QP1_QKEY), Gate::Closed);
    assert_eq!(gate(&mut agent, 5, 0x8001, 0), Gate::WrongPKey);
    assert_eq!(gate(&mut agent, 5, 0xffff, 0), Gate::WrongQKey);
    let mut block = [0; 64];
    block[..4].copy_from_slice(&[0x7f, 0xff, 0x80, 1]);
    agent.set(1, attribute::P_KEY_TABLE, 0, &block).unwrap();
    assert_eq!(gate(&mut agent, 5, 1, QP1_QKEY), Gate::Open(1));

    // Limited members do not talk to each other.
    assert_eq!(gate(&mut agent, 5, 0x7fff, QP1_QKEY), Gate::WrongPKey);
    assert_eq!(gate(&mut agent, 5, 0xffff, QP1_QKEY), Gate::Open(0));
}
