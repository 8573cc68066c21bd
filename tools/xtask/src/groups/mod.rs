//! `cargo xtask test`: the groups of tests and how they are chosen, run and summed up.
//!
//! A new group is a module with a function that lists its cases, and a line in [`GROUPS`].

mod applications;
mod arm64;
pub(crate) mod cm;
mod cm_changes;
mod cm_more;
mod cm_sockets;
mod cm_wire;
mod commits;
mod declared;
mod distributions;
pub(crate) mod environment;
mod errors;
mod exs;
mod exs_framework;
mod exs_programs;
mod fabric;
mod fabric_cm;
mod fabric_large;
mod fabric_multicast;
mod fabric_ports;
mod fabric_programs;
mod fabric_robust;
mod ibta;
mod ibta_around;
mod interop;
mod links;
mod lint;
mod memcheck;
mod netlink;
mod pauses;
mod pyverbs;
mod robust;
mod services;
mod shard;
mod sim;
mod strangers;
mod surroundings;
mod targets;
mod traffic;
mod trust;
mod unit;
mod verbs;
mod watch;

pub use shard::Shard;

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::build;
use crate::case::{Case, Ending, Endings};
use crate::lab::Lab;
use crate::packages::{self, Need};
use crate::report::Report;

/// A group of cases.
struct Group {
    name: &'static str,
    about: &'static str,
    needs: &'static [Need],
    /// Whether it runs the built product.
    product: bool,
    cases: fn() -> Vec<Case>,
}

/// In the order in which they run: what says most in the least time comes first.
const GROUPS: &[Group] = &[
    Group {
        name: "lint",
        about: "rustfmt, clippy, rustdoc, the declared Rust version, fuzz targets, links, licences",
        needs: packages::HEADERS,
        product: false,
        cases: lint::cases,
    },
    Group {
        name: "unit",
        about: "cargo test of the workspace",
        needs: packages::HEADERS,
        product: false,
        cases: unit::cases,
    },
    Group {
        name: "sim",
        about: "the transport over a simulated bad network, many seeds",
        needs: &[],
        product: false,
        cases: sim::cases,
    },
    Group {
        name: "verbs",
        about: "stock programs and C programs over stock libibverbs",
        needs: packages::VERBS,
        product: true,
        cases: verbs::cases,
    },
    Group {
        name: "pyverbs",
        about: "rdma-core's own test suite",
        needs: packages::PYVERBS,
        product: true,
        cases: pyverbs::cases,
    },
    Group {
        name: "cm",
        about: "the stock programs of librdmacm",
        needs: packages::CM,
        product: true,
        cases: cm::cases,
    },
    Group {
        name: "netlink",
        about: "what rdma of iproute2 shows",
        needs: packages::NETLINK,
        product: true,
        cases: netlink::cases,
    },
    Group {
        name: "fabric",
        about: "OpenSM and infiniband-diags over InfiniBand ports and switches",
        needs: packages::FABRIC,
        product: true,
        cases: fabric::cases,
    },
    Group {
        name: "exs",
        about: "conformance of the Extended Sockets library",
        needs: packages::EXS,
        product: true,
        cases: exs::cases,
    },
    Group {
        name: "ibta",
        about: "the InfiniBand conformance suite: simulated, with its mutants, and on ferroce's own devices",
        needs: packages::VERBS,
        product: true,
        cases: ibta::cases,
    },
    Group {
        name: "errors",
        about: "every error status, bad input",
        needs: packages::VERBS,
        product: true,
        cases: errors::cases,
    },
    Group {
        name: "robust",
        about: "killed processes, hostile datagrams, unusual environments",
        needs: packages::VERBS,
        product: true,
        cases: robust::cases,
    },
    Group {
        name: "applications",
        about: "UCX, MPI, libfabric, rsockets, storage over ferroce; named, it takes minutes",
        needs: packages::APPLICATIONS,
        product: true,
        cases: applications::cases,
    },
    Group {
        name: "interop",
        about: "programs between ferroce and the kernel's soft-RoCE, in a guest; named, it takes minutes",
        needs: packages::INTEROP,
        product: true,
        cases: interop::cases,
    },
    Group {
        name: "distributions",
        about: "other distributions' programs, in roots made for it; named, it takes minutes",
        needs: packages::ROOTS,
        product: true,
        cases: distributions::cases,
    },
    Group {
        name: "memcheck",
        about: "programs under Valgrind: no invalid access, no leak of ours",
        needs: packages::MEMCHECK,
        product: true,
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

/// The groups of `cargo xtask check`.
pub const CHECK: [&str; 2] = ["lint", "unit"];

/// Runs the chosen cases, or a shard of them, as many times as told; true if none failed in any round.
pub fn run(
    filters: &[String],
    rounds: u32,
    shard: Option<Shard>,
    junit: Option<&Path>,
) -> Result<bool> {
    let chosen = choose(filters)?;
    let mut needs: Vec<Need> = Vec::new();
    chosen
        .iter()
        .for_each(|(group, _)| needs.extend(group.needs));
    packages::ensure(&needs)?;
    let programs = if chosen.iter().any(|(group, _)| group.product) {
        build::product()?
    } else {
        build::release_dir()?
    };

    let started = Instant::now();
    let mut lab = Lab::new(programs, build::scratch("logs")?);
    let mut report = Report::default();
    for round in 1..=rounds {
        if rounds > 1 {
            report.round(round, rounds);
        }
        let cases = choose(filters)?.into_iter().flat_map(|(_, cases)| cases);
        let ours = |index: &usize| shard.is_none_or(|shard| shard.has(*index));
        for (_, case) in cases.enumerate().filter(|(index, _)| ours(index)) {
            run_case(case, &mut lab, &mut report);
        }
        // Each round starts from nothing, as a run does.
        lab.vacate();
    }
    println!("\n{:.0} s", started.elapsed().as_secs_f64());
    if let Some(file) = junit {
        report.write_junit(file)?;
    }
    Ok(report.conclude())
}

fn run_case(case: Case, lab: &mut Lab, report: &mut Report) {
    let name = case.name.clone();
    let from = Instant::now();
    match case.run(lab) {
        Endings::One(ending) => report.record(&name, ending, from.elapsed()),
        Endings::Many(endings) => {
            let each = from.elapsed() / endings.len().max(1) as u32;
            for (part, ending) in endings {
                report.record(&format!("{name}/{part}"), ending, each);
            }
        }
    }
}

/// The cases that the filters want, group by group.
fn choose(filters: &[String]) -> Result<Vec<(&'static Group, Vec<Case>)>> {
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
    for group in GROUPS {
        let cases: Vec<Case> = (group.cases)()
            .into_iter()
            .filter(|case| wanted(filters, &case.name))
            .filter(|case| interop::belongs(filters, &case.name))
            .filter(|case| distributions::belongs(filters, &case.name))
            .filter(|case| applications::belongs(filters, &case.name))
            .collect();
        if !cases.is_empty() {
            chosen.push((group, cases));
        }
    }
    Ok(chosen)
}

/// No filter takes everything; `group` takes the group, `group/part` the cases of the group whose name has the part.
fn wanted(filters: &[String], name: &str) -> bool {
    let (group, rest) = name.split_once('/').unwrap_or((name, ""));
    filters.is_empty()
        || filters.iter().any(|filter| match filter.split_once('/') {
            None => filter == group,
            Some((wanted_group, part)) => wanted_group == group && rest.contains(part),
        })
}

/// Turns a condition into an ending.
fn expect(holds: bool, what: impl FnOnce() -> String) -> Ending {
    if holds {
        Ok(())
    } else {
        Err(crate::case::Stop::fail(what()))
    }
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

    /// `robust/…/x` in a page means every case whose name has the parts in this order.
    fn names(pattern: &str, name: &str) -> bool {
        let mut rest = name;
        pattern.split('…').enumerate().all(|(n, part)| {
            let found = rest.find(part);
            let found = found.filter(|at| n > 0 || *at == 0);
            rest = found.map_or("", |at| &rest[at + part.len()..]);
            found.is_some()
        })
    }

    #[test]
    fn the_tests_that_the_threat_model_names_exist() {
        let page = crate::build::workspace().join("docs/threat-model.md");
        let text = std::fs::read_to_string(&page).unwrap();
        let cases: Vec<String> = GROUPS
            .iter()
            .flat_map(|group| (group.cases)())
            .map(|case| case.name)
            .collect();
        let is_case = |word: &&str| {
            let group = word.split_once('/').map(|(group, _)| group);
            GROUPS.iter().any(|known| Some(known.name) == group)
        };
        let quoted = text.split('`').skip(1).step_by(2);
        let cited: Vec<&str> = quoted.filter(is_case).collect();
        assert!(cited.len() > 10, "{cited:?}");
        for pattern in cited {
            let known = cases.iter().any(|name| names(pattern, name));
            assert!(known, "no case {pattern}");
        }
    }
}
