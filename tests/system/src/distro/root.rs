//! A distribution's file system, unpacked into memory, with namespaces of its own: mounts,
//! processes and network.
//!
//! All of it goes with the process that holds the namespaces: the files, the mounts, and whatever
//! still runs in there.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::{Archive, emulator};
use crate::harness::case::Stop;
use crate::lab::holder::{Holder, INSIDE};
use crate::lab::host::Host;
use crate::lab::netns::Enter;

/// Where ferroce is inside.
const PRODUCT: &str = "/opt/ferroce";
/// Where the build for this machine is in a root of another architecture.
const NATIVE: &str = "/opt/native";
/// Where its daemon keeps what it shows.
const RUNTIME: &str = "/run/ferroce";
const ADDRESS: &str = "127.0.0.1";
/// Where the host's own programs are that set all up, and those inside.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Sets the root up and becomes what keeps it. Arguments: the directory to put it at, the archive,
/// the product.
const SET_UP: &str = r#"
set -e
root=$1 archive=$2 product=$3
mount -t tmpfs -o mode=755 root "$root"
tar --extract --file "$archive" --directory "$root" --exclude './dev/*' $4
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys" 2>/dev/null || mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=755 dev "$root/dev"
for device in null zero full random urandom; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir -m 1777 "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
mkdir -p "$root/opt/ferroce"
mount --bind "$product" "$root/opt/ferroce"
ip link set lo up
"#;

/// Lets the machine's own programs run in the root, with their C library. Arguments: the same, the
/// emulator, the product for this machine.
const SET_UP_BOTH: &str = r#"
native=$6
for dir in /lib64 /usr/lib/x86_64-linux-gnu; do
    mkdir -p "$root$dir"
    mount --bind "$dir" "$root$dir"
done
mkdir -p "$root/opt/native"
mount --bind "$native" "$root/opt/native"
"#;

/// A root that programs can be run in.
pub(crate) struct Root {
    holder: Holder,
    user: bool,
    /// Where it is mounted, in its own namespace: for everybody else an empty directory.
    place: TempDir,
}

impl Root {
    /// Unpacks an archive; `product` is the prefix below which ferroce is installed.
    ///
    /// # Errors
    ///
    /// Skips where namespaces are not allowed. Fails where the root cannot be set up in them.
    pub(crate) fn unpack(archive: &Archive, product: &Path) -> Result<Root, Stop> {
        let user = !rustix::process::geteuid().is_root();
        Root::set_up(archive, product, user, SET_UP, &[])
    }

    /// Unpacks an archive of another architecture: `product` is for that one, and `native` for this
    /// machine.
    ///
    /// # Errors
    ///
    /// As [`unpack`](Self::unpack), and skips where there is no emulator.
    pub(crate) fn unpack_foreign(
        archive: &Archive,
        product: &Path,
        native: &Path,
    ) -> Result<Root, Stop> {
        let emulator = emulator::ready()?;
        let register = emulator::REGISTER;
        let script = format!("{SET_UP}\nemulator=$5\n{register}\n{SET_UP_BOTH}");
        // In a namespace of users also for root: what runs such programs is the namespace's.
        Root::set_up(archive, product, true, &script, &[&emulator, native])
    }

    fn set_up(
        archive: &Archive,
        product: &Path,
        user: bool,
        script: &str,
        more: &[&Path],
    ) -> Result<Root, Stop> {
        allowed(user)?;
        let place = tempfile::Builder::new()
            .prefix("ferroce-root-")
            .tempdir()
            .map_err(anyhow::Error::from)?;

        let mut unshare = unshare(user);
        unshare
            .args([
                "sh",
                "-c",
                &format!("{script}\necho {INSIDE}\nexec cat"),
                "sh",
            ])
            .args([place.path(), archive.path(), product])
            // In a user namespace there is one user only.
            .arg(if user {
                "--no-same-owner"
            } else {
                "--same-owner"
            })
            .args(more);

        let holder = Holder::start(unshare)
            .map_err(|error| Stop::fail(format!("setting up a root: {error:#}")))?;
        Ok(Root {
            holder,
            user,
            place,
        })
    }

    /// A host whose files are the root's, its daemon up.
    pub(crate) fn host(self) -> Result<Host, Stop> {
        let programs = Path::new(PRODUCT).join("bin");
        let mut host = Host::inside(Box::new(self), &programs, Path::new(RUNTIME), ADDRESS);
        host.up()?;
        Ok(host)
    }

    /// The same where the daemon is this machine's own, as an emulator has not all that it needs,
    /// and programs are the root's.
    pub(crate) fn foreign_host(self) -> Result<Host, Stop> {
        let native = Path::new(NATIVE).join("bin");
        let mut host = Host::inside(Box::new(self), &native, Path::new(RUNTIME), ADDRESS);
        host.up()?;
        Ok(host.run_by(&Path::new(PRODUCT).join("bin")))
    }
}

impl Enter for Root {
    fn enter(&self) -> Command {
        let id = self.holder.id();
        let mut command = Command::new("nsenter");
        command.arg("-t").arg(id.to_string());
        if self.user {
            command.args(["-U", "--preserve-credentials"]);
        }

        command
            .args(["-m", "-n"])
            // The holder's children are in the namespace of processes, it itself is not.
            .arg(format!("--pid=/proc/{id}/ns/pid_for_children"))
            .args(["--", "/usr/sbin/chroot"])
            .arg(self.place.path())
            // Whoever ends nsenter means the program.
            .args(["setpriv", "--pdeathsig", "KILL", "--"])
            .args(["env", "-u", "XDG_RUNTIME_DIR", "HOME=/root", "LC_ALL=C"])
            .arg(format!("PATH={PRODUCT}/bin:{PATH}"));

        command
    }
}

fn unshare(user: bool) -> Command {
    let mut command = Command::new("unshare");
    if user {
        command.args(["-U", "-r"]);
    }
    command
        .args(["-m", "-n", "-p", "--fork", "--kill-child"])
        .env("PATH", PATH);
    command
}

/// Whether this machine lets us have the namespaces, and mount what shows the processes in them.
fn allowed(user: bool) -> Result<(), Stop> {
    let mut try_out = unshare(user);
    try_out.args(["sh", "-c", "mount -t proc proc /proc"]);
    let output = try_out.output().map_err(anyhow::Error::from)?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(Stop::Skip(format!(
        "namespaces are not allowed here: {}",
        why.trim()
    )))
}
