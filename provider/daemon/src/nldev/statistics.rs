//! Counters: those of the ports. None can be bound to objects or switched.

use ferroce_cabi::rdma_netlink::*;
use netlink_packet_core::NLA_F_NESTED;
use rustix::io::Errno;

use super::message::{Asker, Attributes, Refusal, Request};
use super::{View, device, resources};

/// `RDMA_COUNTER_MODE_NONE`: queue pairs are not bound to counters by themselves.
const MODE_NONE: u32 = 0;

/// The port that a request about counters must name.
pub(super) fn port_of(view: &impl View, request: &Request<'_>) -> Result<u8, Refusal> {
    device::named(request)?;
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
        let port = port_of(view, request)?;
        return Ok(counters(view, port, |entry, (name, value)| {
            entry
                .text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name)
                .u64(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value);
        }));
    }

    if of == Some(RDMA_NLDEV_ATTR_RES_MR.into()) {
        return resources::one_region(view, to, request);
    }
    if of != Some(RDMA_NLDEV_ATTR_RES_QP.into()) {
        return Err(Errno::INVAL.into());
    }

    if request.has(RDMA_NLDEV_ATTR_STAT_COUNTER_ID) {
        port_of(view, request)?;
        return Err(Errno::NOENT.into());
    }

    if !request.has(RDMA_NLDEV_ATTR_STAT_MODE) {
        return Err(Errno::INVAL.into());
    }

    let mut out = handle(view, port_of(view, request)?);
    out.u32(RDMA_NLDEV_ATTR_STAT_MODE, MODE_NONE);
    Ok(out)
}

/// Which counters there are, and whether they may be switched.
pub(super) fn status(view: &impl View, request: &Request<'_>) -> Result<Attributes, Refusal> {
    let port = port_of(view, request)?;
    Ok(counters(view, port, |entry, (name, _)| {
        entry
            .text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name)
            .u8(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC, 0);
    }))
}

fn counters(
    view: &impl View,
    port: u8,
    describe: impl Fn(&mut Attributes, (&'static str, u64)),
) -> Attributes {
    let mut table = Attributes::default();
    for counter in view.hw_counters() {
        let mut entry = Attributes::default();
        describe(&mut entry, counter);
        table.nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY | NLA_F_NESTED, &entry);
    }
    let mut out = handle(view, port);
    out.nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS | NLA_F_NESTED, &table);
    out
}

/// The counters that are bound to queue pairs: none; or the regions, which have none of their own.
pub(super) fn all(
    view: &impl View,
    to: Asker,
    request: &Request<'_>,
) -> Result<Vec<Attributes>, Refusal> {
    const QUEUE_PAIRS: u32 = RDMA_NLDEV_ATTR_RES_QP as u32;
    const REGIONS: u32 = RDMA_NLDEV_ATTR_RES_MR as u32;
    match request.u32(RDMA_NLDEV_ATTR_STAT_RES)? {
        Some(QUEUE_PAIRS) => device::named(request).map(|()| Vec::new()),
        Some(REGIONS) => resources::regions_without_counters(view, to, request),
        _ => Err(Errno::INVAL.into()),
    }
}
