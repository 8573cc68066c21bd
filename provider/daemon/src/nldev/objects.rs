//! Objects as they are, and what is said of each.

use ferroce_cabi::rdma_netlink::*;
use ferroce_control::objects::{Object, QueuePair};

use super::message::{Asker, Attributes, ROOM};

/// Types of queue pairs, as `enum ib_qp_type`.
const RC: u8 = 2;
const UC: u8 = 3;
const UD: u8 = 4;
/// `IB_MIG_MIGRATED`: paths do not migrate.
const MIGRATED: u8 = 0;
/// Bits of a number below the slot.
const SLOT_SHIFT: u32 = 24;

/// The objects of one client.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// Its process, 0 if unknown.
    pub(crate) pid: u32,
    pub(crate) slot: u8,
    pub(crate) objects: Vec<(u32, Object)>,
}

impl Client {
    /// The number of one of its objects on the device.
    pub(super) fn number(&self, of: u32) -> u32 {
        u32::from(self.slot) << SLOT_SHIFT | of
    }
}

/// An identifier of the connection manager that has a device.
#[derive(Clone, Debug)]
pub(crate) struct Identifier {
    pub(crate) number: u32,
    /// Its process, 0 if unknown.
    pub(crate) pid: u32,
    /// 0: none.
    pub(crate) port: u8,
    /// `RDMA_PS_*`.
    pub(crate) space: u16,
    /// `enum ib_qp_type`.
    pub(crate) qp_type: u8,
    /// Its queue pair, if that is known.
    pub(crate) qp_num: u32,
    /// `enum rdma_cm_state`.
    pub(crate) state: u8,
    /// `struct sockaddr_storage`, if there is an address.
    pub(crate) addresses: [Option<Vec<u8>>; 2],
}

fn process(out: &mut Attributes, pid: u32) {
    if pid != 0 {
        out.u32(RDMA_NLDEV_ATTR_RES_PID, pid);
    }
}

/// Contexts, protection domains, completion queues and memory regions.
pub(super) fn describe(client: &Client, to: Asker, number: u32, object: &Object) -> Attributes {
    let mut out = Attributes::default();
    match *object {
        Object::Context => {
            out.u32(RDMA_NLDEV_ATTR_RES_CTXN, number);
        }
        Object::Pd { context, users } => {
            if to.net_admin {
                out.u32(RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY, 0);
            }
            out.u64(RDMA_NLDEV_ATTR_RES_USECNT, users.into())
                .u32(RDMA_NLDEV_ATTR_RES_PDN, number)
                .u32(RDMA_NLDEV_ATTR_RES_CTXN, client.number(context));
        }
        Object::Cq {
            context,
            cqe,
            users,
        } => {
            out.u32(RDMA_NLDEV_ATTR_RES_CQE, cqe)
                .u64(RDMA_NLDEV_ATTR_RES_USECNT, users.into())
                .u8(RDMA_NLDEV_ATTR_DEV_DIM, 0)
                .u32(RDMA_NLDEV_ATTR_RES_CQN, number)
                .u32(RDMA_NLDEV_ATTR_RES_CTXN, client.number(context));
        }
        Object::Mr { pd, key, len } => {
            if to.net_admin {
                out.u32(RDMA_NLDEV_ATTR_RES_RKEY, key)
                    .u32(RDMA_NLDEV_ATTR_RES_LKEY, key);
            }
            out.u64(RDMA_NLDEV_ATTR_RES_MRLEN, len)
                .u32(RDMA_NLDEV_ATTR_RES_MRN, number)
                .u32(RDMA_NLDEV_ATTR_RES_PDN, client.number(pd));
        }
        Object::Srq { .. } | Object::Qp(_) => {}
    }

    process(&mut out, client.pid);
    out
}

/// A queue pair.
pub(super) fn describe_qp(client: &Client, qp: &QueuePair) -> Attributes {
    let mut out = Attributes::default();
    if qp.port != 0 {
        out.u32(RDMA_NLDEV_ATTR_PORT_INDEX, qp.port.into());
    }

    out.u32(RDMA_NLDEV_ATTR_RES_LQPN, qp.number);
    if let Some(pd) = qp.pd {
        out.u32(RDMA_NLDEV_ATTR_RES_PDN, client.number(pd));
    }

    process(&mut out, client.pid);
    if matches!(qp.qp_type, RC | UC) {
        out.u32(RDMA_NLDEV_ATTR_RES_RQPN, qp.remote)
            .u32(RDMA_NLDEV_ATTR_RES_RQ_PSN, qp.rq_psn);
    }

    out.u32(RDMA_NLDEV_ATTR_RES_SQ_PSN, qp.sq_psn);
    if qp.qp_type != UD {
        out.u8(RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, MIGRATED);
    }

    out.u8(RDMA_NLDEV_ATTR_RES_TYPE, qp.qp_type)
        .u8(RDMA_NLDEV_ATTR_RES_STATE, qp.state);
    out
}

/// A shared receive queue, with the queue pairs that use it.
pub(super) fn describe_srq(client: &Client, index: u32, object: &Object) -> Attributes {
    let mut out = Attributes::default();
    let Object::Srq { pd, cq, srq_type } = *object else {
        return out;
    };

    out.u32(RDMA_NLDEV_ATTR_RES_SRQN, client.number(index))
        .u8(RDMA_NLDEV_ATTR_RES_TYPE, srq_type)
        .u32(RDMA_NLDEV_ATTR_RES_PDN, client.number(pd));
    if let Some(cq) = cq {
        out.u32(RDMA_NLDEV_ATTR_RES_CQN, client.number(cq));
    }

    let mut users: Vec<u32> = client
        .objects
        .iter()
        .filter_map(|(_, object)| match object {
            Object::Qp(qp) if qp.srq == Some(index) => Some(qp.number),
            _ => None,
        })
        .collect();

    users.sort_unstable();
    out.nest(RDMA_NLDEV_ATTR_RES_QP, &ranges(&users));
    process(&mut out, client.pid);
    out
}

/// Numbers in order, those that follow each other together. As many as a message holds.
fn ranges(numbers: &[u32]) -> Attributes {
    let mut out = Attributes::default();
    for run in numbers.chunk_by(|a, b| a + 1 == *b) {
        let mut entry = Attributes::default();
        match run {
            [one] => {
                entry.u32(RDMA_NLDEV_ATTR_RES_LQPN, *one);
            }
            [first, .., last] => {
                entry
                    .u32(RDMA_NLDEV_ATTR_MIN_RANGE, *first)
                    .u32(RDMA_NLDEV_ATTR_MAX_RANGE, *last);
            }
            [] => {}
        }

        if out.len() + entry.len() > ROOM - 256 {
            break;
        }

        out.nest(RDMA_NLDEV_ATTR_RES_QP_ENTRY, &entry);
    }

    out
}

/// An identifier of the connection manager.
pub(super) fn describe_identifier(id: &Identifier) -> Attributes {
    let mut out = Attributes::default();
    if id.port != 0 {
        out.u32(RDMA_NLDEV_ATTR_PORT_INDEX, id.port.into());
    }

    if id.qp_num != 0 {
        out.u32(RDMA_NLDEV_ATTR_RES_LQPN, id.qp_num)
            .u8(RDMA_NLDEV_ATTR_RES_TYPE, id.qp_type);
    }

    out.u32(RDMA_NLDEV_ATTR_RES_PS, id.space.into())
        .u8(RDMA_NLDEV_ATTR_RES_STATE, id.state);
    let kinds = [RDMA_NLDEV_ATTR_RES_SRC_ADDR, RDMA_NLDEV_ATTR_RES_DST_ADDR];
    for (kind, address) in kinds.into_iter().zip(&id.addresses) {
        if let Some(address) = address {
            out.bytes(kind, address);
        }
    }

    out.u32(RDMA_NLDEV_ATTR_RES_CM_IDN, id.number);
    process(&mut out, id.pid);
    out
}
