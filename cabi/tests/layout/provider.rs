//! The provider interface, cut from the text of `driver.h`.

use ferroce_cabi::pabi34::*;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};

pub fn check(out: &mut String, driver_h: &str) {
    out.push_str("#include <stdatomic.h>\n#include <stdbool.h>\n#include <time.h>\n");
    out.push_str("struct list_node { struct list_node *next, *prev; };\n");
    for (kind, name) in [
        ("struct", "verbs_xrcd"),
        ("struct", "verbs_srq"),
        ("enum", "ibv_mr_type"),
        ("struct", "verbs_mr"),
        ("struct", "verbs_qp"),
        ("struct", "verbs_cq"),
        ("struct", "verbs_dm"),
        ("struct", "verbs_match_ent"),
        ("struct", "verbs_sysfs_dev"),
        ("forward", "struct verbs_device;"),
        ("struct", "verbs_device_ops"),
        ("struct", "verbs_device"),
        ("struct", "verbs_context_ops"),
    ] {
        if kind == "forward" {
            writeln!(out, "{name}").unwrap();
            continue;
        }
        let head = format!("{kind} {name} {{");
        let start = driver_h
            .find(&head)
            .unwrap_or_else(|| panic!("driver.h has no {kind} {name}"));
        let end = driver_h[start..]
            .find("\n};")
            .expect("the end of a definition")
            + 3;
        writeln!(out, "{}", &driver_h[start..start + end]).unwrap();
    }
    check!(out, "struct list_node", list_node { next, prev });
    check!(
        out,
        "struct verbs_match_ent",
        verbs_match_ent {
            driver_data,
            u,
            vendor,
            device,
            kind
        }
    );
    check!(
        out,
        "struct verbs_sysfs_dev",
        verbs_sysfs_dev {
            entry,
            provider_data,
            r#match,
            flags,
            sysfs_name,
            sysfs_cdev,
            ibdev_name,
            ibdev_path,
            modalias,
            node_guid,
            driver_id,
            node_type,
            ibdev_idx,
            num_ports,
            abi_ver,
            time_created,
        }
    );
    check!(
        out,
        "struct verbs_device_ops",
        verbs_device_ops {
            name,
            match_min_abi_version,
            match_max_abi_version,
            match_table,
            static_providers,
            match_device,
            alloc_context,
            import_context,
            alloc_device,
            uninit_device,
        }
    );
    check!(
        out,
        "struct verbs_device",
        verbs_device {
            device,
            ops,
            refcount,
            entry,
            sysfs,
            core_support
        }
    );
    check!(
        out,
        "struct verbs_mr",
        verbs_mr {
            ibv_mr,
            mr_type,
            access
        }
    );
    check!(
        out,
        "struct verbs_xrcd",
        verbs_xrcd {
            xrcd,
            comp_mask,
            handle
        }
    );
    value!(
        out,
        "IBV_MR_TYPE_NULL_MR" = mr_type::NULL_MR,
        "IBV_MR_TYPE_IMPORTED_MR" = mr_type::IMPORTED_MR,
        "IBV_MR_TYPE_DMABUF_MR" = mr_type::DMABUF_MR,
    );
    check!(
        out,
        "struct verbs_srq",
        verbs_srq {
            srq,
            srq_type,
            xrcd,
            cq,
            srq_num
        }
    );
    check!(
        out,
        "struct verbs_qp",
        verbs_qp {
            qp_ex,
            comp_mask,
            xrcd
        }
    );
    check!(out, "struct verbs_cq", verbs_cq { cq_ex });
    check!(out, "struct verbs_dm", verbs_dm { dm, handle });
    check!(
        out,
        "struct verbs_context_ops",
        verbs_context_ops {
            advise_mr,
            alloc_dm,
            alloc_mw,
            alloc_null_mr,
            alloc_parent_domain,
            alloc_pd,
            alloc_td,
            async_event,
            attach_counters_point_flow,
            attach_mcast,
            bind_mw,
            close_xrcd,
            cq_event,
            create_ah,
            create_counters,
            create_cq,
            create_cq_ex,
            create_flow,
            create_flow_action_esp,
            create_qp,
            create_qp_ex,
            create_rwq_ind_table,
            create_srq,
            create_srq_ex,
            create_wq,
            dealloc_mw,
            dealloc_pd,
            dealloc_td,
            dereg_mr,
            destroy_ah,
            destroy_counters,
            destroy_cq,
            destroy_flow,
            destroy_flow_action,
            destroy_qp,
            destroy_rwq_ind_table,
            destroy_srq,
            destroy_wq,
            detach_mcast,
            free_context,
            free_dm,
            get_srq_num,
            import_dm,
            import_mr,
            import_pd,
            modify_cq,
            modify_flow_action_esp,
            modify_qp,
            modify_qp_rate_limit,
            modify_srq,
            modify_wq,
            open_qp,
            open_xrcd,
            poll_cq,
            post_recv,
            post_send,
            post_srq_ops,
            post_srq_recv,
            query_device_ex,
            query_ece,
            query_port,
            query_qp,
            query_qp_data_in_order,
            query_rt_values,
            query_srq,
            read_counters,
            reg_dm_mr,
            reg_dmabuf_mr,
            reg_mr,
            req_notify_cq,
            rereg_mr,
            resize_cq,
            set_ece,
            unimport_dm,
            unimport_mr,
            unimport_pd,
        }
    );
}
