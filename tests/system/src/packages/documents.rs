//! What the commands of the documents need.

use super::{Need, file, program};

/// What README names, for its commands.
pub const README: &[Need] = &[
    program("gcc", "cc"),
    program("ibverbs-utils", "ibv_devinfo"),
    program("infiniband-diags", "ibnetdiscover"),
    program("iproute2", "rdma"),
    file("libibverbs-dev", "/usr/include/infiniband/verbs.h"),
    file("librdmacm-dev", "/usr/include/rdma/rdma_cma.h"),
    program("opensm", "opensm"),
    program("perftest", "ib_write_bw"),
    program("pkgconf", "pkg-config"),
    program("rdmacm-utils", "rping"),
    program("tshark", "tshark"),
];

/// The same, with what docs/ci.md has, and what paragraphs are typed in.
pub const DOCUMENTS: &[Need] = &{
    let mut all = [README[0]; README.len() + BESIDES.len()];
    let (readme, besides) = all.split_at_mut(README.len());
    readme.copy_from_slice(README);
    besides.copy_from_slice(BESIDES);
    all
};

const BESIDES: &[Need] = &[
    program("util-linux", "unshare"),
    program("fish", "fish"),
    program("tcsh", "tcsh"),
    program("zsh", "zsh"),
    program("direnv", "direnv"),
    file("python3-venv", "/usr/share/doc/python3-venv/copyright"),
    file(
        "python3-pytest",
        "/usr/lib/python3/dist-packages/pytest/__init__.py",
    ),
    file(
        "python3-pyverbs",
        "/usr/lib/python3/dist-packages/pyverbs/__init__.py",
    ),
];
