//! Fabrics of many simulated nodes: a small subnet manager finds all of them by directed routes,
//! gives them LIDs and routes, and then everything reaches everything by LID.

mod subnet;

use ferroce_fabric::sma::{Envelope, PortEvent};
use ferroce_wire::mad::MadHeader;
use ferroce_wire::smp::{
    self, Directed, MulticastBlock, NodeInfo, NoticeHeader, PERMISSIVE_LID, SwitchInfo, attribute,
    method,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence::WithSource;
use std::collections::BTreeSet;
use std::time::Duration;
use subnet::shapes::{adapters, line, tree};
use subnet::{DIRECTED, Fabric, adapter, switch};

/// Every node is found, everything reaches everything.
fn check(fabric: &mut Fabric) {
    let found = fabric.configure();
    let guids: BTreeSet<u64> = fabric
        .nodes
        .iter()
        .map(|node| node.config().node_guid)
        .collect();
    assert_eq!(found.keys().copied().collect::<BTreeSet<_>>(), guids);
    let cables: usize = found.values().map(|node| node.links.len()).sum();
    assert_eq!(cables, fabric.cables.len());

    for node in found.values() {
        let (status, data) = fabric
            .ask_lid(node.lid, method::GET, attribute::NODE_INFO, 0, &[0; 64])
            .expect("reached by LID");
        assert_eq!(
            (status, NodeInfo::parse(&data).node_guid),
            (0, node.info.node_guid)
        );
    }

    for from in adapters(fabric) {
        for (to, node) in fabric.nodes.iter().enumerate() {
            let lid = found[&node.config().node_guid].lid;
            if from != to {
                assert_eq!(fabric.follow(from, lid), BTreeSet::from([to]));
            }
        }
    }

    // All ports with a cable are active, and say so.
    for (node, port) in fabric.cables.keys() {
        assert!(fabric.nodes[*node].port(*port).unwrap().is_active());
    }
    for from in adapters(fabric) {
        assert!(fabric.events.contains(&((from, 1), PortEvent::Active)));
    }
}

#[test]
fn two_adapters_back_to_back() {
    let mut fabric = Fabric::new(vec![adapter(0), adapter(1)], &[((0, 1), (1, 1))]);
    let found = fabric.configure();
    assert_eq!(found.len(), 2);
    let lid = found[&fabric.nodes[1].config().node_guid].lid;
    assert!(
        fabric
            .ask_lid(lid, method::GET, attribute::NODE_INFO, 0, &[0; 64])
            .is_some()
    );
    assert_eq!(fabric.follow(0, lid), BTreeSet::from([1]));
}

#[test]
fn lines_of_switches() {
    for count in [1, 2, 7] {
        check(&mut line(count));
    }
}

#[test]
fn a_tree_of_64_adapters() {
    check(&mut tree(8, 4, 8));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::with_failure_persistence(WithSource("regressions")) })]

    #[test]
    fn any_fabric_with_loops_and_double_cables(count in 1usize..10, places in prop::collection::vec((0usize..10, 0usize..10), 1..30)) {
        // Node 0 is the adapter with the subnet manager, 1 to count are switches, then adapters as
        // long as there are ports.
        let mut nodes = vec![adapter(0)];
        nodes.extend((1..=count).map(|number| switch(number, 12)));
        let mut used = vec![0u8; count + 1];
        let mut cables = Vec::new();
        let mut port = |at: usize| { used[at] += 1; (used[at] <= 12).then_some((at, used[at])) };
        cables.push(((0, 1), port(1).unwrap()));
        for at in 2..=count {
            let (Some(a), Some(b)) = (port(1 + at % (at - 1)), port(at)) else { continue };
            cables.push((a, b));
        }
        for (a, b) in places {
            let (a, b) = (1 + a % count, 1 + b % count);
            if a == b {
                if let Some(end) = port(a) {
                    cables.push(((nodes.len(), 1), end));
                    nodes.push(adapter(nodes.len()));
                }
            } else if let (Some(a), Some(b)) = (port(a), port(b)) {
                cables.push((a, b));
            }
        }
        check(&mut Fabric::new(nodes, &cables));
    }
}

#[test]
fn routes_have_63_hops_and_not_one_more() {
    // A ring of two switches: a directed route may go round and round.
    let mut fabric = Fabric::new(
        vec![adapter(0), switch(1, 3), switch(2, 3)],
        &[((0, 1), (1, 1)), ((1, 2), (2, 2))],
    );

    let mut path = vec![1];
    path.extend([2; 62]);
    let (status, data) = fabric
        .ask(&path, method::GET, attribute::NODE_INFO, 0, &[0; 64])
        .expect("63 hops");
    assert_eq!(
        (status, NodeInfo::parse(&data).node_guid),
        (0, fabric.nodes[1].config().node_guid)
    );

    path.push(2);
    assert!(
        fabric
            .ask(&path, method::GET, attribute::NODE_INFO, 0, &[0; 64])
            .is_none()
    );
}

#[test]
fn ways_that_lead_nowhere_are_silent() {
    let mut fabric = line(2);
    for path in [
        &[2][..],
        &[0],
        &[1, 0],
        &[1, 4],
        &[1, 5],
        &[1, 255],
        &[1, 3, 1, 1],
    ] {
        assert!(
            fabric
                .ask(path, method::GET, attribute::NODE_INFO, 0, &[0; 64])
                .is_none(),
            "{path:?}"
        );
    }
}

#[test]
fn a_route_begins_or_ends_by_lid() {
    let mut fabric = line(4);
    let found = fabric.configure();
    let lid = |fabric: &Fabric, node: usize| found[&fabric.nodes[node].config().node_guid].lid;
    let own = lid(&fabric, 0);
    let guid = |fabric: &Fabric, node: usize| fabric.nodes[node].config().node_guid;
    let answered = |fabric: &mut Fabric, to: Envelope, smp| {
        let answer = fabric.exchange(to, &smp)?;
        let header = MadHeader::parse(&answer).unwrap();
        assert_eq!(header.status & 0x7fff, 0);
        assert_eq!(Directed::parse(&answer).hop_pointer, 0);
        Some(NodeInfo::parse(smp::data(&answer)).node_guid)
    };

    // By LID to the second switch, then two hops by directed route: to the fourth switch.
    let smp = fabric.directed(
        &[3, 3],
        method::GET,
        attribute::NODE_INFO,
        0,
        &[0; 64],
        [own, PERMISSIVE_LID],
    );

    let to = Envelope {
        slid: own,
        dlid: lid(&fabric, 5),
        sl: 0,
    };
    assert_eq!(answered(&mut fabric, to, smp), Some(guid(&fabric, 7)));

    // Two hops by directed route to the second switch, then by LID to the adapter at the fourth.
    let last = lid(&fabric, 3);
    let smp = fabric.directed(
        &[1, 3],
        method::GET,
        attribute::NODE_INFO,
        0,
        &[0; 64],
        [PERMISSIVE_LID, last],
    );

    assert_eq!(answered(&mut fabric, DIRECTED, smp), Some(guid(&fabric, 3)));

    // Both: by LID to the second switch, a hop to the third, by LID to the fourth.
    let smp = fabric.directed(
        &[3],
        method::GET,
        attribute::NODE_INFO,
        0,
        &[0; 64],
        [own, last],
    );

    assert_eq!(answered(&mut fabric, to, smp), Some(guid(&fabric, 3)));
}

#[test]
fn groups_get_one_copy_each() {
    let mut fabric = tree(3, 1, 3);
    let found = fabric.configure();
    let group = smp::MULTICAST_LID + 37;

    // All adapters but the second of each leaf; the spine connects the leaves.
    for node in found
        .values()
        .filter(|node| node.info.node_type == smp::node_type::SWITCH)
    {
        let mask = if node.info.num_ports == 4 {
            0b1_1010
        } else {
            0b1110
        };

        let mut block = [0; 32];
        block[5] = mask;
        let mut data = [0; 64];
        MulticastBlock(block).emit(&mut data);
        let (status, back) = fabric
            .ask(
                &node.path,
                method::SET,
                attribute::MULTICAST_FORWARDING,
                1,
                &data,
            )
            .unwrap();

        assert_eq!((status, back), (0, data));
    }

    let members = [0, 2, 3, 5, 6, 8];
    for from in members {
        let others: BTreeSet<usize> = members
            .into_iter()
            .filter(|member| *member != from)
            .collect();
        assert_eq!(fabric.follow(from, group), others);
    }

    assert_eq!(fabric.follow(0, group + 1), BTreeSet::new());
    assert_eq!(
        fabric.follow(1, group),
        BTreeSet::from(members),
        "anybody may send to it"
    );
}

#[test]
fn a_pulled_cable_is_told_and_a_repressed_trap_is_not_repeated() {
    let mut fabric = line(3);
    let found = fabric.configure();
    fabric.nodes[0].set_is_sm(fabric.now, 1, true, &mut Nowhere);
    fabric.wait(Duration::from_secs(10));

    for node in found
        .values()
        .filter(|node| node.info.node_type == smp::node_type::SWITCH)
    {
        repress_all(&mut fabric);
        let data = fabric
            .ask(&node.path, method::GET, attribute::SWITCH_INFO, 0, &[0; 64])
            .unwrap()
            .1;
        fabric
            .ask(&node.path, method::SET, attribute::SWITCH_INFO, 0, &data)
            .unwrap();
    }

    // A switch sends no two traps within its SubnetTimeOut.
    fabric.wait(Duration::from_secs(2));
    fabric.delivered.clear();
    fabric.pull((5, 1)); // the third adapter's
    let traps = traps(&fabric);
    assert_eq!(traps.len(), 1);
    assert_eq!(
        (traps[0].trap_number, traps[0].issuer_lid),
        (128, found[&fabric.nodes[5].config().node_guid].lid)
    );

    assert!(fabric.events.contains(&((2, 1), PortEvent::Error)));
    fabric.wait(Duration::from_secs(3));
    assert!(self::traps(&fabric).len() > 1, "until it is heard");
    repress_all(&mut fabric);
    fabric.delivered.clear();
    fabric.wait(Duration::from_secs(30));
    assert_eq!(self::traps(&fabric).len(), 0);
    let path = &found[&fabric.nodes[5].config().node_guid].path;
    let data = fabric
        .ask(path, method::GET, attribute::SWITCH_INFO, 0, &[0; 64])
        .unwrap()
        .1;
    assert!(SwitchInfo::parse(&data).port_state_change);
    assert_eq!(fabric.discover().len(), 5);

    // It comes back, keeps its LID, and is configured again.
    fabric.plug((2, 1), (5, 1));
    check(&mut fabric);
}

#[test]
fn a_port_that_is_reset_by_its_neighbour_trains_again() {
    let mut fabric = line(2);
    let found = fabric.configure();

    // The first switch takes the port towards the second down and up, as ibportstate reset does.
    let path = found[&fabric.nodes[2].config().node_guid].path.clone();
    for physical in [3, 2] {
        let data = fabric
            .ask(&path, method::GET, attribute::PORT_INFO, 3, &[0; 64])
            .unwrap()
            .1;
        let mut info = smp::PortInfo::parse(&data);
        (info.lid, info.master_sm_lid) = (1, 1);
        (info.port_state, info.port_physical_state) = (0, physical);
        let mut data = [0; 64];
        info.emit(&mut data);
        assert_eq!(
            fabric
                .ask(&path, method::SET, attribute::PORT_INFO, 3, &data)
                .unwrap()
                .0,
            0
        );

        let reached = fabric.discover().len();
        assert_eq!(reached, if physical == 3 { 2 } else { 4 });
    }

    check(&mut fabric);
}

fn traps(fabric: &Fabric) -> Vec<NoticeHeader> {
    let traps = fabric
        .delivered
        .iter()
        .filter(|(_, _, smp)| smp[3] == method::TRAP);
    traps
        .map(|(_, _, smp)| NoticeHeader::parse(smp::data(smp)))
        .collect()
}

/// The subnet manager hears all traps that it got.
fn repress_all(fabric: &mut Fabric) {
    let got: Vec<_> = fabric
        .delivered
        .iter()
        .filter(|(_, _, smp)| smp[3] == method::TRAP)
        .cloned()
        .collect();

    for (_, from, mut smp) in got {
        smp[3] = method::TRAP_REPRESS;
        fabric.exchange(
            Envelope {
                slid: from.dlid,
                dlid: from.slid,
                sl: from.sl,
            },
            &smp,
        );
    }
}

/// Lets what a node puts out go.
struct Nowhere;

impl ferroce_fabric::sma::Output for Nowhere {
    fn send(&mut self, _: u8, _: Envelope, _: &ferroce_wire::mad::Mad) {}
    fn deliver(&mut self, _: u8, _: Envelope, _: &ferroce_wire::mad::Mad) {}
    fn event(&mut self, _: u8, _: PortEvent) {}
    fn link(&mut self, _: u8, _: ferroce_fabric::sma::LinkCommand) {}
}
