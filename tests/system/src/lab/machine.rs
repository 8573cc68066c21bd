//! A machine of its own, as it were: this one's programs, with files of `/etc`, `/dev`, `/run`,
//! `/var`, `/tmp` and `/home` that are in memory and go with the namespaces that hold them. Users
//! are made in it, and what root does there is seen nowhere else.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::harness::case::Stop;
use crate::lab::holder::{Holder, INSIDE};
use crate::lab::netns::Enter;

/// Where ferroce is installed inside.
pub(crate) const PRODUCT: &str = "/opt/ferroce";
/// Two members of the group whose the device is, and a user who is none.
pub(crate) const MEMBERS: [&str; 2] = ["alice", "bob"];
/// See above.
pub(crate) const STRANGER: &str = "carol";
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Sets the machine up. Arguments: an empty directory, what is to be installed.
const SET_UP: &str = r#"
set -e
place=$1 product=$2
mount -t tmpfs -o mode=755 place "$place"
mkdir "$place/product"
cp -a /etc "$place/etc"
cp -a "$product/." "$place/product"
chown -R 0:0 "$place/product"
mkdir -m 755 "$place/dev"
for device in null zero full random urandom tty; do
    [ -e "/dev/$device" ] || continue
    : >"$place/dev/$device"
    mount --bind "/dev/$device" "$place/dev/$device"
done
mkdir -m 1777 "$place/dev/shm"
ln -s /proc/self/fd "$place/dev/fd"
mount --bind "$place/etc" /etc
mount --rbind "$place/dev" /dev
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=755 var /var
mkdir -p /var/lib /var/log /var/mail /var/tmp
mount -t tmpfs -o mode=755 home /home
mount -t tmpfs -o mode=755 opt /opt
mkdir /opt/ferroce
mount --bind "$place/product" /opt/ferroce
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t proc proc /proc
ip link set lo up
getent group rdma >/dev/null || groupadd --system rdma
for member in alice bob; do useradd --create-home --shell /bin/sh --groups rdma $member; done
useradd --create-home --shell /bin/sh carol
"#;

/// The machine.
pub(crate) struct Machine {
    holder: Holder,
    /// Where its files are, in its own namespace: for everybody else an empty directory.
    _place: TempDir,
}

impl Machine {
    /// Sets one up, with what is below `product` as installed in [`PRODUCT`].
    ///
    /// # Errors
    ///
    /// Skips where this user is not root, or namespaces are not allowed.
    pub(crate) fn new(product: &Path) -> Result<Machine, Stop> {
        if !rustix::process::geteuid().is_root() {
            return Err(Stop::Skip("only root can make users".to_owned()));
        }
        let mut try_out = unshare();
        try_out.args(["mount", "-t", "proc", "proc", "/proc"]);
        let output = try_out.output().map_err(anyhow::Error::from)?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let why = format!("namespaces are not allowed here: {}", why.trim());
            return Err(Stop::Skip(why));
        }

        let place = tempfile::Builder::new()
            .prefix("ferroce-machine-")
            .tempdir()
            .map_err(anyhow::Error::from)?;
        let mut set_up = unshare();
        set_up
            .args(["sh", "-c"])
            .arg(format!("{SET_UP}\necho {INSIDE}\nexec cat"))
            .arg("sh")
            .args([place.path(), product]);
        let holder = Holder::start(set_up)
            .map_err(|error| Stop::fail(format!("setting up a machine: {error:#}")))?;
        Ok(Machine {
            holder,
            _place: place,
        })
    }

    /// A command of root's.
    pub(crate) fn root(&self, words: &[&str]) -> Command {
        let mut command = self.enter();
        command.args(words);
        command
    }

    /// A line of a shell that a user has logged in to.
    pub(crate) fn login(&self, user: &str, line: &str) -> Command {
        // `exec`, so that who ends the shell means the program.
        let line = format!("exec {line}");
        self.root(&["su", "-", user, "-c", &line])
    }
}

impl Enter for Machine {
    fn enter(&self) -> Command {
        let id = self.holder.id();
        let mut command = Command::new("nsenter");
        command
            .args(["-t", &id.to_string(), "-m", "-n"])
            // The holder's children are in the namespace of processes, it itself is not.
            .arg(format!("--pid=/proc/{id}/ns/pid_for_children"))
            .args(["--wd=/", "--", "setpriv", "--pdeathsig", "KILL", "--"])
            .args(["env", "-i", "HOME=/root", "LC_ALL=C"])
            .arg(format!("PATH={PATH}"));
        command
    }
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["-m", "-n", "-p", "--fork", "--kill-child"])
        .env("PATH", PATH);
    command
}
