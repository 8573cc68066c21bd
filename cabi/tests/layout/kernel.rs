//! The kernel's uverbs ABI.

use ferroce_cabi::ibv_gid_entry;
use ferroce_cabi::pabi::CORE_SUPPORT_OPTIONAL_MR_ACCESS;
use ferroce_cabi::uverbs::*;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};

pub(crate) fn check(out: &mut String) {
    out.push_str("#include <rdma/ib_user_verbs.h>\n#include <rdma/rdma_user_ioctl_cmds.h>\n");
    out.push_str("#include <rdma/ib_user_ioctl_cmds.h>\n#include <rdma/ib_user_ioctl_verbs.h>\n");
    check!(
        out,
        "struct ib_uverbs_cmd_hdr",
        ib_uverbs_cmd_hdr {
            command,
            in_words,
            out_words
        }
    );

    check!(
        out,
        "struct ib_uverbs_create_comp_channel",
        ib_uverbs_create_comp_channel { response }
    );

    check!(
        out,
        "struct ib_uverbs_create_comp_channel_resp",
        ib_uverbs_create_comp_channel_resp { fd }
    );

    check!(
        out,
        "struct ib_uverbs_async_event_desc",
        ib_uverbs_async_event_desc {
            element,
            event_type,
            reserved
        }
    );

    check!(
        out,
        "struct ib_uverbs_comp_event_desc",
        ib_uverbs_comp_event_desc { cq_handle }
    );

    check!(
        out,
        "struct ib_uverbs_ioctl_hdr",
        ib_uverbs_ioctl_hdr {
            length,
            object_id,
            method_id,
            num_attrs,
            reserved1,
            driver_id,
            reserved2,
        }
    );

    check!(
        out,
        "struct ib_uverbs_attr",
        ib_uverbs_attr {
            attr_id,
            len,
            flags,
            attr_data,
            data
        }
    );

    check!(out, "struct ib_uverbs_gid_entry", ibv_gid_entry {
        gid, gid_index, port_num, gid_type, ndev_ifindex => "netdev_ifindex",
    });
    value!(
        out,
        "IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL" = IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL,
        "RDMA_VERBS_IOCTL" = RDMA_VERBS_IOCTL,
        "UVERBS_ATTR_F_MANDATORY" = UVERBS_ATTR_F_MANDATORY,
        "UVERBS_ATTR_F_VALID_OUTPUT" = UVERBS_ATTR_F_VALID_OUTPUT,
        "UVERBS_OBJECT_DEVICE" = UVERBS_OBJECT_DEVICE,
        "UVERBS_METHOD_INVOKE_WRITE" = UVERBS_METHOD_INVOKE_WRITE,
        "UVERBS_METHOD_QUERY_GID_TABLE" = UVERBS_METHOD_QUERY_GID_TABLE,
        "UVERBS_METHOD_QUERY_GID_ENTRY" = UVERBS_METHOD_QUERY_GID_ENTRY,
        "UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE" = UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE,
        "UVERBS_ATTR_QUERY_GID_TABLE_FLAGS" = UVERBS_ATTR_QUERY_GID_TABLE_FLAGS,
        "UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES" = UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES,
        "UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES" =
            UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES,
        "UVERBS_OBJECT_ASYNC_EVENT" = UVERBS_OBJECT_ASYNC_EVENT,
        "UVERBS_METHOD_ASYNC_EVENT_ALLOC" = UVERBS_METHOD_ASYNC_EVENT_ALLOC,
        "UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE" = UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE,
        "UVERBS_ATTR_QUERY_GID_ENTRY_PORT" = UVERBS_ATTR_QUERY_GID_ENTRY_PORT,
        "UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX" = UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX,
        "UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS" = UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS,
        "UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY" = UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY,
        "IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS" = CORE_SUPPORT_OPTIONAL_MR_ACCESS,
    );
}
