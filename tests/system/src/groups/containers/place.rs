//! Where containers run: one device, a distribution's file system as their image, and two network
//! namespaces that reach each other. All of it goes with the process that holds it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;

use crate::build;
use crate::distro::{Archive, DEBIAN_13, PROGRAMS};
use crate::harness::case::Stop;
use crate::harness::process;
use crate::install;
use crate::lab::Lab;
use crate::lab::holder::{Holder, INSIDE};
use crate::lab::host::Host;
use crate::lab::netns::{ADDRESSES, Namespace, Pair};
use crate::programs::perftest::Runs;

use super::LIMIT;

/// Sets the image up. `/etc` and the control groups are as podman wants them, for this namespace of
/// mounts alone. Arguments: the directory to put it at, the archive, the directory of the
/// specification.
const SET_UP: &str = r#"
set -e
place=$1 archive=$2 specification=$3
mount -t tmpfs -o mode=755 place "$place"
cd "$place"
mkdir root etc work storage run tmp
tar --extract --file "$archive" --directory root --exclude './dev/*'
mount -t cgroup2 none /sys/fs/cgroup
mount -t overlay etc -o lowerdir=/etc,upperdir="$place/etc",workdir="$place/work" /etc
mkdir -p /etc/cdi
mount --bind "$specification" /etc/cdi
"#;

/// What programs find themselves by in the image.
const PATH: &str = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";

/// The place.
pub(super) struct Place {
    /// The device, outside of all containers.
    pub(super) host: Host,
    /// What is installed, and mounted into containers.
    pub(super) prefix: PathBuf,
    networks: Pair,
    holder: Holder,
    image: TempDir,
    specification: TempDir,
}

/// What is done to a container.
#[derive(Clone)]
pub(super) struct Edits {
    env: Vec<String>,
    mounts: Vec<(String, String)>,
}

/// What runs a container.
#[derive(Clone)]
pub(super) enum Engine {
    /// podman, which reads the specification; further options.
    Podman(Vec<String>),
    /// bubblewrap, which is told, in a user namespace.
    Bubblewrap(Edits),
}

/// A container in one of the two networks.
pub(super) struct Container<'a> {
    place: &'a Place,
    network: &'a Namespace,
    engine: Engine,
}

impl Place {
    /// Brings it up.
    ///
    /// # Errors
    ///
    /// Skips where this is not for us to do.
    pub(super) fn new(lab: &mut Lab) -> Result<Place, Stop> {
        if !rustix::process::geteuid().is_root() {
            return Err(Stop::Skip("containers are tried as root".to_owned()));
        }

        lab.vacate();
        let archive = Archive::of(DEBIAN_13, "amd64", &PROGRAMS, &lab.case_dir()?)?;
        let prefix = build::scratch("installed")?;
        install::copy(lab.programs(), &prefix)?;
        let mut host = Host::new(&prefix.join("bin"), "127.0.0.1", None)?;
        host.up_anywhere()?;

        let specification = directory("cdi")?;
        let image = directory("image")?;
        let mut unshare = Command::new("unshare");
        unshare
            .args(["-m", "sh", "-c"])
            .arg(format!("{SET_UP}\necho {INSIDE}\nexec cat"))
            .arg("sh")
            .args([image.path(), archive.path(), specification.path()]);
        let holder = Holder::start(unshare)
            .map_err(|error| Stop::Skip(format!("no place for containers: {error:#}")))?;

        Ok(Place {
            host,
            prefix,
            networks: Pair::new(1500)?,
            holder,
            image,
            specification,
        })
    }

    /// Has `ferroce` write the specification to where podman looks for it; what it says of a
    /// device.
    pub(super) fn generate(&self, lab: &mut Lab, device: &str) -> Result<Edits, Stop> {
        let file = self.specification.path().join("ferroce.json");
        let mut generate = self.host.ferroce();
        generate.args(["cdi", "generate", "--output"]).arg(&file);
        let generated = process::run(generate, &lab.case_dir()?, "generate", LIMIT)?;
        if !generated.success() {
            return Err(Stop::with("no specification", &[&generated]));
        }

        let text = fs::read_to_string(&file).context("the specification")?;
        let said: Value = serde_json::from_str(&text).context("the specification")?;
        let devices = said["devices"].as_array().into_iter().flatten();
        let device = devices
            .filter(|found| found["name"] == device)
            .map(|found| Edits::read(&found["containerEdits"]));
        device
            .flatten()
            .next()
            .ok_or_else(|| Stop::fail(format!("not in the specification: {text}")))
    }

    /// Containers of the two networks, of which the first is reached at the address of its network.
    pub(super) fn containers(&self, engine: &Engine) -> [Container<'_>; 2] {
        [&self.networks.a, &self.networks.b].map(|network| Container {
            place: self,
            network,
            engine: engine.clone(),
        })
    }

    /// A file of this machine's in all images, such as a dynamic linker.
    pub(super) fn add(&self, file: &Path, inside: &str) -> Result<(), Stop> {
        let target = self.image.path().join("root").join(inside);
        let mut copy = self.inside(&self.networks.a);
        copy.args(["cp", "-L"]).arg(file).arg(target);
        crate::lab::netns::done(&mut copy)?;
        Ok(())
    }

    /// A command of this machine's where the image is, in a network.
    fn inside(&self, network: &Namespace) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()))
            .arg(format!("--net=/proc/{}/ns/net", network.id()))
            .arg("--");
        command
    }

    fn at(&self, name: &str) -> String {
        self.image.path().join(name).display().to_string()
    }
}

fn directory(name: &str) -> Result<TempDir> {
    let prefix = format!("ferroce-{name}-");
    Ok(tempfile::Builder::new().prefix(&prefix).tempdir()?)
}

impl Edits {
    /// Of `containerEdits`, or of what a kubelet was told.
    pub(super) fn read(edits: &Value) -> Option<Edits> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let env = edits["env"].as_array()?.iter().map(text);
        let mounts = edits["mounts"].as_array()?.iter().map(|mount| {
            let read_only = mount["options"].as_array()?.iter().any(|word| word == "ro");
            read_only.then_some((text(&mount["hostPath"])?, text(&mount["containerPath"])?))
        });
        Some(Edits {
            env: env.collect::<Option<_>>()?,
            mounts: mounts.collect::<Option<_>>()?,
        })
    }
}

impl Container<'_> {
    /// A program that ends by itself, in a container that does so at the latest after the limit.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = self.place.inside(self.network);
        match &self.engine {
            Engine::Podman(options) => self.podman(&mut command, options),
            Engine::Bubblewrap(edits) => self.bubblewrap(&mut command, edits),
        }
        command.arg(program);
        command
    }

    /// Without control groups and with limits of its own, which a machine may not let it change.
    /// The container has the network that podman is started in.
    fn podman(&self, command: &mut Command, options: &[String]) {
        let place = self.place;
        command
            .args(["podman", "--storage-driver", "overlay"])
            .args([
                "--root",
                &place.at("storage"),
                "--runroot",
                &place.at("run"),
            ])
            .args(["--tmpdir", &place.at("tmp")])
            .args(["run", "--rm", "--cgroups=disabled", "--network=host"])
            .args([
                "--ulimit",
                "nofile=1024:1024",
                "--ulimit",
                "nproc=1024:1024",
            ])
            .args(["--timeout", &LIMIT.as_secs().to_string()])
            .args(options)
            .args(["--rootfs", &format!("{}:O", place.at("root"))]);
    }

    fn bubblewrap(&self, command: &mut Command, edits: &Edits) {
        command
            .args(["bwrap", "--die-with-parent", "--unshare-user"])
            .args(["--uid", "0", "--gid", "0"])
            .args(["--unshare-pid", "--unshare-ipc", "--unshare-uts"])
            .args(["--bind", &self.place.at("root"), "/"])
            .args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run"]);
        for (host, container) in &edits.mounts {
            command.args(["--ro-bind", host, container]);
        }
        command.arg("--clearenv");
        for line in edits.env.iter().map(String::as_str).chain([PATH]) {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            command.args(["--setenv", name, value]);
        }
    }
}

impl Runs for Container<'_> {
    fn program(&self, name: &str) -> Command {
        self.command(name)
    }

    /// Of the network; the device has one of its own.
    fn address(&self) -> &str {
        match std::ptr::eq(self.network, &self.place.networks.a) {
            true => ADDRESSES[0],
            false => ADDRESSES[1],
        }
    }
}
