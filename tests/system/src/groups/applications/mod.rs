//! Group `applications`: what people run over RDMA, from the distribution and unmodified: UCX, MPI,
//! libfabric, programs over rsockets, storage, programs in other languages, debuggers.
//!
//! Each is judged by its result, and where it could take another way (TCP, shared memory) by the
//! device's counters as well. Where nothing is named, one case of each family is run, but none in
//! other languages, which take building; named, all of them. What does not work, and whose cause
//! that is, is in `docs/applications.md`.

mod ceph;
mod dapl;
mod iser;
mod languages;
mod libfabric;
mod libraries;
mod management;
mod migration;
mod mpi;
mod openib;
mod rsockets;
mod running;
mod storage;
mod tools;
mod ucx;
mod wheels;

use crate::harness::case::Case;
use crate::lab::Place;

/// Through memory, over sockets, between two hosts; both IP versions.
const PLACES: [Place; 5] = [
    Place::OneDaemon,
    Place::Sockets,
    Place::Veth(1500),
    Place::Ipv6,
    Place::VethIpv6(1500),
];

/// What is run of the group when no group is named.
const SHORT: &[&str] = &[
    "applications/one-daemon/ucx_info",
    "applications/one-daemon/ucx_perftest over rc_v, 65536 bytes",
    "applications/one-daemon/fi_pingpong -p verbs -e msg",
    "applications/one-daemon/curl over rsockets",
    "applications/one-daemon/fio, verb=write",
    "applications/one-daemon/tgt and libiscsi over iSER",
    "applications/one-daemon/QEMU migrates over rdma:",
    "applications/one-daemon/librpma",
    "applications/one-daemon/gdb",
    "applications/veth-1500/Open MPI, UCX, 2 ranks",
    "applications/veth-1500/MPICH, 2 ranks",
    "applications/veth-1500/fi_pingpong -p verbs;ofi_rxm -e rdm",
    "applications/fabric/Open MPI, btl openib, 4 ranks",
];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in PLACES {
        cases.extend(ucx::cases(place));
        cases.extend(libfabric::cases(place));
        cases.extend(mpi::cases(place));
        cases.extend(rsockets::cases(place));
        cases.extend(storage::cases(place));
        cases.extend(iser::cases(place));
        cases.extend(migration::cases(place));
        cases.extend(languages::cases(place));
        cases.extend(libraries::cases(place));
        cases.extend(dapl::cases(place));
        cases.extend(ceph::cases(place));
        cases.extend(wheels::cases(place));
    }

    cases.extend(openib::cases());
    cases.extend(dapl::fabric_cases());
    cases.extend(management::cases());
    cases.extend(tools::cases());
    cases
}

/// Whether a case is run: where no group is named, the few of [`SHORT`].
pub(crate) fn belongs(filters: &[String], name: &str) -> bool {
    let ours = name.starts_with("applications/");
    !ours || !filters.is_empty() || SHORT.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_part_is_a_part_of_the_whole() {
        let names: Vec<_> = cases().into_iter().map(|case| case.name).collect();
        for short in SHORT {
            assert!(names.iter().any(|name| name == short), "{short}");
        }
    }
}
