//! What consumers of a port and a local subnet manager are told.

mod agent;

use agent::{Agent, DIRECTED, Out, request};
use ferroce_fabric::cm::Time;
use ferroce_fabric::sma::{Envelope, PortEvent};
use ferroce_wire::mad::MadHeader;
use ferroce_wire::smp::{self, CLASS_LID, PortInfo, attribute, capability, method, state};

fn configured() -> Agent {
    let mut agent = Agent::adapter(1);
    agent.configure(1, 5, 1);
    agent
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

    // Not with a request that is refused, whose answer says so.
    let (status, answer) = agent
        .change(1, |info| {
            (info.client_reregister, info.neighbor_mtu) = (true, 9)
        })
        .unwrap();

    assert_eq!(
        (status, agent.out.events().len()),
        (smp::status::INVALID_VALUE, 2)
    );

    assert!(!answer.client_reregister);

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
    agent.node.link_down(Time::ZERO, 1, &mut agent.out);
    assert_eq!(agent.out.events(), [(1, PortEvent::Error)]);

    // What was never active does not fail.
    let mut agent = Agent::adapter(1);
    agent.node.link_down(Time::ZERO, 1, &mut agent.out);
    assert_eq!(agent.out.events(), []);
}

#[test]
fn the_first_data_packet_activates_an_armed_port() {
    let mut agent = Agent::adapter(1);
    assert!(!agent.node.data_arrived(1, &mut agent.out));
    agent.bring(1, state::ARMED);
    assert!(agent.node.data_arrived(1, &mut agent.out));
    assert_eq!(agent.out.events(), [(1, PortEvent::Active)]);
    assert!(agent.node.data_arrived(1, &mut agent.out));
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
        agent.node.set_is_sm(Time::ZERO, 1, is_sm, &mut agent.out);
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
    agent
        .node
        .send(Time::ZERO, 1, DIRECTED, &asked, &mut agent.out);
    let (exit, to, answer) = agent.out.sent()[0];
    assert_eq!((exit, to), (1, DIRECTED));
    assert_eq!(smp::Directed::parse(&answer).hop_pointer, 1);
}
