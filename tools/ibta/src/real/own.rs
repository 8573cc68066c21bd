//! A device of the tester's own, for those who have none: a ferroce daemon with a runtime directory
//! to itself, which goes when the tester goes.

use super::agent::wait;
use anyhow::{Context, Result, bail};
use ferroce_wire::ROCE_V2_PORT;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The device's name.
pub const NAME: &str = "ferroce0";
/// How long starting and stopping may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// After so many seconds without programs the daemon leaves by itself: if the tester was killed,
/// say.
const IDLE_EXIT: &str = "20";

/// Loopback addresses that are looked at, 127.0.0.1 and those behind it.
const ADDRESSES: u32 = 254;

/// The device, up.
pub struct OwnDevice {
    runtime: TempDir,
    ferroce: PathBuf,
    up: bool,
}

impl OwnDevice {
    /// A RoCE device at a loopback address that nobody uses.
    ///
    /// # Errors
    /// If ferroce is not installed beside this program, or does not start.
    pub fn roce(address: IpAddr) -> Result<OwnDevice> {
        OwnDevice::start(&["--addr", &address.to_string()])
    }

    /// A device with InfiniBand ports, one for each cable, written as `ferroce up --cable` wants
    /// it.
    ///
    /// # Errors
    /// As [`roce`](Self::roce).
    pub fn cabled(cables: &[String]) -> Result<OwnDevice> {
        let mut options = vec!["--link-layer", "infiniband"];
        for cable in cables {
            options.extend(["--cable", cable]);
        }
        OwnDevice::start(&options)
    }

    fn start(options: &[&str]) -> Result<OwnDevice> {
        let ferroce = std::env::current_exe()?.with_file_name("ferroce");
        if !ferroce.is_file() {
            bail!(
                "{} is missing: build it, or name a device with --device",
                ferroce.display()
            );
        }

        let runtime = tempfile::Builder::new().prefix("ferroce-ibta-").tempdir()?;
        let mut own = OwnDevice {
            runtime,
            ferroce,
            up: false,
        };
        let mut command = own.ferroce();
        command
            .args(["up", "--name", NAME, "--idle-exit", IDLE_EXIT])
            .args(options);
        own.finish(command).context("starting a ferroce device")?;
        own.up = true;
        Ok(own)
    }

    /// A command that runs `program` so that it sees the device.
    pub fn run(&self, program: &std::path::Path) -> Command {
        let mut command = self.ferroce();
        command.args(["run", "--"]).arg(program);
        command
    }

    fn ferroce(&self) -> Command {
        let mut command = Command::new(&self.ferroce);
        // Inside another `ferroce run` the tester would be shown that one's device.
        for name in ["LD_PRELOAD", "RDMAV_DRIVERS", "FERROCE_RUNTIME_DIR"] {
            command.env_remove(name);
        }
        command.arg("--runtime-dir").arg(self.runtime.path());
        command
    }

    /// Runs a command to its end.
    fn finish(&self, mut command: Command) -> Result<()> {
        // A file and no pipe: the daemon has the descriptors of whoever started it.
        let said = self.runtime.path().with_extension("said");
        let file = std::fs::File::create(&said)?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::from(file.try_clone()?))
            .stderr(Stdio::from(file))
            .spawn()
            .with_context(|| format!("running {}", self.ferroce.display()))?;
        let ended = wait(&mut child, PATIENCE);
        let text = std::fs::read_to_string(&said).unwrap_or_default();
        let _ = std::fs::remove_file(&said);
        match ended {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("{} ({status})", text.trim()),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                bail!("ferroce did not end within {} s", PATIENCE.as_secs())
            }
        }
    }
}

impl Drop for OwnDevice {
    fn drop(&mut self) {
        if self.up {
            let mut down = self.ferroce();
            down.arg("down");
            let _ = self.finish(down);
        }
    }
}

/// Two loopback addresses at which nobody speaks RoCE: one for a device, one for the tester.
/// Testers that start at the same time look at different ones, as their process ids differ.
///
/// # Errors
/// If there are not two, or no socket may be made.
pub fn free_addresses() -> Result<[IpAddr; 2]> {
    let mut free = Vec::new();
    for n in 0..ADDRESSES {
        let last = 1 + (std::process::id() % ADDRESSES * 2 + n) % ADDRESSES;
        let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last as u8));
        match UdpSocket::bind((address, ROCE_V2_PORT)) {
            Ok(_) => free.push(address),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => {
                return Err(error).with_context(|| format!("UDP port {ROCE_V2_PORT} of {address}"));
            }
        }
        if let [device, tester] = free[..] {
            return Ok([device, tester]);
        }
    }

    bail!("UDP port {ROCE_V2_PORT} of all loopback addresses is in use (by rdma_rxe?)")
}
