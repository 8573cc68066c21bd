//! What becomes of a device as interfaces, addresses and routes of its host are many, or change.

use crate::groups::verbs::{addresses, interfaces, mtu, multicast};
use crate::harness::case::Case;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "verbs/veth/two interfaces in one subnet",
            interfaces::one_subnet,
        ),
        Case::new("verbs/veth/rules by the source", interfaces::ruled),
        Case::many("verbs/veth/routes.c", |lab| {
            interfaces::without_route(lab, false)
        }),
        Case::many("verbs/veth/routes.c in another network", |lab| {
            interfaces::without_route(lab, true)
        }),
        Case::new(
            "verbs/veth/a given address moves",
            interfaces::address_moves,
        ),
        Case::new(
            "verbs/veth/addresses that come and go leave no descriptors",
            addresses::come_and_go,
        ),
        Case::new(
            "verbs/veth/a queue pair whose address goes and returns",
            addresses::returns,
        ),
        Case::new(
            "verbs/veth/an address moves to another device",
            addresses::to_another_device,
        ),
        Case::new("verbs/veth/groups on each of two links", |lab| {
            multicast::on_each_link(lab, false)
        }),
        Case::new(
            "verbs/veth/groups on each of two links of another network",
            |lab| multicast::on_each_link(lab, true),
        ),
        Case::new(
            "verbs/veth/a group, and another interface has the address, too",
            multicast::address_twice,
        ),
        Case::new(
            "verbs/veth/service addresses of the loopback",
            interfaces::service_addresses,
        ),
        Case::new("verbs/veth/an interface comes and goes", |lab| {
            interfaces::comes_and_goes(lab, false)
        }),
        Case::new(
            "verbs/veth/an interface of another network comes and goes",
            |lab| interfaces::comes_and_goes(lab, true),
        ),
        Case::many("verbs/veth/port_mtu.c", mtu::of_the_port),
        Case::new(
            "verbs/veth/a server, and its interface's MTU changes",
            mtu::of_a_server,
        ),
        Case::new(
            "verbs/veth/a transfer, and its interface's MTU dips",
            mtu::of_a_transfer,
        ),
    ]
}
