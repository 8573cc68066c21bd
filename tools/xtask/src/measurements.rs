//! `cargo xtask bench`: which measurement is wanted.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use ferroce_system::bench;

#[derive(Args)]
pub(crate) struct Scope {
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE", conflicts_with_all = BY_THEMSELVES)]
    json: Option<PathBuf>,
    /// Fewer and shorter repetitions
    #[arg(long)]
    quick: bool,
    /// Against the kernel's rdma_rxe instead, both in an emulated guest
    #[arg(long, conflicts_with_all = NOT_IN_A_GUEST)]
    rxe: bool,
    /// Instead, how much longer perftest takes beside six programs that never sleep
    #[arg(long, group = INSTEAD)]
    loaded: bool,
    /// With --loaded: this program only, such as ib_write_lat
    #[arg(long, value_name = "PROGRAM", requires = "loaded")]
    only: Option<String>,
    /// With --loaded: so many programs that never sleep
    #[arg(long, value_name = "COUNT", requires = "loaded", default_value_t = bench::STRANGERS)]
    strangers: usize,
    /// With --loaded: on one device only, with as many iterations as perftest takes by itself
    #[arg(long, requires = "loaded")]
    own_iterations: bool,
    /// Instead, what the engine by itself takes for a packet, between two devices of one program
    #[arg(long, group = INSTEAD)]
    engine: bool,
    /// Instead, what it takes to hand messages to the kernel, one by one, several at once and by
    /// io_uring
    #[arg(long, group = INSTEAD)]
    sends: bool,
    /// Instead, what it takes a polling thread to get datagrams from the kernel, by calls and by
    /// io_uring
    #[arg(long, group = INSTEAD)]
    receives: bool,
    /// Instead, over a path with delays and losses, against TCP; with --rxe against the kernel's
    /// rdma_rxe, too, in an emulated guest
    #[arg(long, group = INSTEAD)]
    delays: bool,
    /// Instead, where the time of a transfer goes, by perf's samples of both ends: of this program
    /// with its options, such as "ib_send_bw -s 4096", or of those that aims are about
    #[arg(long, value_name = "LINE", group = INSTEAD, num_args = 0..=1)]
    profile: Option<Option<String>>,
    /// Instead, draw bandwidth and latency over size, queue pairs and loss, into this directory;
    /// with --rxe beside the kernel's rdma_rxe, in an emulated guest
    #[arg(long, value_name = "DIR", group = INSTEAD)]
    html: Option<PathBuf>,
}

/// Those that have nothing to do with rdma_rxe.
const NOT_IN_A_GUEST: [&str; 5] = ["loaded", "engine", "sends", "receives", "profile"];
/// Those that write no figures of their own accord to a file.
const BY_THEMSELVES: [&str; 6] = ["loaded", "engine", "sends", "receives", "profile", "html"];
/// What there is one of in a run.
const INSTEAD: &str = "instead";

/// Measures; answers whether what has an aim, and ends badly without, has met it.
pub(crate) fn run(scope: &Scope) -> Result<bool> {
    let (json, quick) = (scope.json.as_deref(), scope.quick);

    if scope.loaded {
        return bench::beside_others(&bench::Loaded {
            quick,
            only: scope.only.as_deref(),
            strangers: scope.strangers,
            own_iterations: scope.own_iterations,
        });
    }

    match scope {
        Scope { engine: true, .. } => bench::engine_alone(quick),
        Scope { sends: true, .. } => bench::ways_to_send(quick),
        Scope { receives: true, .. } => bench::ways_to_receive(quick),
        Scope {
            profile: Some(line),
            ..
        } => bench::profile(line.as_deref(), quick),
        Scope {
            html: Some(dir),
            rxe: true,
            ..
        } => bench::curves_beside_rxe(dir, quick),
        Scope {
            html: Some(dir), ..
        } => bench::curves(dir, quick),
        Scope { delays: true, .. } => bench::delays(json, quick, scope.rxe),
        Scope { rxe: true, .. } => bench::against_rxe(json, quick),
        _ => bench::run(json, quick),
    }
    .map(|()| true)
}
