//! Group `robust`, continued: whose directory it is. What is somebody's is neither used nor
//! changed, what another user can change is not trusted, and in a runtime directory ferroce removes
//! what it made and nothing else.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::groups::robust::trust::{NOBODY, SOON, only_root, refused, well};
use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process;
use crate::lab::Lab;
use crate::lab::host::Host;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "robust/somebody's directory is left alone",
            somebodys_directory,
        ),
        Case::new(
            "robust/somebody's files beside the device's are left alone",
            files_beside_ours,
        ),
        Case::new("robust/root and a user's directory", users_directory),
    ]
}

/// A directory with a project's files, and one that anybody writes to, are neither used nor
/// changed.
fn somebodys_directory(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let host = Host::new(lab.programs(), "127.0.0.1", None)?;
    let project = host.runtime_dir();
    fs::set_permissions(project, Permissions::from_mode(0o755)).map_err(anyhow::Error::from)?;
    for name in ["lib", "sys", "dev"] {
        fs::create_dir(project.join(name)).map_err(anyhow::Error::from)?;
        fs::write(project.join(name).join("work"), "mine").map_err(anyhow::Error::from)?;
    }

    let mut command = host.run("true");
    let used = process::run(command, &dir, "run", SOON)?;
    refused(&used, &["not empty", "--runtime-dir"])?;
    command = host.ferroce();
    command.arg("down");
    refused(&process::run(command, &dir, "down", SOON)?, &[])?;
    for name in ["lib", "sys", "dev"] {
        let text = fs::read_to_string(project.join(name).join("work"));
        expect(text.is_ok_and(|text| text == "mine"), || {
            format!("{name} is not what it was")
        })?;
    }

    let mode =
        |path: &Path| fs::metadata(path).map_or(0, |meta| meta.permissions().mode() & 0o7777);
    expect(mode(project) == 0o755, || {
        format!("its mode is {:o} now", mode(project))
    })?;

    let anybodys = tempfile::tempdir().map_err(anyhow::Error::from)?;
    fs::set_permissions(anybodys.path(), Permissions::from_mode(0o1777))
        .map_err(anyhow::Error::from)?;

    for place in [anybodys.path(), Path::new("/")] {
        let mut command = host.plain(host.programs().join("ferroce"));
        command.arg("--runtime-dir").arg(place);
        command.args(["up", "--addr", "127.0.0.1"]);
        refused(
            &process::run(command, &dir, "up", SOON)?,
            &["runtime directory"],
        )?;
    }

    expect(mode(anybodys.path()) == 0o1777, || {
        format!("its mode is {:o} now", mode(anybodys.path()))
    })
}

/// Where somebody puts files into a runtime directory that is in use, and a link that could be
/// taken for one of ours.
const MINE: [&str; 8] = [
    "mine",
    "sys/mine",
    "sys/class/infiniband/mine",
    "sys/devices/virtual/ferroce/ferroce0/infiniband/ferroce0/ports/1/counters/mine",
    "dev/mine",
    "dev/infiniband/mine",
    "lib/mine",
    "lib/more/mine",
];
const LINKED: &str = "lib/libferroce-mine.so";

/// What somebody has put beside the device's files stays: with the daemon in office, when it
/// leaves, and when another one clears up after one that died. Of ours nothing stays.
fn files_beside_ours(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    let place = host.runtime_dir().to_path_buf();
    let shown = |host: &Host| {
        well(&process::run(
            host.run("ibv_devinfo"),
            &dir,
            "devinfo",
            SOON,
        )?)
    };

    for dies in [false, true] {
        host.up()?;
        shown(&host)?;
        for name in MINE {
            let path = place.join(name);
            let above = path.parent().unwrap_or(&place);
            fs::create_dir_all(above).map_err(anyhow::Error::from)?;
            fs::write(&path, name).map_err(anyhow::Error::from)?;
        }

        symlink("mine", place.join(LINKED)).map_err(anyhow::Error::from)?;
        if dies {
            host.kill_daemon()?;
            host.up()?;
            all_mine(&place)?;
            shown(&host)?;
        }

        host.down()?;
        all_mine(&place)?;
        let ours: Vec<_> = files(&place)?
            .into_iter()
            .filter(|path| !path.ends_with("mine") && !path.ends_with(LINKED))
            .filter(|path| !path.ends_with(".ferroce-runtime"))
            .collect();
        expect(ours.is_empty(), || format!("{ours:?} are left behind"))?;
        for name in ["lib", "sys", "dev"] {
            fs::remove_dir_all(place.join(name)).map_err(anyhow::Error::from)?;
        }
        fs::remove_file(place.join("mine")).map_err(anyhow::Error::from)?;
    }

    host.up()?;
    shown(&host)?;
    host.down()?;
    let left = files(&place)?;
    expect(left.is_empty(), || format!("{left:?} are left behind"))
}

fn all_mine(place: &Path) -> Ending {
    for name in MINE {
        let text = fs::read_to_string(place.join(name));
        expect(text.is_ok_and(|text| text == name), || {
            format!("{name} is not what it was")
        })?;
    }
    let link = fs::read_link(place.join(LINKED));
    expect(link.is_ok_and(|to| to == Path::new("mine")), || {
        format!("{LINKED} is not what it was")
    })
}

/// All that is below a directory, directories too unless they lead to something.
fn files(directory: &Path) -> Result<Vec<PathBuf>, Stop> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(anyhow::Error::from)? {
        let path = entry.map_err(anyhow::Error::from)?.path();
        let inside = match path.is_dir() && !path.is_symlink() {
            true => files(&path)?,
            false => Vec::new(),
        };
        match inside.is_empty() {
            true => found.push(path),
            false => found.extend(inside),
        }
    }
    Ok(found)
}

/// A library that says so when it is loaded.
const TRAP: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    __attribute__((constructor)) static void sprung(void)\n\
    { FILE *f = fopen(getenv(\"TRAP\"), \"w\"); if (f) fclose(f); }\n";

/// What root's `ferroce run` has opened in a runtime directory, at one time or another.
fn opened_there() -> Vec<String> {
    let drivers = ferroce_cabi::pabi::numbers()
        .map(|number| ferroce_cabi::pabi::driver_file("libferroce", number));
    let others = [
        "libferroce-shim.so",
        "libferroce_shim.so",
        "libferroce_provider.so",
    ];
    drivers.chain(others.map(str::to_owned)).collect()
}

/// A user's runtime directory, named or inherited, with libraries that the user has planted: root
/// loads none of them.
fn users_directory(lab: &mut Lab) -> Ending {
    only_root()?;
    lab.vacate();
    let dir = lab.case_dir()?;
    let host = Host::new(lab.programs(), "127.0.0.1", None)?;
    let theirs = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let (inner, sprung) = (theirs.path().join("ferroce"), dir.join("sprung"));
    let lib = inner.join("lib");
    fs::create_dir_all(&lib).map_err(anyhow::Error::from)?;
    fs::write(inner.join(".ferroce-runtime"), "made by ferroce\n").map_err(anyhow::Error::from)?;
    let source = theirs.path().join("trap.c");
    fs::write(&source, TRAP).map_err(anyhow::Error::from)?;
    let trap = theirs.path().join("trap.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).args([&trap, &source]);
    well(&process::run(cc, &dir, "cc", SOON)?)?;
    for name in opened_there() {
        fs::copy(&trap, lib.join(name)).map_err(anyhow::Error::from)?;
    }
    for path in files(theirs.path())?.iter().chain([&lib, &inner]) {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).map_err(anyhow::Error::from)?;
    }
    std::os::unix::fs::chown(theirs.path(), Some(NOBODY), None).map_err(anyhow::Error::from)?;

    // It does work where it is loaded.
    let mut command = Command::new("true");
    command
        .env("TRAP", &sprung)
        .env("LD_PRELOAD", lib.join("libferroce-shim.so"));
    well(&process::run(command, &dir, "trap", SOON)?)?;
    expect(sprung.exists(), || "the trap does not work".to_owned())?;
    fs::remove_file(&sprung).map_err(anyhow::Error::from)?;

    // Named, it is refused, and so it is if the directory itself is root's: its owner could put
    // another in its place.
    let user = format!("belongs to user {NOBODY}");
    for owner in [NOBODY, 0] {
        std::os::unix::fs::chown(&inner, Some(owner), None).map_err(anyhow::Error::from)?;
        let mut command = host.plain(host.programs().join("ferroce"));
        command
            .env("FERROCE_RUNTIME_DIR", &inner)
            .env("TRAP", &sprung);
        command.args(["run", "--", "true"]);
        refused(&process::run(command, &dir, "named", SOON)?, &[&user])?;
    }

    let ending = inherited(&host, theirs.path(), &sprung, &dir);
    expect(!sprung.exists(), || {
        "root has loaded a user's library".to_owned()
    })?;
    ending
}

/// Runs programs with the runtime directory's parent inherited. The device is then where root's is
/// without a word, `/run/ferroce`: in a mount namespace, for this machine may have one there.
fn inherited(host: &Host, theirs: &Path, sprung: &Path, dir: &Path) -> Ending {
    const SCRIPT: &str = "mount -t tmpfs none /run || exit 77\n\
        \"$0\" run -- true && \"$0\" run -- ibv_devinfo; code=$?\n\
        ls -d /run/ferroce; \"$0\" down; exit $code";

    let configured = dir.join("config/ferroce");
    fs::create_dir_all(&configured).map_err(anyhow::Error::from)?;
    fs::write(configured.join("ferroce.toml"), "addr = [\"127.0.0.1\"]\n")
        .map_err(anyhow::Error::from)?;

    for owner in [NOBODY, 0] {
        std::os::unix::fs::chown(theirs.join("ferroce"), Some(owner), None)
            .map_err(anyhow::Error::from)?;
        let mut command = host.plain("unshare");
        command.args(["-m", "sh", "-c", SCRIPT]);
        command.arg(host.programs().join("ferroce"));
        command.env("XDG_RUNTIME_DIR", theirs).env("TRAP", sprung);
        command.env("XDG_CONFIG_HOME", dir.join("config"));
        let ran = process::run(command, dir, "inherited", SOON)?;
        if matches!(ran.code(), Some(77)) || ran.err.contains("unshare failed") {
            return Err(Stop::Skip(
                "mount namespaces are not allowed here".to_owned(),
            ));
        }

        well(&ran)?;
        if !ran.out.contains("PORT_ACTIVE") || !ran.out.contains("/run/ferroce") {
            return Err(Stop::with("the device is not where root's is", &[&ran]));
        }
    }

    Ok(())
}
