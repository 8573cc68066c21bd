//! The numbers of the RDMA netlink ABI against the kernel's installed header, by a C compiler.

mod header;

use ferroce_cabi::rdma_netlink::*;
use std::fmt::Write as _;

fn source() -> String {
    let mut out = String::from("#include <linux/netlink.h>\n#include <rdma/rdma_netlink.h>\n");
    let mut check = |what: &str, is: i64| {
        writeln!(out, "_Static_assert({what} == {is}, \"{what}\");").unwrap();
    };
    for (name, number) in COMMANDS.iter().chain(ATTRIBUTES) {
        check(name, (*number).into());
    }
    check("NETLINK_RDMA", NETLINK_RDMA.into());
    check("RDMA_NL_NLDEV", RDMA_NL_NLDEV.into());
    let get = message_type(RDMA_NLDEV_CMD_GET);
    check(
        "RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET)",
        get.into(),
    );

    check(&format!("RDMA_NL_GET_CLIENT({get})"), family(get).into());
    check(&format!("RDMA_NL_GET_OP({get})"), command(get).into());
    check(&format!("(NLMSG_MIN_TYPE > {CONTROL})"), 1);
    check("sizeof(struct nlmsghdr)", size_of::<Control>() as i64 - 12);
    out
}

#[test]
fn numbers_agree_with_the_kernel_header() {
    header::agrees(
        "rdma/rdma_netlink.h",
        &source(),
        "RDMA_NLDEV_ATTR_CHARDEV == 72",
        "RDMA_NLDEV_ATTR_CHARDEV == 73",
    );
}

#[test]
fn a_port_number_has_one_name() {
    for port in [0, 1, 4711, 0x89ab_cdef, u32::MAX] {
        assert_eq!(port_of_name(&port_name(port)), Some(port));
    }
    for name in [
        &b""[..],
        b"ferroce-netlink-",
        b"ferroce-netlink-123456789",
        b"ferroce-netlink-+1234567",
    ] {
        assert_eq!(port_of_name(name), None);
    }
}
