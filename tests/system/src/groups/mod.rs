//! `cargo xtask test`: the groups of tests and how they are chosen, run and summed up.
//!
//! A new group is a module with a function that lists its cases, and a line in `GROUPS`.

mod applications;
mod cargo_tests;
pub(crate) mod cm;
mod containers;
mod distributions;
mod documents;
mod errors;
mod exs;
mod fabric;
mod ibta;
mod instrument;
mod interop;
mod kernels;
mod lint;
mod memcheck;
mod netlink;
mod packaging;
mod pyverbs;
mod robust;
mod sanitized;
mod scale;
mod sim;
mod system;
mod unit;
mod verbs;

use anyhow::{Result, bail};

use crate::harness::case::{Case, Company};
use crate::packages::{self, Need};

pub(crate) use exs::document::markdown as exs_misprints;
pub use exs::mutants::command as exs_mutants;
pub(crate) use exs::mutants::table::markdown as exs_mutants_table;
pub(crate) use exs::table::markdown as exs_programs;
pub(crate) use exs::table::performed as exs_performed;
pub(crate) use exs::{
    Mode, in_mode as exs_in_mode, programs as exs_programs_dir, results as exs_results,
    with_peer as exs_with_peer,
};

/// A group of cases.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    about: &'static str,
    pub(crate) needs: &'static [Need],
    /// Whether it runs the built product.
    pub(crate) product: bool,
    /// What its cases may have running beside them, unless they say otherwise themselves.
    pub(crate) company: Company,
    /// Its cases wait more than they compute.
    pub(crate) waits: bool,
    pub(crate) cases: fn() -> Vec<Case>,
}

/// Groups that only who names them gets: each takes minutes.
const ONLY_NAMED: [&str; 3] = ["kernels", "sanitized", "scale"];

/// In the order in which they run: what says most in the least time comes first.
pub(crate) const GROUPS: &[Group] = &[
    Group {
        name: "lint",
        about: "rustfmt, clippy, rustdoc, the declared Rust version, fuzz targets, links, licences",
        needs: packages::HEADERS,
        product: false,
        company: Company::Alone,
        waits: false,
        cases: lint::cases,
    },
    Group {
        name: "unit",
        about: "cargo test of the workspace",
        needs: packages::HEADERS,
        product: false,
        company: Company::Alone,
        waits: false,
        cases: unit::cases,
    },
    Group {
        name: "sim",
        about: "the transport over a simulated bad network, many seeds",
        needs: &[],
        product: false,
        company: Company::Alone,
        waits: false,
        cases: sim::cases,
    },
    Group {
        name: "verbs",
        about: "stock programs and C programs over stock libibverbs",
        needs: packages::VERBS,
        product: true,
        company: Company::Alone,
        waits: false,
        cases: verbs::cases,
    },
    Group {
        name: "pyverbs",
        about: "rdma-core's own test suite",
        needs: packages::PYVERBS,
        product: true,
        // It asks the machine for huge pages.
        company: Company::Alone,
        waits: false,
        cases: pyverbs::cases,
    },
    Group {
        name: "cm",
        about: "the stock programs of librdmacm",
        needs: packages::CM,
        product: true,
        company: Company::ByPlace,
        waits: true,
        cases: cm::cases,
    },
    Group {
        name: "netlink",
        about: "what rdma of iproute2 shows",
        needs: packages::NETLINK,
        product: true,
        company: Company::AsOne,
        waits: true,
        cases: netlink::cases,
    },
    Group {
        name: "instrument",
        about: "metrics, as Prometheus' own parser reads them; `ferroce fault`, `capture` and `top`",
        needs: packages::INSTRUMENT,
        product: true,
        company: Company::AsOne,
        waits: true,
        cases: instrument::cases,
    },
    Group {
        name: "fabric",
        about: "OpenSM and infiniband-diags over InfiniBand ports and switches",
        needs: packages::FABRIC,
        product: true,
        company: Company::ByPlace,
        waits: true,
        cases: fabric::cases,
    },
    Group {
        name: "exs",
        about: "conformance of the Extended Sockets library",
        needs: packages::EXS,
        product: true,
        company: Company::AsOne,
        waits: true,
        cases: exs::cases,
    },
    Group {
        name: "ibta",
        about: "the InfiniBand conformance suite: simulated, with its mutants, and on ferroce's own devices",
        needs: packages::IBTA,
        product: true,
        company: Company::ByPlace,
        waits: true,
        cases: ibta::cases,
    },
    Group {
        name: "errors",
        about: "every error status, bad input",
        needs: packages::VERBS,
        product: true,
        company: Company::ByPlace,
        waits: true,
        cases: errors::cases,
    },
    Group {
        name: "robust",
        about: "killed processes, hostile datagrams, unusual environments",
        needs: packages::VERBS,
        product: true,
        company: Company::ByPlace,
        waits: true,
        cases: robust::cases,
    },
    Group {
        name: "documents",
        about: "what README and docs/ci.md tell their readers to type, as printed",
        needs: packages::DOCUMENTS,
        product: true,
        // They install, and so build, as README has it, and fetch what looks at schemas.
        company: Company::AtHome,
        waits: false,
        cases: documents::cases,
    },
    Group {
        name: "containers",
        about: "stock programs in containers, by CDI and by Kubernetes' device plugin",
        needs: packages::CONTAINERS,
        product: true,
        company: Company::AtHome,
        waits: false,
        cases: containers::cases,
    },
    Group {
        name: "system",
        about: "a device of the machine's, without a preloaded library, for several users",
        needs: packages::SYSTEM,
        product: true,
        company: Company::AsOne,
        waits: true,
        cases: system::cases,
    },
    Group {
        name: "applications",
        about: "UCX, MPI, libfabric, rsockets, storage over ferroce; named, it takes minutes",
        needs: packages::APPLICATIONS,
        product: true,
        company: Company::AtHome,
        waits: false,
        cases: applications::cases,
    },
    Group {
        name: "interop",
        about: "programs between ferroce and the kernel's soft-RoCE, in a guest; named, it takes minutes",
        needs: packages::INTEROP,
        product: true,
        company: Company::Apart,
        waits: false,
        cases: interop::cases,
    },
    Group {
        name: "kernels",
        about: "this suite's cases under older and newer kernels, in guests; named, it takes minutes",
        needs: packages::VERBS,
        product: true,
        company: Company::Apart,
        waits: false,
        cases: kernels::cases,
    },
    Group {
        name: "distributions",
        about: "other distributions' programs, in roots made for it; named, it takes minutes",
        needs: packages::ROOTS,
        product: true,
        company: Company::AtHome,
        waits: false,
        cases: distributions::cases,
    },
    Group {
        name: "packages",
        about: "packages installed, used and removed; named, of the portable build, in roots made for it, it takes minutes",
        needs: packages::PACKAGING,
        product: true,
        company: Company::AtHome,
        waits: false,
        cases: packaging::cases,
    },
    Group {
        name: "sanitized",
        about: "the C programs under AddressSanitizer and UndefinedBehaviorSanitizer; named, it takes minutes",
        needs: packages::VERBS,
        product: true,
        company: Company::Alone,
        waits: false,
        cases: sanitized::cases,
    },
    Group {
        name: "scale",
        about: "64 processes and 32,768 queue pairs at once; named, it takes minutes",
        needs: packages::VERBS,
        product: true,
        company: Company::Alone,
        waits: false,
        cases: scale::cases,
    },
    Group {
        name: "memcheck",
        about: "programs under Valgrind: no invalid access, no leak of ours; named, the long ones too",
        needs: packages::MEMCHECK,
        product: true,
        company: Company::ByPlace,
        waits: false,
        cases: memcheck::cases,
    },
];

/// Lists the chosen cases.
pub fn list(filters: &[String]) -> Result<()> {
    for case in choose(filters)?.iter().flat_map(|(_, cases)| cases) {
        println!("{}", case.name);
    }
    Ok(())
}

/// The names of all cases, those that run only where they are named too.
pub fn names() -> Vec<String> {
    let cases = GROUPS.iter().flat_map(|group| (group.cases)());
    cases.map(|case| case.name).collect()
}

/// The groups of `cargo xtask check`.
pub const CHECK: [&str; 2] = ["lint", "unit"];

/// The cases that the filters want, group by group.
pub(crate) fn choose(filters: &[String]) -> Result<Vec<(&'static Group, Vec<Case>)>> {
    for filter in filters {
        let group = filter.split('/').next().unwrap_or_default();
        if !GROUPS.iter().any(|known| known.name == group) {
            let names: Vec<_> = GROUPS
                .iter()
                .map(|known| format!("{} ({})", known.name, known.about))
                .collect();
            bail!("no group {group:?}; there are: {}", names.join(", "));
        }
    }

    let mut chosen: Vec<(&'static Group, Vec<Case>)> = Vec::new();
    let long = |group: &Group| filters.is_empty() && ONLY_NAMED.contains(&group.name);
    for group in GROUPS.iter().filter(|group| !long(group)) {
        let cases: Vec<Case> = (group.cases)()
            .into_iter()
            .filter(|case| wanted(filters, &case.name))
            .filter(|case| interop::belongs(filters, &case.name))
            .filter(|case| distributions::belongs(filters, &case.name))
            .filter(|case| packaging::belongs(filters, &case.name))
            .filter(|case| containers::belongs(filters, &case.name))
            .filter(|case| applications::belongs(filters, &case.name))
            .filter(|case| memcheck::belongs(filters, &case.name))
            .filter(|case| exs::mutants::belongs(filters, &case.name))
            .collect();
        if !cases.is_empty() {
            chosen.push((group, cases));
        }
    }

    Ok(chosen)
}

/// No filter takes everything; `group` takes the group, `group/part` the cases of the group whose
/// name has the part.
fn wanted(filters: &[String], name: &str) -> bool {
    let (group, rest) = name.split_once('/').unwrap_or((name, ""));
    filters.is_empty()
        || filters.iter().any(|filter| match filter.split_once('/') {
            None => filter == group,
            Some((wanted_group, part)) => wanted_group == group && rest.contains(part),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_name_groups_or_parts() {
        let wanted = |filters: &[&str], name| {
            wanted(
                &filters
                    .iter()
                    .map(|filter| (*filter).to_owned())
                    .collect::<Vec<_>>(),
                name,
            )
        };
        assert!(wanted(&[], "verbs/one-daemon/x"));
        assert!(wanted(&["verbs"], "verbs/one-daemon/x"));
        assert!(wanted(&["sim", "verbs/daemon/x"], "verbs/one-daemon/x"));
        assert!(!wanted(&["sim", "verbs/y"], "verbs/one-daemon/x"));
        assert!(!wanted(&["verb"], "verbs/one-daemon/x"));
    }

    #[test]
    fn every_case_has_a_name_of_its_own_in_its_group() {
        let mut names = std::collections::HashSet::new();
        for group in GROUPS {
            for case in (group.cases)() {
                assert_eq!(case.name.split('/').next(), Some(group.name));
                assert!(names.insert(case.name.clone()), "{} twice", case.name);
            }
        }
    }
}
