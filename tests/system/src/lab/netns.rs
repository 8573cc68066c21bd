//! Network namespaces joined by a veth pair.
//!
//! As root they are plain network namespaces; otherwise they live in a user namespace of their own.
//! A holder process keeps each alive; it ends when this program does, so nothing is left behind.

use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use crate::lab::holder::{Holder, INSIDE};

/// Somewhere that programs run in.
pub trait Enter: Send + Sync {
    /// A command that runs the program appended to it there.
    fn enter(&self) -> Command;
}

/// A network namespace, which is there as long as one of its clones is.
#[derive(Clone)]
pub struct Namespace {
    holder: Arc<Holder>,
    user: bool,
}

/// Two namespaces joined by veth.
pub(crate) struct Pair {
    /// One end.
    pub a: Namespace,
    /// The other.
    pub b: Namespace,
}

/// The addresses of the two ends.
pub(crate) const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
/// Those that [`Pair::add_ipv6`] adds.
pub(crate) const ADDRESSES_V6: [&str; 2] = ["fd77::1", "fd77::2"];
/// The interfaces of the two ends.
pub(crate) const INTERFACES: [&str; 2] = ["fveth0", "fveth1"];

impl Pair {
    /// Makes both namespaces and the link between them.
    pub(crate) fn new(mtu: u32) -> Result<Pair> {
        let user = !rustix::process::geteuid().is_root();
        let mut first = Command::new("unshare");
        first.arg(if user { "-Urn" } else { "-n" });
        let a = Namespace::hold(first, user)?;
        let mut second = a.enter();
        second.args(["unshare", "-n"]);
        let b = Namespace::hold(second, user)?;
        let mtu = mtu.to_string();
        let [ia, ib] = INTERFACES;
        let peer = b.holder.id().to_string();
        a.ip(&[
            "link", "add", ia, "mtu", &mtu, "type", "veth", "peer", "name", ib, "mtu", &mtu,
        ])?;
        a.ip(&["link", "set", ib, "netns", &peer])?;
        for (space, interface, address) in [(&a, ia, ADDRESSES[0]), (&b, ib, ADDRESSES[1])] {
            space.ip(&["link", "set", "lo", "up"])?;
            space.ip(&["addr", "add", &format!("{address}/24"), "dev", interface])?;
            space.ip(&["link", "set", interface, "up"])?;
        }

        Ok(Pair { a, b })
    }

    /// Gives both ends an address of IPv6, at once: nobody else can have it.
    pub(crate) fn add_ipv6(&self) -> Result<()> {
        for (index, space) in [&self.a, &self.b].into_iter().enumerate() {
            let address = format!("{}/64", ADDRESSES_V6[index]);
            let interface = INTERFACES[index];
            space.ip(&["addr", "add", &address, "dev", interface, "nodad"])?;
        }
        Ok(())
    }
}

/// Runs a command and fails, with what it says, if it does.
pub(crate) fn done(command: &mut Command) -> Result<()> {
    let line = crate::harness::process::line_of(command);
    let output = command
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output()
        .with_context(|| line.clone())?;
    if !output.status.success() {
        bail!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

impl Namespace {
    /// A namespace for root, with nothing in it but a loopback device that is down.
    pub fn new() -> Result<Namespace> {
        let mut unshare = Command::new("unshare");
        unshare.arg("-n");
        Namespace::hold(unshare, false)
    }

    /// A process that is in the namespace as long as this lives.
    pub fn id(&self) -> u32 {
        self.holder.id()
    }

    /// `ip` with these arguments, inside.
    pub(super) fn ip(&self, arguments: &[&str]) -> Result<()> {
        done(self.enter().arg("ip").args(arguments))
    }

    fn hold(mut unshare: Command, user: bool) -> Result<Namespace> {
        unshare.args(["sh", "-c", &format!("echo {INSIDE}; exec cat")]);
        let holder = Arc::new(Holder::start(unshare)?);
        Ok(Namespace { holder, user })
    }
}

impl Enter for Namespace {
    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg("-t").arg(self.holder.id().to_string());
        if self.user {
            command.args(["-U", "--preserve-credentials"]);
        }
        command.args(["-n", "--"]);
        command
    }
}
