//! The layouts of the umad ABI against the kernel's installed headers: the numbers come from
//! `size_of` and `offset_of!` here, and a C compiler checks them with `_Static_assert`.

mod header;

use ferroce_cabi::umad::*;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};

/// Adds assertions about one structure.
macro_rules! check {
    ($out:expr, $t:ident { $($f:ident),* $(,)? }) => {{
        let c = concat!("struct ", stringify!($t));
        writeln!($out, "_Static_assert(sizeof({c}) == {}, \"sizeof {c}\");", size_of::<$t>()).unwrap();
        $({
            let field = stringify!($f);
            writeln!($out, "_Static_assert(offsetof({c}, {field}) == {}, \"{c}.{field}\");", offset_of!($t, $f)).unwrap();
        })*
    }};
}

fn source() -> String {
    let mut out = String::from(
        "#include <stddef.h>\n#include <rdma/ib_user_mad.h>\n#include <rdma/rdma_user_ioctl.h>\n",
    );
    check!(
        out,
        ib_user_mad_hdr_old {
            id,
            status,
            timeout_ms,
            retries,
            length,
            qpn,
            qkey,
            lid,
            sl,
            path_bits,
            grh_present,
            gid_index,
            hop_limit,
            traffic_class,
            gid,
            flow_label
        }
    );

    check!(
        out,
        ib_user_mad_hdr {
            pkey_index,
            reserved
        }
    );

    check!(
        out,
        ib_user_mad_reg_req {
            id,
            method_mask,
            qpn,
            mgmt_class,
            mgmt_class_version,
            oui,
            rmpp_version
        }
    );

    check!(
        out,
        ib_user_mad_reg_req2 {
            id,
            qpn,
            mgmt_class,
            mgmt_class_version,
            res,
            flags,
            method_mask,
            oui,
            rmpp_version,
            reserved
        }
    );

    for (name, value) in [
        (
            "IB_USER_MAD_ABI_VERSION",
            u64::from(IB_USER_MAD_ABI_VERSION),
        ),
        ("IB_USER_MAD_USER_RMPP", IB_USER_MAD_USER_RMPP.into()),
        (
            "IB_USER_MAD_REG_FLAGS_CAP",
            IB_USER_MAD_REG_FLAGS_CAP.into(),
        ),
        ("IB_USER_MAD_REGISTER_AGENT", IB_USER_MAD_REGISTER_AGENT),
        ("IB_USER_MAD_UNREGISTER_AGENT", IB_USER_MAD_UNREGISTER_AGENT),
        ("IB_USER_MAD_ENABLE_PKEY", IB_USER_MAD_ENABLE_PKEY),
        ("IB_USER_MAD_REGISTER_AGENT2", IB_USER_MAD_REGISTER_AGENT2),
    ] {
        writeln!(out, "_Static_assert({name} == {value}, \"{name}\");").unwrap();
    }

    out
}

#[test]
fn kernel_umad() {
    header::agrees(
        "rdma/ib_user_mad.h",
        &source(),
        "sizeof(struct ib_user_mad_hdr) == 64",
        "sizeof(struct ib_user_mad_hdr) == 56",
    );
}
