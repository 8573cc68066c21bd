//! Counters: those of the ports, and those of queue pairs, each of which has one by itself, as if
//! it had been bound to it; its number is the queue pair's. None can be bound or switched.

use std::collections::BTreeMap;

use ferroce_cabi::rdma_netlink::*;
use ferroce_control::objects::{Object, QueuePair};
use netlink_packet_core::NLA_F_NESTED;
use rustix::io::Errno;

use super::message::{Asker, Attributes, Refusal, Request};
use super::{Client, View, device, resources};

/// `RDMA_COUNTER_MODE_MANUAL`: no counter is for all queue pairs that have something in common.
const MODE_MANUAL: u32 = 2;

/// The port that a request about counters must name.
pub(super) fn port_of(view: &impl View, request: &Request<'_>) -> Result<u8, Refusal> {
    device::named(view, request)?;
    device::port(view, request)?.ok_or(Errno::INVAL.into())
}

fn handle(view: &impl View, port: u8) -> Attributes {
    let mut out = device::handle(view);
    out.u32(RDMA_NLDEV_ATTR_PORT_INDEX, port.into());
    out
}

/// The counters of a port; or, asked about queue pairs, how these are bound to counters.
pub(super) fn of_port(
    view: &impl View,
    to: Asker,
    request: &Request<'_>,
) -> Result<Attributes, Refusal> {
    let of = request.u32(RDMA_NLDEV_ATTR_STAT_RES)?;
    if of.is_none() {
        let mut out = handle(view, port_of(view, request)?);
        table(&mut out, view.hw_counters(), with_value);
        return Ok(out);
    }

    if of == Some(RDMA_NLDEV_ATTR_RES_MR.into()) {
        return resources::one_region(view, to, request);
    }
    if of != Some(RDMA_NLDEV_ATTR_RES_QP.into()) {
        return Err(Errno::INVAL.into());
    }

    if request.has(RDMA_NLDEV_ATTR_STAT_COUNTER_ID) {
        let mut out = device::handle(view);
        out.append(&named(view, to, request)?);
        return Ok(out);
    }

    if !request.has(RDMA_NLDEV_ATTR_STAT_MODE) {
        return Err(Errno::INVAL.into());
    }

    let mut out = handle(view, port_of(view, request)?);
    out.u32(RDMA_NLDEV_ATTR_STAT_MODE, MODE_MANUAL);
    Ok(out)
}

/// Which counters there are. None can be switched, which what it does not say means.
pub(super) fn status(view: &impl View, request: &Request<'_>) -> Result<Attributes, Refusal> {
    let mut out = handle(view, port_of(view, request)?);
    let numbered = (0..).zip(view.hw_counters());
    let indices = numbered.map(|(index, (name, _))| (name, index));
    table(&mut out, indices, |entry, (name, index)| {
        entry
            .text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name)
            .u32(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, index as u32);
    });
    Ok(out)
}

fn table(
    out: &mut Attributes,
    counters: impl IntoIterator<Item = (&'static str, u64)>,
    describe: impl Fn(&mut Attributes, (&'static str, u64)),
) {
    let mut table = Attributes::default();
    for counter in counters {
        let mut entry = Attributes::default();
        describe(&mut entry, counter);
        table.nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY | NLA_F_NESTED, &entry);
    }
    out.nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS | NLA_F_NESTED, &table);
}

fn with_value(entry: &mut Attributes, (name, value): (&'static str, u64)) {
    entry
        .text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name)
        .u64(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value);
}

/// The counters of queue pairs, by their numbers, of a port or of all. A queue pair without a port
/// has counted nothing.
fn of_queue_pairs(view: &impl View, to: Asker, port: Option<u8>) -> BTreeMap<u32, Attributes> {
    let mut entries = BTreeMap::new();
    for client in view.clients(to.whose) {
        for (_, object) in &client.objects {
            match object {
                Object::Qp(qp) if qp.port != 0 && port.is_none_or(|port| port == qp.port) => {
                    entries.insert(qp.number, of_queue_pair(view, &client, qp));
                }
                _ => {}
            }
        }
    }
    entries
}

fn of_queue_pair(view: &impl View, client: &Client, qp: &QueuePair) -> Attributes {
    let mut entry = Attributes::default();
    entry.u32(RDMA_NLDEV_ATTR_RES_LQPN, qp.number);
    let mut queue_pairs = Attributes::default();
    queue_pairs.nest(RDMA_NLDEV_ATTR_RES_QP_ENTRY, &entry);

    let mut out = Attributes::default();
    out.u32(RDMA_NLDEV_ATTR_PORT_INDEX, qp.port.into())
        .u32(RDMA_NLDEV_ATTR_STAT_COUNTER_ID, qp.number)
        .u8(RDMA_NLDEV_ATTR_RES_TYPE, qp.qp_type);
    if client.pid != 0 {
        out.u32(RDMA_NLDEV_ATTR_RES_PID, client.pid);
    }

    out.nest(RDMA_NLDEV_ATTR_RES_QP, &queue_pairs);
    let numbers = view.numbers(client.slot, qp);
    let counters = numbers.counters().map(|(counter, n)| (counter.name(), n));
    table(&mut out, counters, with_value);
    out
}

/// The counter whose number the request has (`ENOENT`: there is none).
fn named(view: &impl View, to: Asker, request: &Request<'_>) -> Result<Attributes, Refusal> {
    let port = port_of(view, request)?;
    let number = request
        .u32(RDMA_NLDEV_ATTR_STAT_COUNTER_ID)?
        .ok_or(Errno::INVAL)?;
    let mut entries = of_queue_pairs(view, to, Some(port));
    entries.remove(&number).ok_or(Errno::NOENT.into())
}

/// Why a counter is not taken from its queue pair.
pub(super) fn not_unbound(view: &impl View, to: Asker, request: &Request<'_>) -> Refusal {
    const FIXED: Refusal = Refusal::new(
        Errno::OPNOTSUPP,
        "a queue pair of a ferroce device has its counter as long as it lives",
    );
    named(view, to, request).err().unwrap_or(FIXED)
}

/// The counters of queue pairs, of a port if the request names one; or the regions, which have none
/// of their own.
pub(super) fn all(
    view: &impl View,
    to: Asker,
    request: &Request<'_>,
) -> Result<Vec<Attributes>, Refusal> {
    const QUEUE_PAIRS: u32 = RDMA_NLDEV_ATTR_RES_QP as u32;
    const REGIONS: u32 = RDMA_NLDEV_ATTR_RES_MR as u32;
    match request.u32(RDMA_NLDEV_ATTR_STAT_RES)? {
        Some(QUEUE_PAIRS) => {
            device::named(view, request)?;
            let port = device::port(view, request)?;
            let entries = of_queue_pairs(view, to, port);
            Ok(resources::packed(
                view,
                resources::COUNTER,
                entries.values(),
            ))
        }
        Some(REGIONS) => resources::regions_without_counters(view, to, request),
        _ => Err(Errno::INVAL.into()),
    }
}
