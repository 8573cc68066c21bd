//! Datagram services (`RDMA_PS_UDP`): finding the QP that stands for a service, and being asked for
//! one.

use ferroce_cabi::ucma::{
    RDMA_MAX_PRIVATE_DATA, ib_uverbs_ah_attr, ib_uverbs_global_route, rdma_ucm_ud_param,
};
use ferroce_fabric::cm::{Av, CmId, ResolveReply};
use ferroce_fabric::sidr_status;
use ferroce_wire::cm::SidrRep;
use rustix::io::Errno;

use super::events::{Detail, Kind, Params};
use super::host::Host;
use super::id::Id;
use super::route::{NO_LID, port_of};
use super::state::Ucma;
use super::terms::errno;

/// The Q_Key of IP services (`RDMA_UDP_QKEY`).
pub(super) const UDP_QKEY: u32 = 0x0123_4567;

impl Ucma {
    /// Answers a request for an id's QP: the status, and if that is good the Q_Key, 0 for the usual
    /// one.
    pub(super) fn answer_datagram(
        &mut self,
        handle: u32,
        cm: CmId,
        status: u8,
        qkey: u32,
        params: &Params,
        host: &Host<'_>,
    ) -> Result<(), Errno> {
        let id = self.existing(handle)?;
        let mut reply = ResolveReply {
            status,
            private_data: params.private_data(),
            ..ResolveReply::default()
        };
        if status == sidr_status::VALID {
            set_qkey(id, qkey)?;
            (reply.qpn, reply.qkey) = (id.qp_num, id.qkey);
        }
        self.cm
            .resolve_reply(host.now, cm, &reply, &mut self.out)
            .map_err(errno)
    }

    /// The service has answered.
    pub(super) fn resolved(&mut self, handle: u32, rep: &SidrRep) {
        let Some(id) = self.ids.get_mut(handle) else {
            return;
        };

        let mut param = request(&rep.private_data);
        if rep.status != sidr_status::VALID {
            return self.raise(
                handle,
                Kind::Unreachable,
                rep.status.into(),
                Detail::Datagram(param),
            );
        }

        if let Err(errno) = set_qkey(id, rep.qkey) {
            return self.raise(
                handle,
                Kind::AddrError,
                -errno.raw_os_error(),
                Detail::Datagram(param),
            );
        }

        if let (Some(path), Some(index)) = (id.path, id.gid_index) {
            param.ah_attr = address(&path.av, index);
        }

        (param.qp_num, param.qkey) = (rep.qpn, rep.qkey);
        self.raise(handle, Kind::Established, 0, Detail::Datagram(param));
    }
}

/// An event's parameters with private data only.
pub(super) fn request(data: &[u8]) -> Box<rdma_ucm_ud_param> {
    let mut param = Box::<rdma_ucm_ud_param>::default();
    let len = data
        .len()
        .min(RDMA_MAX_PRIVATE_DATA)
        .min(usize::from(u8::MAX));
    param.private_data[..len].copy_from_slice(&data[..len]);
    param.private_data_len = len as u8;
    param
}

/// An address vector as verbs have it. Within an InfiniBand subnet there are LIDs and no GRH.
pub(super) fn address(av: &Av, gid_index: u16) -> ib_uverbs_ah_attr {
    let ethernet = av.local_lid == NO_LID;
    ib_uverbs_ah_attr {
        grh: ib_uverbs_global_route {
            dgid: av.remote_gid,
            flow_label: av.flow_label,
            sgid_index: gid_index as u8,
            hop_limit: av.hop_limit,
            traffic_class: av.traffic_class,
            reserved: 0,
        },
        sl: av.sl,
        dlid: if ethernet { 0 } else { av.remote_lid },
        is_global: (ethernet || av.hop_limit > 1).into(),
        port_num: port_of(gid_index),
        ..Default::default()
    }
}

/// Decides an id's Q_Key, 0 for the usual one; once decided it stays.
pub(super) fn set_qkey(id: &mut Id, qkey: u32) -> Result<(), Errno> {
    match (id.qkey, qkey) {
        (0, 0) => id.qkey = UDP_QKEY,
        (0, qkey) => id.qkey = qkey,
        (have, want) if want != 0 && have != want => return Err(Errno::INVAL),
        _ => {}
    }
    Ok(())
}
