//! What packages and containers are made and tried with.

use super::{Need, file, program};

/// What makes packages.
pub const PACKAGE: &[Need] = &[
    program("binutils", "objcopy"),
    program("dpkg-dev", "dpkg-gensymbols"),
    program("rpm", "rpmbuild"),
    file(
        "python3-wheel",
        "/usr/lib/python3/dist-packages/wheel/__init__.py",
    ),
    program("xz-utils", "xz"),
    program("gzip", "gzip"),
];

/// What tries packages: makes them, and file systems to install them in.
pub const PACKAGING: &[Need] = &[
    program("perftest", "ib_write_bw"),
    program("mmdebstrap", "mmdebstrap"),
    program("uidmap", "newuidmap"),
    program("tar", "tar"),
    program("mount", "mount"),
    program("iproute2", "ip"),
    program("util-linux", "nsenter"),
    program("pkgconf", "pkg-config"),
];

/// Environments of Python.
pub const PYTHON_VENV: &[Need] = &[file(
    "python3-venv",
    "/usr/share/doc/python3-venv/copyright",
)];

/// The distribution's pytest.
pub const PYTEST: &[Need] = &[file(
    "python3-pytest",
    "/usr/lib/python3/dist-packages/pytest/__init__.py",
)];

/// Who looks at sources in Python.
pub const PYTHON_LINT: &[Need] = &[
    program("mypy", "mypy"),
    program("flake8", "flake8"),
    PYTEST[0],
];

/// Who knows Debian's rules.
pub const LINTIAN: &[Need] = &[program("lintian", "lintian")];

/// What runs containers, and what is in them; what Kubernetes' stand-in is made of.
pub const CONTAINERS: &[Need] = &[
    program("podman", "podman"),
    program("crun", "crun"),
    program("bubblewrap", "bwrap"),
    program("mmdebstrap", "mmdebstrap"),
    program("tar", "tar"),
    program("iproute2", "ip"),
    program("util-linux", "nsenter"),
    program("musl-tools", "musl-gcc"),
    file(
        "python3-grpcio",
        "/usr/lib/python3/dist-packages/grpc/__init__.py",
    ),
    file(
        "python3-protobuf",
        "/usr/lib/python3/dist-packages/google/protobuf/__init__.py",
    ),
    program("protobuf-compiler", "protoc"),
];
