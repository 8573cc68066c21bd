//! The Debian packages that the commands need, and which of them are missing.
//!
//! A package is asked for by what is used of it (a program, a header), so that a machine which has
//! the thing from elsewhere is left alone.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::apt;

mod applications;
mod documents;
mod packaging;

pub use applications::{APPLICATIONS, CEPH, LANGUAGES, MANAGEMENT};
pub use documents::{DOCUMENTS, README};
pub use packaging::{CONTAINERS, LINTIAN, PACKAGE, PACKAGING, PYTEST, PYTHON_LINT, PYTHON_VENV};

/// The distribution's Python, which has its packages.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// Something that a command uses, and the package that brings it.
#[derive(Clone, Copy)]
pub struct Need {
    package: &'static str,
    used: Used,
}

#[derive(Clone, Copy)]
enum Used {
    Program(&'static str),
    File(&'static str),
}

const fn program(package: &'static str, name: &'static str) -> Need {
    Need {
        package,
        used: Used::Program(name),
    }
}

const fn file(package: &'static str, path: &'static str) -> Need {
    Need {
        package,
        used: Used::File(path),
    }
}

/// What the demo runs.
pub const DEMO: &[Need] = &[program("perftest", "ib_write_bw")];

/// What the product is built with: the Extended Sockets library has a part in C.
pub const BUILD: &[Need] = &[
    program("gcc", "cc"),
    file("libibverbs-dev", "/usr/include/infiniband/verbs.h"),
    file("librdmacm-dev", "/usr/include/rdma/rdma_cma.h"),
];

/// What the benchmarks run.
pub const BENCH: &[Need] = &[
    program("perftest", "ib_write_bw"),
    program("qperf", "qperf"),
    program("rdmacm-utils", "cmtime"),
    program("gcc", "cc"),
    file("libibverbs-dev", "/usr/include/infiniband/verbs.h"),
    file("librdmacm-dev", "/usr/include/rdma/rdma_cma.h"),
];

/// What shows where the time goes.
pub const PROFILE: &[Need] = &[
    program("linux-perf", "perf"),
    program("binutils", "addr2line"),
];

/// What the benchmark's pictures need besides: a network that loses packets, TCP in it.
pub const CURVES: &[Need] = &[
    program("iperf3", "iperf3"),
    program("nftables", "nft"),
    program("iproute2", "ip"),
];

/// What libFuzzer is compiled with.
pub const FUZZ: &[Need] = &[program("g++", "c++")];

/// What the chaos command runs.
pub const CHAOS: &[Need] = &[
    program("rdmacm-utils", "rping"),
    program("gcc", "cc"),
    file("libibverbs-dev", "/usr/include/infiniband/verbs.h"),
    file("librdmacm-dev", "/usr/include/rdma/rdma_cma.h"),
    program("util-linux", "chrt"),
];

/// What the unit tests compile against: the layouts of `cabi` are compared with the C headers.
pub const HEADERS: &[Need] = &[
    program("gcc", "cc"),
    file("libibverbs-dev", "/usr/include/infiniband/verbs.h"),
    file("librdmacm-dev", "/usr/include/rdma/rdma_cma.h"),
    file("libibumad-dev", "/usr/include/infiniband/umad.h"),
];

/// What the tests with stock programs run.
pub const VERBS: &[Need] = &[
    program("perftest", "ib_write_bw"),
    program("ibverbs-utils", "ibv_devinfo"),
    program("gcc", "cc"),
    file("libibverbs-dev", "/usr/include/infiniband/verbs.h"),
    program("iproute2", "ip"),
    program("nftables", "nft"),
    program("util-linux", "nsenter"),
    program("tshark", "tshark"),
];

/// What users of the machine's device run.
pub const SYSTEM: &[Need] = &[
    program("perftest", "ib_write_bw"),
    program("ibverbs-utils", "ibv_devinfo"),
    program("rdmacm-utils", "rping"),
    program("python3", "python3"),
    program("iproute2", "rdma"),
    program("passwd", "useradd"),
    program("systemd", "systemd-analyze"),
    program("util-linux", "nsenter"),
];

/// What the conformance suite's tests run: its reports are looked at in a browser.
pub const IBTA: &[Need] = &[
    program("perftest", "ib_write_bw"),
    program("ibverbs-utils", "ibv_devinfo"),
    program("gcc", "cc"),
    file("libibverbs-dev", "/usr/include/infiniband/verbs.h"),
    program("iproute2", "ip"),
    program("util-linux", "nsenter"),
    program("tshark", "tshark"),
    program("chromium", "chromium"),
];

/// What the tests of the connection manager run.
pub const CM: &[Need] = &[
    program("perftest", "ib_write_bw"),
    program("rdmacm-utils", "rping"),
    program("tshark", "tshark"),
    program("gcc", "cc"),
    file("librdmacm-dev", "/usr/include/rdma/rdma_cma.h"),
    program("iproute2", "ip"),
    program("util-linux", "nsenter"),
    file(
        "python3-pyverbs",
        "/usr/lib/python3/dist-packages/pyverbs/__init__.py",
    ),
    program("busybox", "busybox"),
    program("mbuffer", "mbuffer"),
    program("gzip", "gzip"),
];

/// What the tests of metrics, faults, captures and `ferroce top` run.
pub const INSTRUMENT: &[Need] = &[
    program("perftest", "ib_write_bw"),
    program("ibverbs-utils", "ibv_rc_pingpong"),
    program("rdmacm-utils", "rping"),
    program("tshark", "tshark"),
    program("opensm", "opensm"),
    program("iproute2", "rdma"),
    program("util-linux", "nsenter"),
    program("tmux", "tmux"),
    file(
        "python3-pyverbs",
        "/usr/lib/python3/dist-packages/pyverbs/__init__.py",
    ),
    file("python3", "/usr/bin/python3"),
    file(
        "python3-prometheus-client",
        "/usr/lib/python3/dist-packages/prometheus_client/__init__.py",
    ),
    PYTEST[0],
];

/// What the tests of netlink run.
pub const NETLINK: &[Need] = &[
    program("iproute2", "rdma"),
    program("ibverbs-utils", "ibv_devinfo"),
    program("perftest", "ib_write_bw"),
    program("rdmacm-utils", "rping"),
];

/// What the tests of the InfiniBand link layer run.
pub const FABRIC: &[Need] = &[
    program("opensm", "opensm"),
    program("infiniband-diags", "ibnetdiscover"),
    program("ibverbs-utils", "ibv_rc_pingpong"),
    program("perftest", "ib_write_bw"),
    program("gcc", "cc"),
    file("libibumad-dev", "/usr/include/infiniband/umad.h"),
    program("rdmacm-utils", "rping"),
];

/// What the tests of the Extended Sockets library are built with.
pub const EXS: &[Need] = &[
    program("gcc", "cc"),
    program("make", "make"),
    program("pkgconf", "pkg-config"),
    file("libibverbs-dev", "/usr/include/infiniband/verbs.h"),
    file("librdmacm-dev", "/usr/include/rdma/rdma_cma.h"),
];

/// What rdma-core's own test suite runs on.
pub const PYVERBS: &[Need] = &[
    program("python3", "python3"),
    file(
        "python3-pyverbs",
        "/usr/lib/python3/dist-packages/pyverbs/__init__.py",
    ),
    program("gzip", "gzip"),
    program("iproute2", "ip"),
    program("util-linux", "nsenter"),
];

/// What runs between ferroce and the kernel's soft-RoCE, in a guest that sees this machine's files.
pub const INTEROP: &[Need] = &[
    program("perftest", "ib_write_bw"),
    program("ibverbs-utils", "ibv_devinfo"),
    program("rdmacm-utils", "rping"),
    program("fio", "fio"),
    program("iperf3", "iperf3"),
    program("tshark", "dumpcap"),
    program("gcc", "cc"),
    file("libibverbs-dev", "/usr/include/infiniband/verbs.h"),
    file("librdmacm-dev", "/usr/include/rdma/rdma_cma.h"),
    program("python3", "python3"),
    program("iproute2", "tc"),
    program("util-linux", "nsenter"),
];

/// What a guest with a kernel of its own takes.
pub const GUEST: &[Need] = &[
    program("qemu-system-x86", "qemu-system-x86_64"),
    // Not the static one, which replaces it and into which nothing can be preloaded (group `cm`).
    program("busybox", "busybox"),
    program("kmod", "depmod"),
    program("cpio", "cpio"),
    program("xz-utils", "xz"),
    program("zstd", "zstd"),
    program("iproute2", "rdma"),
];

/// What builds for older distributions.
pub const PORTABLE: &[Need] = &[
    file(
        "python3-pip",
        "/usr/lib/python3/dist-packages/pip/__init__.py",
    ),
    program("binutils", "readelf"),
];

/// What makes other distributions' file systems and runs programs in them.
pub const ROOTS: &[Need] = &[
    program("mmdebstrap", "mmdebstrap"),
    // With which mmdebstrap works without root.
    program("uidmap", "newuidmap"),
    program("tar", "tar"),
    program("mount", "mount"),
    program("iproute2", "ip"),
    program("util-linux", "nsenter"),
];

/// What runs programs of another architecture.
pub const EMULATOR: &[Need] = &[
    program("qemu-user-static", "qemu-aarch64-static"),
    // Which mmdebstrap asks whether there is an emulator.
    program("arch-test", "arch-test"),
];

/// What runs under Valgrind.
pub const MEMCHECK: &[Need] = &[
    program("valgrind", "valgrind"),
    // Valgrind refuses to start without the symbols of the dynamic linker.
    file("libc6-dbg", "/usr/lib/debug/.build-id"),
    program("ibverbs-utils", "ibv_devinfo"),
    program("gcc", "cc"),
    program("clang", "clang"),
    file(
        "libclang-rt-dev",
        "/usr/share/doc/libclang-rt-dev/copyright",
    ),
    file("libibverbs-dev", "/usr/include/infiniband/verbs.h"),
    file(
        "python3-pyverbs",
        "/usr/lib/python3/dist-packages/pyverbs/__init__.py",
    ),
];

/// Installs what is missing, after saying so.
///
/// What is installed may have another package removed that was there (qemu-block-extra removes a
/// qemu-utils of backports, whose version differs): that one is installed next.
pub fn ensure(needs: &[Need]) -> Result<()> {
    let mut absent = missing(needs);
    let mut tried = Vec::new();

    while !absent.is_empty() {
        if absent.iter().all(|package| tried.contains(package)) {
            bail!("still missing after installation: {}", absent.join(" "));
        }
        apt::install(&absent)?;
        tried.append(&mut absent);
        absent = missing(needs);
    }
    Ok(())
}

/// The packages of these needs, sorted.
#[cfg(test)]
pub(crate) fn names(needs: &[Need]) -> Vec<&'static str> {
    let mut names: Vec<_> = needs.iter().map(|need| need.package).collect();
    names.sort_unstable();
    names
}

/// Where a program is, if anywhere.
pub fn which(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    // Users' paths often lack the directories of ip and tc.
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(program))
        .find(|candidate| candidate.is_file())
}

fn missing(needs: &[Need]) -> Vec<&'static str> {
    let mut packages: Vec<_> = needs
        .iter()
        .filter(|need| match need.used {
            Used::Program(name) => which(name).is_none(),
            Used::File(path) => !Path::new(path).exists(),
        })
        .map(|need| need.package)
        .collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}
