//! The packages of a distribution, and what they want of others.

use super::files::Part;

/// A package, of Debian's kind and of rpm's.
pub(super) struct Package {
    pub part: Part,
    /// Its names; empty: there is none of this kind.
    pub deb: &'static str,
    pub rpm: &'static str,
    /// Debian's section.
    pub section: &'static str,
    pub summary: &'static str,
    /// Paragraphs.
    pub description: &'static [&'static str],
    /// Of this build's, in the same version.
    pub with: &'static [Part],
    /// Others that it cannot do without, beyond the libraries that it is linked with.
    pub depends: Others,
    /// Others without which hardly anybody has a use for it.
    pub recommends: Others,
    /// Others that go with it.
    pub suggests: Others,
    /// Whether those of several architectures can be installed beside each other.
    pub beside_others: bool,
}

/// Packages of the distribution, as Debian names them and as Fedora does.
pub(super) struct Others {
    pub deb: &'static [&'static str],
    pub rpm: &'static [&'static str],
}

const NONE: Others = Others { deb: &[], rpm: &[] };

pub(super) const PACKAGES: &[Package] = &[
    Package {
        part: Part::Ferroce,
        deb: "ferroce",
        rpm: "ferroce",
        section: "net",
        summary: "RDMA device in software, in user space",
        description: &[
            "A host channel adapter for RDMA that needs no hardware, no kernel module and no \
             privileges. Unmodified programs that are linked with libibverbs or librdmacm see a \
             device, which speaks RoCEv2, the InfiniBand transport over UDP.",
            "Nothing is started by the installation: `ferroce run -- ibv_devinfo` starts the \
             device's daemon, for the user who calls it.",
        ],
        with: &[],
        depends: NONE,
        // The programs that it is for bring them. A machine without has no such program yet.
        recommends: Others {
            deb: &["libibverbs1", "librdmacm1"],
            rpm: &["libibverbs", "librdmacm"],
        },
        suggests: Others {
            deb: &[
                "perftest",
                "ibverbs-utils",
                "rdmacm-utils",
                "infiniband-diags",
                "opensm",
            ],
            rpm: &[
                "perftest",
                "libibverbs-utils",
                "librdmacm-utils",
                "infiniband-diags",
                "opensm",
            ],
        },
        beside_others: false,
    },
    Package {
        part: Part::Ibta,
        deb: "ferroce-ibta",
        rpm: "ferroce-ibta",
        section: "net",
        summary: "InfiniBand conformance suite, without InfiniBand hardware",
        description: &[
            "The two testers of the InfiniBand test specification in software: whether a device \
             keeps the rules of the specification, packet by packet. It tests the device of the \
             package ferroce, the kernel's soft-RoCE, and RoCE adapters.",
        ],
        with: &[Part::Ferroce],
        depends: NONE,
        recommends: Others {
            deb: &["libibverbs1"],
            rpm: &["libibverbs"],
        },
        suggests: Others {
            deb: &["tshark"],
            rpm: &["wireshark-cli"],
        },
        beside_others: false,
    },
    Package {
        part: Part::Exs,
        deb: "libexs1",
        rpm: "libexs",
        section: "libs",
        summary: "Extended Sockets API over RDMA verbs",
        description: &[
            "Sockets with asynchronous operations and registered memory (the Open Group's \
             Extended Sockets API), over any device that libibverbs and librdmacm know, that of \
             the package ferroce among them.",
        ],
        with: &[],
        depends: NONE,
        recommends: NONE,
        suggests: NONE,
        beside_others: true,
    },
    Package {
        part: Part::ExsDevelopment,
        deb: "libexs-dev",
        rpm: "libexs-devel",
        section: "libdevel",
        summary: "Extended Sockets API over RDMA verbs: development files",
        description: &[
            "Sockets with asynchronous operations and registered memory (the Open Group's \
             Extended Sockets API), over any device that libibverbs and librdmacm know.",
            "This package has what programs are compiled with: header, manual pages, examples and \
             the file of pkg-config.",
        ],
        with: &[Part::Exs],
        // The file of pkg-config names theirs.
        depends: Others {
            deb: &["libibverbs-dev", "librdmacm-dev"],
            rpm: &["rdma-core-devel"],
        },
        recommends: NONE,
        suggests: Others {
            deb: &["pkgconf"],
            rpm: &["pkgconf-pkg-config"],
        },
        beside_others: true,
    },
    Package {
        part: Part::Python,
        deb: "python3-ferroce",
        // Its directory would have the version of one Python there.
        rpm: "",
        section: "python",
        summary: "RDMA device in software: for tests in Python",
        description: &[
            "Devices, faults on command and captures as contexts of Python, and a plugin for \
             pytest with fixtures, for tests of programs that use RDMA.",
        ],
        with: &[Part::Ferroce],
        depends: Others {
            deb: &["python3 (>= 3.9)"],
            rpm: &[],
        },
        recommends: NONE,
        suggests: Others {
            deb: &["python3-pytest"],
            rpm: &[],
        },
        beside_others: false,
    },
];

/// The package of a part.
pub(super) fn of(part: Part) -> &'static Package {
    PACKAGES
        .iter()
        .find(|package| package.part == part)
        .unwrap_or_else(|| unreachable!("every part has a package"))
}
