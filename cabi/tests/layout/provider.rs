//! The provider interface, cut from the text of `driver.h`, and what the row of its version says.

use ferroce_cabi::pabi::*;
use ferroce_cabi::{Op, ibv_mr_init_attr, reg_mr_mask, verbs_context};
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};

/// What differs between versions.
pub(crate) fn check_version(out: &mut String, driver_h: &str, layout: &Layout) {
    assert_eq!(operations(driver_h), layout.operations());
    let head = layout.context_head() * size_of::<Op>();
    let size = size_of::<verbs_context>() + head;
    writeln!(
        out,
        "_Static_assert(sizeof(struct verbs_context) == {size}, \"size of the context\");\n\
         _Static_assert(offsetof(struct verbs_context, query_port) == {head}, \"head of the context\");\n\
         _Static_assert(sizeof(struct ibv_qp_ex) == {0}, \"functions of a queue pair\");\n\
         _Static_assert(offsetof(struct verbs_qp, comp_mask) == {0}, \"mask of a queue pair\");\n\
         _Static_assert(offsetof(struct verbs_qp, xrcd) == {1}, \"XRC domain of a queue pair\");",
        layout.qp_mask(),
        layout.qp_mask() + offset_of!(verbs_qp_tail, xrcd),
    )
    .unwrap();

    if layout.operations().contains(&"reg_mr_ex") {
        check!(
            out,
            "struct ibv_mr_init_attr" grown from size_of::<ibv_mr_init_attr>(),
            ibv_mr_init_attr { length, access, comp_mask, iova, addr, fd, fd_offset }
        );
        value!(
            out,
            "IBV_REG_MR_MASK_IOVA" = reg_mr_mask::IOVA,
            "IBV_REG_MR_MASK_ADDR" = reg_mr_mask::ADDR,
            "IBV_REG_MR_MASK_FD" = reg_mr_mask::FD,
            "IBV_REG_MR_MASK_FD_OFFSET" = reg_mr_mask::FD_OFFSET,
        );
    }
}

/// The names of the operations, as they stand in `struct verbs_context_ops`.
fn operations(driver_h: &str) -> Vec<&str> {
    let table = definition(driver_h, "struct", "verbs_context_ops");
    let named = table.split("(*").skip(1);
    named
        .filter_map(|rest| Some(rest.split_once(')')?.0))
        .collect()
}

/// The text of a definition.
fn definition<'a>(driver_h: &'a str, kind: &str, name: &str) -> &'a str {
    let head = format!("{kind} {name} {{");
    let start = driver_h
        .find(&head)
        .unwrap_or_else(|| panic!("driver.h has no {kind} {name}"));
    let end = driver_h[start..]
        .find("\n};")
        .expect("the end of a definition")
        + 3;
    &driver_h[start..start + end]
}

/// What is the same in all versions.
pub(crate) fn check(out: &mut String, driver_h: &str) {
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
    ] {
        if kind == "forward" {
            writeln!(out, "{name}").unwrap();
            continue;
        }
        writeln!(out, "{}", definition(driver_h, kind, name)).unwrap();
    }

    structures(out);
}

/// The structures themselves.
fn structures(out: &mut String) {
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
        "struct verbs_sysfs_dev" grown from size_of::<verbs_sysfs_dev>(),
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

    check!(out, "struct verbs_cq", verbs_cq { cq_ex });
    check!(out, "struct verbs_dm", verbs_dm { dm, handle });
}
