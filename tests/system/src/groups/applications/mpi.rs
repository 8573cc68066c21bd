//! MPI: Open MPI over UCX and over libfabric, MPICH over UCX, and what is written in MPI: a C
//! program that compares all that it exchanges, mpi4py, NetPIPE, the HPC Challenge.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::running::{LIMIT, Meter, command, expect_success, name, settings_and_options};
use crate::build;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished, quoted};
use crate::lab::netns;
use crate::lab::{Lab, Place, Site};

/// What the C program says of each kind of exchange.
const KINDS: [&str; 3] = ["messages", "collectives", "one-sided"];

/// What NetPIPE says of each size.
const PASSED: &str = "Integrity check passed";

/// An MPI and the way that its messages take.
#[derive(Clone, Copy)]
struct Mpi {
    name: &'static str,
    /// The ending of its programs' names.
    flavour: &'static str,
    /// Of `mpirun`, or of the environment where it has a `=`.
    options: &'static str,
}

/// No shared memory and no TCP: what arrives has gone through the device.
const OPEN_MPI: Mpi = Mpi {
    name: "Open MPI, UCX",
    flavour: "openmpi",
    options: "--mca pml ucx --mca osc ucx UCX_TLS=rc_v,self UCX_NET_DEVICES=ferroce0:1",
};
const MPICH: Mpi = Mpi {
    name: "MPICH",
    flavour: "mpich",
    options: "UCX_TLS=rc_v,self UCX_NET_DEVICES=ferroce0:1",
};
const IMPLEMENTATIONS: &[Mpi] = &[
    OPEN_MPI,
    Mpi {
        name: "Open MPI, UCX over UD",
        options: "--mca pml ucx --mca osc ucx UCX_TLS=ud_v,self UCX_NET_DEVICES=ferroce0:1",
        ..OPEN_MPI
    },
    // The one-sided operations that it takes by itself go through its own shared memory, where it
    // crashes over any provider.
    Mpi {
        name: "Open MPI, libfabric",
        options: "--mca pml cm --mca mtl ofi --mca osc pt2pt --mca mtl_ofi_provider_include verbs;ofi_rxm",
        ..OPEN_MPI
    },
    MPICH,
];

pub(crate) fn cases(place: Place) -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in IMPLEMENTATIONS {
        for ranks in [2, 4] {
            let what = format!("{}, {ranks} ranks", mpi.name);
            cases.push(Case::new(name(place, &what), move |lab| {
                exchange(lab, place, *mpi, ranks)
            }));
        }
    }

    cases.push(Case::new(name(place, "mpi4py"), move |lab| {
        python(lab, place)
    }));
    for (program, mpi) in [("NPopenmpi", OPEN_MPI), ("NPmpich2", MPICH)] {
        let what = format!("NetPIPE over {}", mpi.name);
        cases.push(Case::new(name(place, &what), move |lab| {
            netpipe(lab, place, mpi, program)
        }));
    }

    if matches!(place, Place::OneDaemon | Place::Veth(_)) {
        cases.push(Case::new(name(place, "HPC Challenge"), move |lab| {
            hpcc(lab, place)
        }));
    }

    cases
}

/// The C program of `tests/applications`.
fn exchange(lab: &mut Lab, place: Place, mpi: Mpi, ranks: u32) -> Ending {
    let program = compile(mpi.flavour)?;
    let dir = lab.case_dir()?;
    let site = lab.site(place)?;
    let meter = Meter::start(site)?;
    let ran = launch(site, mpi, ranks, &[&program.display().to_string()], &dir)?;
    expect_success(&[&ran])?;
    meter.expect(messages(&ran)?, &[&ran])
}

/// The bytes of the messages, of ranks that have said a word of each kind of exchange.
pub(crate) fn messages(ran: &Finished) -> Result<u64, Stop> {
    let mut bytes = 0;
    for kind in KINDS {
        let said = ran.out.lines().find_map(|line| moved(line, kind));
        let Some(moved) = said else {
            return Err(Stop::with(format!("no word of {kind}"), &[ran]));
        };
        // In the others a rank may be a peer of its own.
        bytes += if kind == "messages" { moved } else { 0 };
    }
    Ok(bytes)
}

/// The bytes of a line `ok KIND, N bytes`.
fn moved(line: &str, kind: &str) -> Option<u64> {
    let rest = line.strip_prefix("ok ")?.strip_prefix(kind)?;
    rest.strip_prefix(", ")?
        .strip_suffix(" bytes")?
        .parse()
        .ok()
}

pub(crate) fn sources() -> PathBuf {
    build::workspace().join("tests/applications")
}

pub(crate) fn compile(flavour: &str) -> Result<PathBuf, Stop> {
    let program = build::scratch("applications")?.join(format!("mpi_exchange.{flavour}"));
    let mut compiler = Command::new(format!("mpicc.{flavour}"));
    compiler
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(sources().join("mpi_exchange.c"));
    let output = compiler.output().map_err(anyhow::Error::from)?;
    if !output.status.success() {
        return Err(Stop::fail(String::from_utf8_lossy(&output.stderr)));
    }
    Ok(program)
}

/// Starts ranks, half of them on each host.
fn launch(
    site: &Site,
    mpi: Mpi,
    ranks: u32,
    program: &[&str],
    dir: &Path,
) -> Result<Finished, Stop> {
    let open_mpi = mpi.flavour == "openmpi";
    let launcher = if open_mpi {
        "mpirun.openmpi"
    } else {
        "mpiexec.hydra"
    };

    let mut words: Vec<String> = vec!["-np".into(), ranks.to_string()];
    if site.other().is_some() {
        let agent = agent(site, dir)?;
        let [there, here] = netns::ADDRESSES;
        let each = ranks / 2;
        let more = match open_mpi {
            true => format!("--host {here}:{each},{there}:{each} --mca plm_rsh_agent {agent}"),
            false => {
                format!("-hosts {here},{there} -ppn {each} -launcher rsh -launcher-exec {agent}")
            }
        };
        words.extend(more.split(' ').map(str::to_owned));
    } else if open_mpi {
        words.push("--oversubscribe".into());
    }

    let (settings, options) = settings_and_options(mpi.options);
    words.extend(options.into_iter().map(str::to_owned));
    let variables: Vec<_> = settings.iter().map(|(name, _)| *name).collect();

    match open_mpi {
        true => words.extend(
            variables
                .iter()
                .flat_map(|name| ["-x".to_owned(), (*name).to_owned()]),
        ),
        // Otherwise Hydra takes all of it along, with what `ferroce run` has set for this host.
        false => words.extend(["-genvlist".to_owned(), variables.join(",")]),
    }

    words.extend(program.iter().map(|word| (*word).to_owned()));

    let mut command = command(site.client(), launcher, &words);
    command.envs(settings);
    allow_root(&mut command);
    Ok(process::run(command, dir, "ranks", LIMIT)?)
}

/// Open MPI would refuse root, who runs the tests in containers.
pub(super) fn allow_root(command: &mut Command) {
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
    command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
}

/// What launchers call in place of ssh: with the host's address and a command for its shell.
fn agent(site: &Site, dir: &Path) -> Result<String, Stop> {
    let [there, _] = netns::ADDRESSES;
    let prefix: Vec<_> = site.server().prefix();
    let prefix: Vec<_> = prefix
        .iter()
        .map(|word| quoted(&word.to_string_lossy()))
        .collect();

    let script = format!(
        "#!/bin/sh\n\
         # {there} is the other host; any other address is this one.\n\
         host=$1; shift\n\
         [ \"$host\" = {there} ] || exec sh -c \"$*\"\n\
         unset FERROCE_RUNTIME_DIR RDMAV_DRIVERS IBV_DRIVERS LD_PRELOAD\n\
         exec {} sh -c \"$*\"\n",
        prefix.join(" ")
    );

    let path = dir.join("agent");
    fs::write(&path, script).map_err(anyhow::Error::from)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(anyhow::Error::from)?;
    Ok(path.display().to_string())
}

/// Objects and buffers through mpi4py, by four ranks.
fn python(lab: &mut Lab, place: Place) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(place)?;
    let meter = Meter::start(site)?;
    let script = sources().join("mpi4py_exchange.py").display().to_string();
    // The system's, which has the package.
    let ran = launch(site, OPEN_MPI, 4, &["/usr/bin/python3", &script], &dir)?;
    expect_success(&[&ran])?;
    if !ran.out.contains("ok 4 ranks") {
        return Err(Stop::with("no word of success", &[&ran]));
    }
    meter.expect(1 << 20, &[&ran])
}

/// NetPIPE with comparison of what arrives (`-i`), up to 64 KiB: it says so of each size.
fn netpipe(lab: &mut Lab, place: Place, mpi: Mpi, program: &str) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(place)?;
    let meter = Meter::start(site)?;
    let out = dir.join("np.out").display().to_string();
    let words = [program, "-i", "-u", "65536", "-o", &out];
    let ran = launch(site, mpi, 2, &words, &dir)?;
    expect_success(&[&ran])?;
    let sizes = ran.out.matches(" times -->").count() + ran.err.matches(" times -->").count();
    let passed = ran.out.matches(PASSED).count() + ran.err.matches(PASSED).count();
    if passed < 20 || passed != sizes {
        let what = format!("{passed} of {sizes} sizes passed");
        return Err(Stop::with(what, &[&ran]));
    }
    meter.expect(1 << 20, &[&ran])
}

/// The HPC Challenge: Linpack with its residuals, transpositions, FFT, random access and streams,
/// each of which checks its result.
fn hpcc(lab: &mut Lab, place: Place) -> Ending {
    const INPUT: &str = "/usr/share/doc/hpcc/examples/_hpccinf.txt";

    let dir = lab.case_dir()?;
    let site = lab.site(place)?;
    let input = fs::read_to_string(INPUT).map_err(anyhow::Error::from)?;
    fs::write(dir.join("hpccinf.txt"), input.replace("1000 ", "200 "))
        .map_err(anyhow::Error::from)?;
    let meter = Meter::start(site)?;
    let at = dir.display().to_string();
    let ran = launch(site, OPEN_MPI, 4, &["-wdir", &at, "hpcc"], &dir)?;
    expect_success(&[&ran])?;
    let report = fs::read_to_string(dir.join("hpccoutf.txt")).unwrap_or_default();
    for line in [
        "0 tests completed and failed residual checks",
        "MPIRandomAccess_Errors=0",
        "Solution Validates",
        "Success=1",
    ] {
        if !report.contains(line) || report.contains("FAILED") {
            return Err(Stop::with(format!("not {line:?}:\n{report}"), &[&ran]));
        }
    }

    meter.expect(64 << 20, &[&ran])
}
