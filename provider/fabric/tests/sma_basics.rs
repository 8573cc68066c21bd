//! What a subnet manager asks first, and the answers' way back, by directed route and by LID.

mod agent;

use agent::{Agent, Out, request};
use ferroce_fabric::sma::{Envelope, PortEvent};
use ferroce_wire::mad::MadHeader;
use ferroce_wire::smp::{
    CLASS_LID, NodeInfo, PERMISSIVE_LID, PortInfo, attribute, method, phys_state, state, status,
};

#[test]
fn an_adapter_says_what_it_is() {
    let mut agent = Agent::adapter(2);
    let (status, data) = agent.get(2, attribute::NODE_INFO, 0).unwrap();
    assert_eq!(status, 0);
    let info = NodeInfo::parse(&data);
    assert_eq!(
        (info.node_type, info.num_ports, info.local_port_num),
        (1, 2, 2)
    );

    assert_eq!(
        (info.node_guid, info.port_guid, info.partition_cap),
        (1, 0x11, 128)
    );

    assert_eq!(
        agent.get(2, attribute::NODE_INFO, 1).unwrap().0,
        status::INVALID_VALUE
    );

    assert_eq!(
        agent.set(2, attribute::NODE_INFO, 0, &data).unwrap().0,
        status::UNSUPPORTED_ATTRIBUTE
    );
}

#[test]
fn a_port_is_armed_and_activated() {
    let mut agent = Agent::adapter(1);
    let info = agent.port_info(1);
    assert_eq!(
        (info.port_state, info.port_physical_state),
        (state::INIT, phys_state::LINK_UP)
    );

    assert_eq!(
        (
            info.link_width_active,
            info.link_speed_active,
            info.link_speed_ext_active
        ),
        (2, 4, 2)
    );

    let (status, _) = agent
        .change(1, |info| info.port_state = state::ACTIVE)
        .unwrap();
    assert_eq!(status, status::INVALID_VALUE, "not before it is armed");
    assert_eq!(agent.port_info(1).lid, 0, "and nothing else has changed");
    let (status, info) = agent
        .change(1, |info| {
            info.lid = 7;
            info.master_sm_lid = 1;
            info.port_state = state::ARMED;
        })
        .unwrap();
    assert_eq!((status, info.port_state, info.lid), (0, state::ARMED, 7));
    agent
        .change(1, |info| info.port_state = state::ACTIVE)
        .unwrap();
    assert_eq!(agent.port_info(1).port_state, state::ACTIVE);
    assert_eq!(
        agent.out.events(),
        [
            (1, PortEvent::LidChange),
            (1, PortEvent::SmChange),
            (1, PortEvent::Active)
        ]
    );
}

#[test]
fn port_zero_of_an_adapter_is_the_one_that_was_asked() {
    let mut agent = Agent::adapter(2);
    agent.change(2, |info| info.lid = 9).unwrap();
    let (status, data) = agent.get(2, attribute::PORT_INFO, 0).unwrap();
    assert_eq!((status, PortInfo::parse(&data).lid), (0, 9));
    let (status, data) = agent.get(1, attribute::PORT_INFO, 2).unwrap();
    let info = PortInfo::parse(&data);
    assert_eq!((status, info.lid, info.local_port_num), (0, 9, 1));
    assert_eq!(
        agent.get(1, attribute::PORT_INFO, 3).unwrap().0,
        status::INVALID_VALUE
    );
}

#[test]
fn by_lid_only_its_own_lids_are_answered() {
    let mut agent = Agent::adapter(1);
    agent.configure(1, 0x20, 1);
    agent.change(1, |info| info.lmc = 2).unwrap();
    agent.out.0.clear();
    let mut smp = request(method::GET, attribute::NODE_INFO, 0, 0, &[0; 64]);
    smp[1] = CLASS_LID;
    smp[6..8].fill(0);

    for dlid in (0u16..0x40).chain([0xbfff, 0xc000, 0xfffe]) {
        let from = Envelope {
            slid: 9,
            dlid,
            sl: 3,
        };
        agent.receive(1, from, &smp);
        let answers = std::mem::take(&mut agent.out.0);
        if (0x20..0x24).contains(&dlid) {
            let [Out::Send(1, to, answer)] = answers[..] else {
                panic!("{answers:?}")
            };
            assert_eq!(
                to,
                Envelope {
                    slid: dlid,
                    dlid: 9,
                    sl: 3
                },
                "back by the way it came"
            );
            let header = MadHeader::parse(&answer).unwrap();
            assert_eq!((header.method, header.status), (method::GET_RESP, 0));
        } else {
            assert_eq!(answers, [], "{dlid:#x}");
        }
    }

    agent.receive(
        1,
        Envelope {
            slid: 9,
            dlid: PERMISSIVE_LID,
            sl: 0,
        },
        &smp,
    );

    assert!(matches!(
        agent.out.0[..],
        [Out::Send(
            1,
            Envelope {
                slid: 0x20,
                dlid: 9,
                ..
            },
            _
        )]
    ));
}
