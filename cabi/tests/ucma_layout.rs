//! The layouts of the rdma_cm ABI against the kernel's installed headers: the numbers come from
//! `size_of` and `offset_of!` here, and a C compiler checks them with `_Static_assert`.

mod header;

use ferroce_cabi::ucma::*;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};

/// Adds assertions about structures, whose fields have C's names but for a `_be` at the end. One
/// structure an entry, without commas, so that the table stays as it is written.
macro_rules! structures {
    ($out:expr; $($t:ident { $($f:ident)* })*) => {$({
        let c = concat!("struct ", stringify!($t));
        writeln!($out, "_Static_assert(sizeof({c}) == {}, \"sizeof {c}\");", size_of::<$t>()).unwrap();
        $({
            let field = stringify!($f).trim_start_matches("r#");
            let field = field.strip_suffix("_be").unwrap_or(field);
            writeln!($out, "_Static_assert(offsetof({c}, {field}) == {}, \"{c}.{field}\");", offset_of!($t, $f)).unwrap();
        })*
    })*};
}

/// Adds assertions about constants.
macro_rules! values {
    ($out:expr; $($v:ident)*) => {
        $(writeln!($out, "_Static_assert({0} == {1}, \"{0}\");", stringify!($v), $v).unwrap();)*
    };
}

fn source() -> String {
    let mut out = String::from(
        "#include <stddef.h>\n#include <rdma/rdma_user_cm.h>\n#include <infiniband/ib.h>\n",
    );
    structures! { out;
        rdma_ucm_cmd_hdr { cmd r#in out }
        rdma_ucm_create_id { uid response ps qp_type reserved }
        rdma_ucm_create_id_resp { id }
        rdma_ucm_destroy_id { response id reserved }
        rdma_ucm_destroy_id_resp { events_reported }
        rdma_ucm_bind_ip { response addr id }
        rdma_ucm_bind { id addr_size reserved addr }
        rdma_ucm_resolve_ip { src_addr dst_addr id timeout_ms }
        rdma_ucm_resolve_addr { id timeout_ms src_size dst_size reserved src_addr dst_addr }
        rdma_ucm_resolve_route { id timeout_ms }
        rdma_ucm_query { response id option }
        ib_user_path_rec { dgid sgid dlid_be slid_be raw_traffic flow_label_be reversible mtu pkey_be
            hop_limit traffic_class numb_path sl mtu_selector rate_selector rate packet_life_time_selector
            packet_life_time preference }
        rdma_ucm_query_route_resp { node_guid ib_route src_addr dst_addr num_paths port_num reserved
            ibdev_index reserved1 }
        rdma_ucm_query_addr_resp { node_guid port_num reserved pkey_be src_size dst_size src_addr dst_addr
            ibdev_index reserved1 }
        rdma_ucm_query_path_resp { num_paths reserved }
        ib_path_rec_data { flags reserved path_rec }
        rdma_ucm_conn_param { qp_num qkey private_data private_data_len srq responder_resources
            initiator_depth flow_control retry_count rnr_retry_count valid }
        ib_uverbs_global_route { dgid flow_label sgid_index hop_limit traffic_class reserved }
        ib_uverbs_ah_attr { grh dlid sl src_path_bits static_rate is_global port_num reserved }
        rdma_ucm_ud_param { qp_num qkey ah_attr private_data private_data_len reserved }
        rdma_ucm_ece { vendor_id attr_mod }
        rdma_ucm_connect { conn_param id reserved ece }
        rdma_ucm_listen { id backlog }
        rdma_ucm_accept { uid conn_param id reserved ece }
        rdma_ucm_reject { id private_data_len reason reserved private_data }
        rdma_ucm_disconnect { id }
        rdma_ucm_init_qp_attr { response id qp_state }
        ib_uverbs_qp_attr { qp_attr_mask qp_state cur_qp_state path_mtu path_mig_state qkey rq_psn sq_psn
            dest_qp_num qp_access_flags ah_attr alt_ah_attr max_send_wr max_recv_wr max_send_sge
            max_recv_sge max_inline_data pkey_index alt_pkey_index en_sqd_async_notify sq_draining
            max_rd_atomic max_dest_rd_atomic min_rnr_timer port_num timeout retry_cnt rnr_retry alt_port_num
            alt_timeout reserved }
        rdma_ucm_notify { id event }
        rdma_ucm_join_ip_mcast { response uid addr id }
        rdma_ucm_join_mcast { response uid id addr_size join_flags addr }
        rdma_ucm_get_event { response }
        rdma_ucm_event_resp { uid id event status param reserved ece }
        rdma_ucm_set_option { optval id level optname optlen }
        rdma_ucm_migrate_id { response id fd }
        rdma_ucm_migrate_resp { events_reported }
        sockaddr_ib { sib_family sib_pkey_be sib_flowinfo_be sib_addr sib_sid_be sib_sid_mask_be
            sib_scope_id }
    }

    values! { out;
        RDMA_USER_CM_ABI_VERSION RDMA_MAX_PRIVATE_DATA AF_IB RDMA_USER_CM_CMD_CREATE_ID
        RDMA_USER_CM_CMD_DESTROY_ID RDMA_USER_CM_CMD_BIND_IP RDMA_USER_CM_CMD_RESOLVE_IP
        RDMA_USER_CM_CMD_RESOLVE_ROUTE RDMA_USER_CM_CMD_QUERY_ROUTE RDMA_USER_CM_CMD_CONNECT
        RDMA_USER_CM_CMD_LISTEN RDMA_USER_CM_CMD_ACCEPT RDMA_USER_CM_CMD_REJECT RDMA_USER_CM_CMD_DISCONNECT
        RDMA_USER_CM_CMD_INIT_QP_ATTR RDMA_USER_CM_CMD_GET_EVENT RDMA_USER_CM_CMD_GET_OPTION
        RDMA_USER_CM_CMD_SET_OPTION RDMA_USER_CM_CMD_NOTIFY RDMA_USER_CM_CMD_JOIN_IP_MCAST
        RDMA_USER_CM_CMD_LEAVE_MCAST RDMA_USER_CM_CMD_MIGRATE_ID RDMA_USER_CM_CMD_QUERY
        RDMA_USER_CM_CMD_BIND RDMA_USER_CM_CMD_RESOLVE_ADDR RDMA_USER_CM_CMD_JOIN_MCAST
        RDMA_USER_CM_QUERY_ADDR RDMA_USER_CM_QUERY_PATH RDMA_USER_CM_QUERY_GID RDMA_PS_IPOIB RDMA_PS_IB
        RDMA_PS_TCP RDMA_PS_UDP RDMA_MC_JOIN_FLAG_FULLMEMBER RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER
        RDMA_OPTION_ID RDMA_OPTION_IB RDMA_OPTION_ID_TOS RDMA_OPTION_ID_REUSEADDR RDMA_OPTION_ID_AFONLY
        RDMA_OPTION_ID_ACK_TIMEOUT RDMA_OPTION_IB_PATH
    }

    writeln!(
        out,
        "_Static_assert(sizeof(struct sockaddr_in6) == {SOCKADDR_IN6_LEN}, \"in6\");"
    )
    .unwrap();

    writeln!(
        out,
        "_Static_assert(sizeof(struct __kernel_sockaddr_storage) == {SOCKADDR_STORAGE_LEN}, \"storage\");"
    )
    .unwrap();

    out
}

#[test]
fn kernel_rdma_cm() {
    header::agrees(
        "rdma/rdma_user_cm.h",
        &source(),
        "sizeof(struct rdma_ucm_bind) == 136",
        "sizeof(struct rdma_ucm_bind) == 132",
    );
}
