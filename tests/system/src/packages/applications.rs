//! What the tests of applications run, and build.

use super::{Need, file, program};

/// What people run over RDMA.
pub const APPLICATIONS: &[Need] = &[
    program("ucx-utils", "ucx_perftest"),
    program("libfabric-bin", "fi_pingpong"),
    program("openmpi-bin", "mpirun.openmpi"),
    file(
        "libopenmpi-dev",
        "/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h",
    ),
    program("mpich", "mpiexec.hydra"),
    file("libmpich-dev", "/usr/include/x86_64-linux-gnu/mpich/mpi.h"),
    file(
        "python3-mpi4py",
        "/usr/lib/python3/dist-packages/mpi4py/__init__.py",
    ),
    program("netpipe-openmpi", "NPopenmpi"),
    program("netpipe-mpich2", "NPmpich2"),
    program("hpcc", "hpcc"),
    program("rdmacm-utils", "rping"),
    // Open MPI's own transport runs in a fabric.
    program("opensm", "opensm"),
    program("infiniband-diags", "ibstat"),
    program("busybox", "busybox"),
    program("curl", "curl"),
    program("iperf", "iperf"),
    program("fio", "fio"),
    program("dapl2-utils", "dapltest"),
    program("tgt", "tgtd"),
    program("libiscsi-bin", "iscsi-inq"),
    program("qemu-utils", "qemu-img"),
    // libiscsi for QEMU's tools.
    file(
        "qemu-block-extra",
        "/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so",
    ),
    program("qemu-system-x86", "qemu-system-x86_64"),
    file("librpma-dev", "/usr/include/librpma.h"),
    file(
        "libgloo-dev",
        "/usr/include/gloo/transport/ibverbs/device.h",
    ),
    file("libibverbs-dev", "/usr/include/infiniband/verbs.h"),
    program("g++", "c++"),
    program("gdb", "gdb"),
    program("valgrind", "valgrind"),
    file("libc6-dbg", "/usr/lib/debug/.build-id"),
    program("gcc", "cc"),
    program("iproute2", "ip"),
    program("util-linux", "nsenter"),
];

/// What programs in other languages are built with.
pub const LANGUAGES: &[Need] = &[
    program("golang-go", "go"),
    program("gcc", "cc"),
    program("g++", "c++"),
    program("make", "make"),
    // The crates bring an rdma-core of their own, for its headers, and have bindings generated.
    program("cmake", "cmake"),
    program("pkgconf", "pkg-config"),
    file("libnl-3-dev", "/usr/include/libnl3/netlink/netlink.h"),
    file(
        "libnl-route-3-dev",
        "/usr/include/libnl3/netlink/route/link.h",
    ),
    file("libclang-dev", "/usr/share/doc/libclang-dev/copyright"),
    file("libibverbs-dev", "/usr/include/infiniband/verbs.h"),
    file("librdmacm-dev", "/usr/include/rdma/rdma_cma.h"),
];

/// A cluster of Ceph, with some eighty packages that it wants.
pub const CEPH: &[Need] = &[
    program("ceph-mon", "ceph-mon"),
    program("ceph-osd", "ceph-osd"),
    program("ceph-common", "rados"),
];

/// What else looks at a fabric, beside OpenSM and its diagnostics.
pub const MANAGEMENT: &[Need] = &[
    program("ibacm", "ibacm"),
    program("srptools", "srp_daemon"),
    program("ibutils", "ibdiagnet"),
];
