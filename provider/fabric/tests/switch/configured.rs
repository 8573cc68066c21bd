//! A switch that a subnet manager has configured, and how one sets its SwitchInfo and forwarding
//! tables.

use crate::agent::Agent;
use ferroce_wire::smp::{LinearBlock, MULTICAST_LID, MulticastBlock, SwitchInfo, attribute, state};

/// External ports of the switch.
pub(crate) const PORTS: u8 = 20;

/// A switch with LID 5 that is configured, and of which all ports are active.
pub(crate) fn active() -> Agent {
    let mut agent = Agent::switch(PORTS);
    agent
        .change(0, |info| (info.lid, info.master_sm_lid) = (5, 1))
        .unwrap();
    for port in 1..=PORTS {
        assert_eq!(agent.bring(port, state::ACTIVE), state::ACTIVE);
    }
    set_info(&mut agent, |info| info.linear_fdb_top = 200);
    agent
}

/// Its SwitchInfo.
pub(crate) fn switch_info(agent: &mut Agent) -> SwitchInfo {
    let (status, data) = agent.get(1, attribute::SWITCH_INFO, 0).unwrap();
    assert_eq!(status, 0);
    SwitchInfo::parse(&data)
}

/// Sets SwitchInfo with something changed; the status of the answer.
pub(crate) fn set_info(agent: &mut Agent, change: impl FnOnce(&mut SwitchInfo)) -> u16 {
    let mut info = switch_info(agent);
    change(&mut info);
    let mut data = [0; 64];
    info.emit(&mut data);
    agent.set(1, attribute::SWITCH_INFO, 0, &data).unwrap().0
}

/// Sets entries of a block of the linear forwarding table, by their places in the block.
pub(crate) fn set_linear(agent: &mut Agent, block: u32, routes: &[(usize, u8)]) {
    let mut entries =
        LinearBlock::parse(&agent.get(1, attribute::LINEAR_FORWARDING, block).unwrap().1);
    for (entry, port) in routes {
        entries.0[*entry] = *port;
    }
    let mut data = [0; 64];
    entries.emit(&mut data);
    assert_eq!(
        agent
            .set(1, attribute::LINEAR_FORWARDING, block, &data)
            .unwrap(),
        (0, data)
    );
}

/// Sets the ports that packets to a group leave by.
pub(crate) fn set_group(agent: &mut Agent, lid: u16, ports: &[u8]) {
    let entry = usize::from(lid - MULTICAST_LID);
    for position in 0..=PORTS / 16 {
        let modifier = u32::from(position) << 28 | (entry / 32) as u32;
        let mut block = MulticastBlock::parse(
            &agent
                .get(1, attribute::MULTICAST_FORWARDING, modifier)
                .unwrap()
                .1,
        );

        block.0[entry % 32] = ports
            .iter()
            .filter(|port| **port / 16 == position)
            .map(|port| 1 << (port % 16))
            .sum();

        let mut data = [0; 64];
        block.emit(&mut data);
        assert_eq!(
            agent
                .set(1, attribute::MULTICAST_FORWARDING, modifier, &data)
                .unwrap(),
            (0, data)
        );
    }
}
