//! Objects: how many there are of each kind, and each of them, whatever process has it.
//!
//! Verbs objects are in the tables that clients share with the daemon; identifiers of the
//! connection manager are the daemon's own. A number of an object is unique on the device: the
//! client's slot stands above its number in the client's table.

use std::collections::BTreeMap;

use ferroce_cabi::rdma_netlink::*;
use ferroce_control::objects::Object;
use rustix::io::Errno;

use super::message::{Asker, Attributes, HEADER, ROOM, Refusal, Request};
use super::objects::{describe, describe_identifier, describe_qp, describe_srq};
use super::{View, device};

/// How objects of a kind are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    name: &'static str,
    table: u16,
    entry: u16,
    number: u16,
    /// They are the device's and not a port's.
    of_device: bool,
}

/// Counters of queue pairs, which are listed like objects.
pub(super) const COUNTER: Kind = Kind::new(
    "counter",
    RDMA_NLDEV_ATTR_STAT_COUNTER,
    RDMA_NLDEV_ATTR_STAT_COUNTER_ID,
    false,
);

impl Kind {
    const fn new(name: &'static str, table: u16, number: u16, of_device: bool) -> Kind {
        Kind {
            name,
            table,
            // So it is with all of them.
            entry: table + 1,
            number,
            of_device,
        }
    }
}

const PD: Kind = Kind::new("pd", RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PDN, true);
const CQ: Kind = Kind::new("cq", RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQN, true);
const QP: Kind = Kind::new(
    "qp",
    RDMA_NLDEV_ATTR_RES_QP,
    RDMA_NLDEV_ATTR_RES_LQPN,
    false,
);
const CM_ID: Kind = Kind::new(
    "cm_id",
    RDMA_NLDEV_ATTR_RES_CM_ID,
    RDMA_NLDEV_ATTR_RES_CM_IDN,
    false,
);
const MR: Kind = Kind::new("mr", RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MRN, true);
const CTX: Kind = Kind::new(
    "ctx",
    RDMA_NLDEV_ATTR_RES_CTX,
    RDMA_NLDEV_ATTR_RES_CTXN,
    true,
);
const SRQ: Kind = Kind::new(
    "srq",
    RDMA_NLDEV_ATTR_RES_SRQ,
    RDMA_NLDEV_ATTR_RES_SRQN,
    true,
);

/// In the kernel's order.
const KINDS: [Kind; 7] = [PD, CQ, QP, CM_ID, MR, CTX, SRQ];

/// Which objects a command is about.
pub(super) fn kind(command: u16) -> Option<Kind> {
    Some(match command {
        RDMA_NLDEV_CMD_RES_QP_GET => QP,
        RDMA_NLDEV_CMD_RES_CM_ID_GET => CM_ID,
        RDMA_NLDEV_CMD_RES_CQ_GET => CQ,
        RDMA_NLDEV_CMD_RES_MR_GET => MR,
        RDMA_NLDEV_CMD_RES_PD_GET => PD,
        RDMA_NLDEV_CMD_RES_CTX_GET => CTX,
        RDMA_NLDEV_CMD_RES_SRQ_GET => SRQ,
        _ => return None,
    })
}

/// How many there are.
pub(super) fn summary(view: &impl View, to: Asker) -> Attributes {
    let clients = view.clients(to.whose);
    let mut table = Attributes::default();
    for kind in KINDS {
        let count = match kind {
            CM_ID => view.identifiers(to.whose).len(),
            _ => clients
                .iter()
                .flat_map(|client| &client.objects)
                .filter(|(_, object)| kind_of(object) == kind)
                .count(),
        };
        let mut entry = Attributes::default();
        entry
            .text(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, kind.name)
            .u64(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, count as u64);
        table.nest(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY, &entry);
    }

    let mut out = device::handle(view);
    out.nest(RDMA_NLDEV_ATTR_RES_SUMMARY, &table);
    out
}

fn kind_of(object: &Object) -> Kind {
    match object {
        Object::Context => CTX,
        Object::Pd { .. } => PD,
        Object::Cq { .. } => CQ,
        Object::Mr { .. } => MR,
        Object::Srq { .. } => SRQ,
        Object::Qp(_) => QP,
    }
}

/// All objects of a kind, of a port if the request names one, in as few messages as hold them.
pub(super) fn list(
    view: &impl View,
    to: Asker,
    request: &Request<'_>,
    kind: Kind,
) -> Result<Vec<Attributes>, Refusal> {
    device::named(view, request)?;
    let port = device::port(view, request)?;
    let entries = entries(view, to, kind, port);
    Ok(packed(view, kind, entries.values()))
}

/// The regions as those whose counters are asked for, of which there are none.
pub(super) fn regions_without_counters(
    view: &impl View,
    to: Asker,
    request: &Request<'_>,
) -> Result<Vec<Attributes>, Refusal> {
    device::named(view, request)?;
    let numbers = entries(view, to, MR, None).into_keys();
    let entries: Vec<_> = numbers
        .map(|number| {
            let mut entry = Attributes::default();
            entry.u32(RDMA_NLDEV_ATTR_RES_MRN, number);
            entry
        })
        .collect();
    Ok(packed(view, MR, entries.iter()))
}

/// Entries, in as few messages as hold them.
pub(super) fn packed<'a>(
    view: &impl View,
    kind: Kind,
    entries: impl Iterator<Item = &'a Attributes>,
) -> Vec<Attributes> {
    let handle = device::handle(view);

    // Header and handle, and the headers of the table and of an entry.
    let room = ROOM - HEADER - handle.len() - 8;
    let mut tables = Vec::new();
    let mut table = Attributes::default();
    for entry in entries {
        if table.len() > 0 && table.len() + entry.len() > room {
            tables.push(std::mem::take(&mut table));
        }
        table.nest(kind.entry, entry);
    }

    if table.len() > 0 {
        tables.push(table);
    }

    let whole = tables.iter().map(|table| {
        let mut out = handle.clone();
        out.nest(kind.table, table);
        out
    });
    whole.collect()
}

/// The object whose number the request has (`ENOENT`: there is none).
pub(super) fn one(
    view: &impl View,
    to: Asker,
    request: &Request<'_>,
    kind: Kind,
) -> Result<Attributes, Refusal> {
    device::named(view, request)?;
    let number = request.u32(kind.number)?.ok_or(Errno::INVAL)?;
    let port = device::port(view, request)?;
    if port.is_some() == kind.of_device {
        return Err(Errno::INVAL.into());
    }
    let entries = entries(view, to, kind, None);
    let entry = entries.get(&number).ok_or(Errno::NOENT)?;
    let mut out = device::handle(view);
    out.append(entry);
    Ok(out)
}

/// The region whose number the request has.
pub(super) fn one_region(
    view: &impl View,
    to: Asker,
    request: &Request<'_>,
) -> Result<Attributes, Refusal> {
    one(view, to, request, MR)?;
    let number = request.u32(RDMA_NLDEV_ATTR_RES_MRN)?.ok_or(Errno::INVAL)?;
    let mut out = device::handle(view);
    out.u32(RDMA_NLDEV_ATTR_RES_MRN, number);
    Ok(out)
}

/// Objects of a kind by their numbers, of a port or of all.
fn entries(view: &impl View, to: Asker, kind: Kind, port: Option<u8>) -> BTreeMap<u32, Attributes> {
    if kind == CM_ID {
        let identifiers = view.identifiers(to.whose);
        let at = identifiers
            .iter()
            .filter(|id| port.is_none_or(|port| port == id.port));
        return at.map(|id| (id.number, describe_identifier(id))).collect();
    }

    let clients = view.clients(to.whose);
    let mut entries = BTreeMap::new();
    for client in &clients {
        for (index, object) in &client.objects {
            if kind_of(object) != kind {
                continue;
            }
            let number = client.number(*index);
            match object {
                Object::Qp(qp) if port.is_some_and(|port| port != qp.port) => {}
                Object::Qp(qp) => drop(entries.insert(qp.number, describe_qp(client, qp))),
                Object::Srq { .. } => {
                    drop(entries.insert(number, describe_srq(client, *index, object)));
                }
                _ => drop(entries.insert(number, describe(client, to, number, object))),
            }
        }
    }

    entries
}
