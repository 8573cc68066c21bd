//! A distribution's file system as an archive, made once by mmdebstrap and kept in the user's
//! cache.
//!
//! An archive rather than a directory: whoever may not become root can unpack it in a namespace,
//! and remove it like any file. It is made under a temporary name, so that one that is there is
//! whole.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Distribution, emulator};
use crate::build;
use crate::harness::case::Stop;
use crate::harness::process;

/// What a file system is made for, and of what packages.
pub(crate) struct Kit {
    /// What its archives' names begin with.
    prefix: &'static str,
    packages: &'static [&'static str],
}

/// What programs are tried, and what brings them.
pub(crate) const PROGRAMS: Kit = Kit {
    prefix: "",
    packages: &[
        "ibverbs-utils",
        "iproute2",
        "perftest",
        "python3",
        "python3-pyverbs",
        "rdmacm-utils",
    ],
};

/// What our packages are tried with: programs that run over ferroce, and those that read, complete,
/// compile and install.
pub(crate) const PACKAGING: Kit = Kit {
    prefix: "packages-",
    packages: &[
        "bash-completion",
        "gcc",
        "ibverbs-utils",
        "iproute2",
        "libc6-dev",
        "libibverbs-dev",
        "librdmacm-dev",
        "man-db",
        "perftest",
        "pkgconf",
        "python3-venv",
        "rdmacm-utils",
    ],
};

/// Debian's mirror network; `FERROCE_DEBIAN_MIRROR` names another.
const MIRROR: &str = "http://deb.debian.org/debian";
const MIRROR_VARIABLE: &str = "FERROCE_DEBIAN_MIRROR";

/// A mirror that stands still, or one of a day of the past, is as good for a test; what it signs is
/// checked all the same.
const ANY_AGE: &str = r#"--aptopt=Acquire::Check-Valid-Until "false""#;

/// Distributions that still change should be tried as they are now.
const FRESH: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// What a killed run has left behind is removed after a day.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);
const LIMIT: Duration = Duration::from_secs(900);
/// Packages of another architecture are set up by emulated programs.
const EMULATED_LIMIT: Duration = Duration::from_secs(3600);
const MIRROR_LIMIT: Duration = Duration::from_secs(20);

/// The archive of a file system.
pub(crate) struct Archive {
    path: PathBuf,
}

impl Archive {
    /// The archive of a distribution for one of Debian's architectures (`amd64`), made now if there
    /// is none that is fresh. Logs go to `logs`.
    ///
    /// # Errors
    ///
    /// Skips where there is none and the mirror cannot be reached or does not have the suite. Fails
    /// where mmdebstrap does.
    pub(crate) fn of(
        distribution: Distribution,
        architecture: &str,
        kit: &Kit,
        logs: &Path,
    ) -> Result<Archive, Stop> {
        let dir = build::cache()?.join("roots");
        fs::create_dir_all(&dir).with_context(|| format!("{}", dir.display()))?;
        remove_abandoned(&dir);
        let path = dir.join(file_name(distribution, architecture, kit));
        if age(&path).is_some_and(|age| age < FRESH) {
            return Ok(Archive { path });
        }

        match make(distribution, architecture, kit, &path, logs) {
            // An old one is better than none.
            Err(Stop::Skip(why)) if path.exists() => {
                println!("xtask: {} is not made anew: {why}", distribution.name);
            }
            made => made?,
        }

        Ok(Archive { path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn make(
    distribution: Distribution,
    architecture: &str,
    kit: &Kit,
    path: &Path,
    logs: &Path,
) -> Result<(), Stop> {
    let Distribution { name, suite } = distribution;
    let mirror = env::var(MIRROR_VARIABLE).unwrap_or_else(|_| MIRROR.to_owned());
    println!("xtask: making a root of {name} ({suite}, {architecture}) from {mirror}");
    let fresh = tempfile::Builder::new()
        .prefix(".making-")
        .suffix(".tar")
        .tempfile_in(path.parent().unwrap_or(Path::new(".")))
        .map_err(anyhow::Error::from)?;

    // In a namespace of mounts, so that one that is killed leaves none behind; without root it
    // makes its own.
    let emulated = architecture == emulator::ARCHITECTURE;
    let mut command = Command::new("mmdebstrap");
    if emulated {
        command = emulator::with_users()?;
        command.arg("mmdebstrap");
    } else if rustix::process::geteuid().is_root() {
        command = Command::new("unshare");
        command.args(["-m", "mmdebstrap"]);
    }

    let limit = if emulated { EMULATED_LIMIT } else { LIMIT };
    command
        .args(["--mode=auto", "--variant=apt", "--format=tar"])
        .arg(ANY_AGE)
        .arg(format!("--architectures={architecture}"))
        .arg(format!("--include={}", kit.packages.join(",")))
        .arg(suite)
        .arg(fresh.path())
        .arg(&mirror);

    let finished = process::run(command, logs, "mmdebstrap", limit)?;
    if !finished.success() {
        reachable(&mirror, suite)?;
        return Err(Stop::with(
            format!("no root of {name}: {}", finished.ending()),
            &[&finished],
        ));
    }

    // The temporary file itself is for its owner only; nothing in it is secret.
    fresh
        .persist(path)
        .with_context(|| format!("{}", path.display()))?;
    remove_others(path, &stem(distribution, architecture, kit));
    Ok(())
}

/// `bookworm-amd64-1234abcd.tar`: other packages are another root.
fn file_name(distribution: Distribution, architecture: &str, kit: &Kit) -> String {
    let mut hasher = DefaultHasher::new();
    kit.packages.hash(&mut hasher);
    let packages = hasher.finish() as u32;
    format!(
        "{}{packages:08x}.tar",
        stem(distribution, architecture, kit)
    )
}

fn stem(distribution: Distribution, architecture: &str, kit: &Kit) -> String {
    format!("{}{}-{architecture}-", kit.prefix, distribution.suite)
}

/// Those of other lists of packages.
fn remove_others(path: &Path, stem: &str) {
    for (name, other) in entries(path.parent().unwrap_or(Path::new("."))) {
        if name.starts_with(stem) && other != path {
            let _ = fs::remove_file(other);
        }
    }
}

fn remove_abandoned(dir: &Path) {
    for (name, path) in entries(dir) {
        if name.starts_with(".making-") && age(&path).is_some_and(|age| age > ABANDONED) {
            let _ = fs::remove_file(path);
        }
    }
}

fn entries(dir: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            )
        })
        .collect()
}

fn age(path: &Path) -> Option<Duration> {
    fs::metadata(path).ok()?.modified().ok()?.elapsed().ok()
}

/// Skips, with the reason, unless a mirror answers that it has a suite. Asked after a failure, to
/// tell whose it is.
fn reachable(mirror: &str, suite: &str) -> Result<(), Stop> {
    let path = format!("dists/{suite}/InRelease");
    match ask(mirror, &path) {
        Ok(status) if status.contains(" 200 ") => Ok(()),
        Ok(status) => Err(Stop::Skip(format!("{mirror}/{path}: {}", status.trim()))),
        Err(error) => Err(Stop::Skip(format!("{mirror} cannot be reached: {error:#}"))),
    }
}

/// The status line of an answer to a HEAD request. A mirror over TLS is only connected to.
fn ask(mirror: &str, path: &str) -> Result<String> {
    let (scheme, rest) = mirror
        .split_once("://")
        .context("not an address of a mirror")?;
    let (host, base) = rest.split_once('/').unwrap_or((rest, ""));
    let port = if scheme == "https" { 443 } else { 80 };
    let address = match host.rsplit_once(':') {
        Some((host, port)) => (host, port.parse()?),
        None => (host, port),
    };
    let address = address.to_socket_addrs()?.next().context("no address")?;
    let mut stream = TcpStream::connect_timeout(&address, MIRROR_LIMIT)?;
    if scheme == "https" {
        return Ok("HTTP/1.1 200 assumed".to_owned());
    }

    stream.set_read_timeout(Some(MIRROR_LIMIT))?;
    write!(
        stream,
        "HEAD /{base}/{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )?;

    let mut status = String::new();
    BufReader::new(stream).read_line(&mut status)?;
    Ok(status)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::distro::DEBIAN_13;

    /// A mirror that answers one request with this line.
    fn mirror(line: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            // All of it: whoever hangs up with something unread may take the answer back.
            let request = BufReader::new(&stream).lines().map_while(Result::ok);
            let request: Vec<_> = request.take_while(|line| !line.is_empty()).collect();
            assert_eq!(request[0], "HEAD /debian/dists/trixie/InRelease HTTP/1.1");
            (&stream).write_all(line.as_bytes()).unwrap();
        });
        format!("http://{address}/debian")
    }

    fn skipped(ending: Result<(), Stop>) -> bool {
        matches!(ending, Err(Stop::Skip(_)))
    }

    #[test]
    fn only_a_mirror_that_does_not_have_it_is_a_reason_to_skip() {
        let asked = |line| reachable(&mirror(line), DEBIAN_13.suite);
        assert!(asked("HTTP/1.1 200 OK\r\n\r\n").is_ok());
        assert!(skipped(asked("HTTP/1.1 404 Not Found\r\n\r\n")));
        let nobody = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        assert!(skipped(reachable(
            &format!("http://{nobody}/debian"),
            DEBIAN_13.suite
        )));
    }

    #[test]
    fn an_archive_of_other_packages_goes_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file_name(DEBIAN_13, "amd64", &PROGRAMS));
        let beside = [
            "trixie-amd64-0.tar",
            "trixie-arm64-0.tar",
            "sid-amd64-0.tar",
            "packages-trixie-amd64-0.tar",
        ]
        .map(|name| dir.path().join(name));
        for file in beside.iter().chain([&path]) {
            fs::write(file, "").unwrap();
        }
        remove_others(&path, &stem(DEBIAN_13, "amd64", &PROGRAMS));
        let left = beside.map(|file| file.exists());
        assert_eq!(left, [false, true, true, true]);
        assert!(path.exists());
    }
}
