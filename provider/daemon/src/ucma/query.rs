//! `QUERY` and `QUERY_ROUTE`: what an id is bound to and where it goes.

use ferroce_cabi::ucma::{
    AF_IB, ib_path_rec_data, ib_user_path_rec, rdma_ucm_query_addr_resp, rdma_ucm_query_path_resp,
    rdma_ucm_query_route_resp, sockaddr_ib,
};
use ferroce_fabric::cm::Path;
use ferroce_wire::mad::DEFAULT_PKEY;
use ferroce_wire::sa::PathRecord;
use zerocopy::IntoBytes;

use super::addr::{Addr, Gid};
use super::host::Host;
use super::id::Id;
use super::route::{NO_LID, port_of};

/// The index of no device.
const NO_INDEX: u32 = !0;
/// "Exactly", of MTU, rate and life time in a path record.
const EXACTLY: u8 = 2;
/// `IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL`.
pub(super) const PATH_FLAGS: u32 = 1 | 1 << 1 | 1 << 3 | 1 << 5;

fn node_guid(id: &Id, host: &Host<'_>) -> u64 {
    match id.gid_index {
        Some(_) => u64::from_ne_bytes(host.info.node_guid),
        None => 0,
    }
}

/// Both GIDs, which of an IP address are what it maps to.
fn gids(id: &Id, host: &Host<'_>) -> (Gid, Gid) {
    match (id.gid_index, id.path) {
        (None, _) => ([0; 16], [0; 16]),
        (_, Some(path)) => (path.av.local_gid, path.av.remote_gid),
        (Some(index), None) => {
            let own = host.gids.entry(index).map(|entry| entry.gid);
            let remote = id.remote_gid.unwrap_or(id.dst.gid());
            (own.unwrap_or(id.src.gid()), remote)
        }
    }
}

/// The device's port that an id is bound to; 0: none.
pub(super) fn port(id: &Id) -> u8 {
    id.gid_index.map_or(0, port_of)
}

/// The index over netlink of the device that an id has.
fn device_index(id: &Id, host: &Host<'_>) -> u32 {
    match id.gid_index {
        Some(_) => host.info.index,
        None => NO_INDEX,
    }
}

/// The answer to `RDMA_USER_CM_QUERY_ADDR`.
pub(super) fn addr(id: &Id, host: &Host<'_>) -> rdma_ucm_query_addr_resp {
    rdma_ucm_query_addr_resp {
        src_size: id.src.size(),
        dst_size: id.dst.size(),
        src_addr: id.src.emit(),
        dst_addr: id.dst.emit(),
        ..device(id, host)
    }
}

/// The answer to `RDMA_USER_CM_QUERY_GID`.
pub(super) fn gid(id: &Id, host: &Host<'_>) -> rdma_ucm_query_addr_resp {
    let (src, dst) = gids(id, host);
    let native = |addr: &Addr, gid: Gid| {
        let mut bytes = addr.emit();
        if !addr.is_ib() {
            let raw = sockaddr_ib {
                sib_family: AF_IB,
                sib_pkey_be: DEFAULT_PKEY.to_be(),
                sib_addr: gid,
                sib_sid_be: id.service_id(addr).to_be(),
                ..Default::default()
            };
            bytes = [0; 128];
            bytes[..48].copy_from_slice(raw.as_bytes());
        }
        bytes
    };

    rdma_ucm_query_addr_resp {
        src_size: 48,
        dst_size: 48,
        src_addr: native(&id.src, src),
        dst_addr: native(&id.dst, dst),
        ..device(id, host)
    }
}

fn device(id: &Id, host: &Host<'_>) -> rdma_ucm_query_addr_resp {
    rdma_ucm_query_addr_resp {
        node_guid: node_guid(id, host),
        port_num: port(id),
        pkey_be: if id.gid_index.is_some() {
            DEFAULT_PKEY.to_be()
        } else {
            0
        },
        ibdev_index: device_index(id, host),
        ..Default::default()
    }
}

/// The answer to `RDMA_USER_CM_QUERY_PATH`, in so many bytes.
pub(super) fn path(id: &Id, room: usize) -> Vec<u8> {
    let head = rdma_ucm_query_path_resp {
        num_paths: id.path.is_some().into(),
        reserved: 0,
    };
    let mut answer = head.as_bytes().to_vec();
    if let Some(path) = &id.path
        && room >= answer.len() + size_of::<ib_path_rec_data>()
    {
        let record = ib_path_rec_data {
            flags: PATH_FLAGS,
            reserved: 0,
            path_rec: packed(path, id.service_id(&id.dst)),
        };
        answer.extend_from_slice(record.as_bytes());
    }

    answer
}

/// A PathRecord of subnet administration (IBTA 15.2.5.16). Over Ethernet it has no LIDs.
fn packed(path: &Path, service_id: u64) -> [u8; PathRecord::LEN] {
    let av = &path.av;
    let lid = |lid| if lid == NO_LID { 0 } else { lid };
    PathRecord {
        service_id,
        dgid: av.remote_gid,
        sgid: av.local_gid,
        dlid: lid(av.remote_lid),
        slid: lid(av.local_lid),
        flow_label: av.flow_label,
        hop_limit: av.hop_limit,
        traffic_class: av.traffic_class,
        pkey: av.pkey,
        sl: av.sl,
        mtu: path.mtu,
        rate: path.packet_rate,
        life_time: path.packet_life_time,
    }
    .emit()
}

/// Reads the path that a program supplies. Where it begins and ends is what `near` says, but for
/// the far LID of InfiniBand.
pub(super) fn unpacked(record: &[u8; PathRecord::LEN], near: &Path) -> Path {
    let record = PathRecord::parse(record);
    let mut path = *near;
    path.av.flow_label = record.flow_label;
    if record.hop_limit != 0 {
        path.av.hop_limit = record.hop_limit;
    }

    path.av.traffic_class = record.traffic_class;
    path.av.sl = record.sl;
    if near.av.local_lid != NO_LID {
        path.av.remote_lid = record.dlid;
    }
    if (1..=near.mtu).contains(&record.mtu) {
        path.mtu = record.mtu;
    }

    path.packet_rate = record.rate;
    path.packet_life_time = record.life_time;
    path
}

/// The answer to `QUERY_ROUTE`.
pub(super) fn route(id: &Id, host: &Host<'_>) -> rdma_ucm_query_route_resp {
    let mut answer = rdma_ucm_query_route_resp {
        node_guid: node_guid(id, host),
        port_num: port(id),
        ibdev_index: device_index(id, host),
        ..Default::default()
    };

    let short = |addr: &Addr| {
        let mut bytes = [0; 28];
        bytes.copy_from_slice(&addr.emit()[..28]);
        bytes
    };
    (answer.src_addr, answer.dst_addr) = (short(&id.src), short(&id.dst));
    if id.gid_index.is_none() {
        return answer;
    }

    let (sgid, dgid) = gids(id, host);
    let first = &mut answer.ib_route[0];
    (first.sgid, first.dgid, first.pkey_be) = (sgid, dgid, DEFAULT_PKEY.to_be());
    if let Some(path) = &id.path {
        *first = ib_user_path_rec {
            flow_label_be: path.av.flow_label.to_be(),
            reversible: 1,
            mtu: path.mtu.into(),
            hop_limit: path.av.hop_limit,
            traffic_class: path.av.traffic_class,
            numb_path: 1,
            sl: path.av.sl,
            mtu_selector: EXACTLY,
            rate_selector: EXACTLY,
            rate: path.packet_rate,
            packet_life_time_selector: EXACTLY,
            packet_life_time: path.packet_life_time,
            ..*first
        };

        if path.av.local_lid != NO_LID {
            first.dlid_be = path.av.remote_lid.to_be();
            first.slid_be = path.av.local_lid.to_be();
        }

        answer.num_paths = 1;
    }

    answer
}
