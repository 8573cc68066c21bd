//! The headers in front of MADs in programs' files: far ends of MADs as the ABI has them.

use ferroce_cabi::umad::{ib_user_mad_hdr, ib_user_mad_hdr_old};

use crate::mads::{Address, Incoming, Route};

/// The far end that a program writes to.
pub(super) fn address_of(header: &ib_user_mad_hdr) -> Address {
    let old = &header.old;
    Address {
        qpn: old.qpn.get() & 0xff_ffff,
        qkey: old.qkey.get(),
        lid: old.lid.get(),
        sl: old.sl & 0xf,
        path_bits: old.path_bits,
        grh: (old.grh_present != 0).then(|| Route {
            gid_index: old.gid_index,
            hop_limit: old.hop_limit,
            traffic_class: old.traffic_class,
            gid: old.gid,
            flow_label: old.flow_label.get() & 0xf_ffff,
        }),
        pkey_index: header.pkey_index,
    }
}

/// What a header says of a far end.
fn header_fields(address: &Address) -> ib_user_mad_hdr_old {
    let mut old = ib_user_mad_hdr_old {
        qpn: address.qpn.into(),
        lid: address.lid.into(),
        sl: address.sl,
        path_bits: address.path_bits,
        ..ib_user_mad_hdr_old::default()
    };

    if let Some(grh) = &address.grh {
        old.grh_present = 1;
        old.gid_index = grh.gid_index;
        old.hop_limit = grh.hop_limit;
        old.traffic_class = grh.traffic_class;
        old.gid = grh.gid;
        old.flow_label = grh.flow_label.into();
    }

    old
}

/// The header of a MAD that has come for an agent.
pub(super) fn header_of(id: u32, incoming: &Incoming) -> ib_user_mad_hdr {
    ib_user_mad_hdr {
        old: ib_user_mad_hdr_old {
            id,
            ..header_fields(&incoming.from)
        },
        pkey_index: incoming.from.pkey_index,
        reserved: [0; 6],
    }
}
