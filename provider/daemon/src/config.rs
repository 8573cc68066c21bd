//! Settings, from a TOML file and from the command line, which wins. Decides nothing that needs a
//! look at the host's interfaces.

use std::env;
use std::fs;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ferroce_control::{CongestionControl, udp};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::DaemonError;
pub use ferroce_control::AddrSpec;
use ferroce_fabric::link::Cable;

/// What a device's ports are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LinkLayer {
    /// RoCEv2 at the addresses of an interface.
    #[default]
    Ethernet,
    /// InfiniBand packets over cables.
    Infiniband,
}

/// What can be set, each `None` or empty if it was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `addr`: the addresses to serve, fixed for the daemon's life.
    #[serde(default)]
    pub addr: Vec<AddrSpec>,
    /// `netdev`: the interface whose addresses to serve, or that carries the port.
    pub netdev: Option<String>,
    /// `link_layer`: `ethernet` or `infiniband`.
    pub link_layer: Option<LinkLayer>,
    /// `cable`: of an InfiniBand device, one for each port.
    #[serde(default)]
    pub cable: Vec<Cable>,
    /// `name`: the device's name.
    pub name: Option<String>,
    /// `idle_exit`: seconds without programs after which the daemon leaves; 0: it stays.
    pub idle_exit: Option<u64>,
    /// `receive_buffer`: bytes to ask for as each socket's receive buffer, of [`RECEIVE_BUFFERS`].
    #[serde(default, deserialize_with = "receive_buffer")]
    pub receive_buffer: Option<usize>,
    /// `stretch_timeouts`: by what timeouts are multiplied, for programs that are stopped now and
    /// then.
    pub stretch_timeouts: Option<u32>,
    /// `congestion`: how programs answer when the network is full, `aimd` or `dcqcn`.
    pub congestion: Option<CongestionControl>,
    /// `group`: whose members may use the device, or `everyone`; nobody but its user and root
    /// without it.
    pub group: Option<String>,
    /// `log`: what to log, as in `info` or `ferroced=debug`.
    pub log: Option<String>,
}

impl Config {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, DaemonError> {
        let text = fs::read_to_string(path).map_err(DaemonError::file(path))?;
        toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(String::new(), |span| {
                let (line, column) = position(&text, span.start);
                format!(":{line}:{column}")
            });
            // A daemon in the background says in one line why it did not start.
            let why = error.message().replace('\n', ", ");
            DaemonError::Setting(format!("{}{at}: {why}", path.display()))
        })
    }

    /// Reads the file that is meant ([`Self::file`]), if there is one.
    pub fn find(explicit: Option<&Path>) -> Result<Self, DaemonError> {
        Self::file(explicit).map_or_else(|| Ok(Self::default()), |path| Self::read(&path))
    }

    /// The file that is meant: the one named, else the user's, else the host's, else none.
    pub fn file(explicit: Option<&Path>) -> Option<PathBuf> {
        let usual = || Self::usual_places().into_iter().find(|path| path.is_file());
        explicit.map(Path::to_path_buf).or_else(usual)
    }

    /// Where a file is looked for: `$XDG_CONFIG_HOME/ferroce/ferroce.toml` (under `~/.config` where
    /// that is not set, or relative), then `/etc/ferroce/ferroce.toml`.
    pub fn usual_places() -> Vec<PathBuf> {
        let set = |name: &str| {
            env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        places(set("XDG_CONFIG_HOME"), set("HOME"))
    }

    /// These settings where they are set, else those of `under`. Addresses and interface go
    /// together: a command line that names an interface does not mean the file's addresses.
    pub fn over(self, under: Self) -> Self {
        let (addr, netdev) = if self.addr.is_empty() && self.netdev.is_none() {
            (under.addr, under.netdev)
        } else {
            (self.addr, self.netdev)
        };
        let (link_layer, cable) = if self.link_layer.is_none() && self.cable.is_empty() {
            (under.link_layer, under.cable)
        } else {
            (self.link_layer, self.cable)
        };
        Self {
            addr,
            netdev,
            link_layer,
            cable,
            name: self.name.or(under.name),
            idle_exit: self.idle_exit.or(under.idle_exit),
            receive_buffer: self.receive_buffer.or(under.receive_buffer),
            stretch_timeouts: self.stretch_timeouts.or(under.stretch_timeouts),
            congestion: self.congestion.or(under.congestion),
            group: self.group.or(under.group),
            log: self.log.or(under.log),
        }
    }
}

/// Line and column of a byte of a text, from 1, as editors count them.
fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    let lines = before.matches('\n').count();
    (lines + 1, before[line..].chars().count() + 1)
}

/// Where a file is looked for, of somebody with these two directories.
fn places(config: Option<PathBuf>, home: Option<PathBuf>) -> Vec<PathBuf> {
    // A relative path is invalid, and ignored, as the XDG Base Directory Specification has it: the
    // daemon would have other settings in each directory where somebody starts it.
    let config = config.filter(|path| path.is_absolute());
    let user = config.or_else(|| home.map(|home| home.join(".config")));
    user.into_iter()
        .chain([PathBuf::from("/etc")])
        .map(|place| place.join("ferroce/ferroce.toml"))
        .collect()
}

/// What can be asked for as a receive buffer, in bytes: room for a packet at least, and no more
/// than the kernel can double, which it does in an `int`, for its own data.
pub const RECEIVE_BUFFERS: RangeInclusive<u64> = 4096..=(i32::MAX / 2) as u64;

fn receive_buffer<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    let bytes = i64::deserialize(from)?;
    let fits = u64::try_from(bytes).is_ok_and(|bytes| RECEIVE_BUFFERS.contains(&bytes));
    let taken = usize::try_from(bytes).ok().filter(|_| fits);
    taken.map(Some).ok_or_else(|| {
        let (least, most) = RECEIVE_BUFFERS.into_inner();
        de::Error::custom(format!(
            "receive_buffer is {bytes}: it can be {least} to {most} bytes"
        ))
    })
}

/// The most by which timeouts are multiplied: it makes eleven minutes of the 67 ms that are usual.
pub const MAX_STRETCH: u32 = 10_000;

/// Settings, checked and complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Fixed addresses; empty: those of an interface.
    pub addrs: Vec<AddrSpec>,
    /// The interface, if one was named.
    pub netdev: Option<String>,
    /// The cables of an InfiniBand device's ports; empty: a RoCE device.
    pub cables: Vec<Cable>,
    /// The IP addresses by which these ports are found, in their order; there may be fewer.
    pub ib_addrs: Vec<IpAddr>,
    /// The device's name.
    pub name: String,
    /// How long to stay without programs; `None`: for ever.
    pub idle_exit: Option<Duration>,
    /// Bytes to ask for as each socket's receive buffer.
    pub receive_buffer: usize,
    /// By what timeouts are multiplied, 1 to [`MAX_STRETCH`].
    pub stretch_timeouts: u32,
    /// How programs answer when the network is full.
    pub congestion: CongestionControl,
    /// Whose members may use the device, if that was set.
    pub group: Option<String>,
    /// What the log shall tell, if that was set; nothing to the daemon but something to remember.
    pub log: Option<String>,
}

impl Settings {
    /// The configuration by which the same device comes up again: these settings, at these
    /// addresses, and at the interface by this name if one was given.
    pub fn remembered(&self, addrs: &[AddrSpec], netdev: &str) -> Config {
        let infiniband = !self.cables.is_empty();
        let ports = self.ib_addrs.iter().map(|&ip| AddrSpec {
            ip,
            interface: None,
        });
        Config {
            addr: match infiniband {
                true => ports.collect(),
                false => addrs.to_vec(),
            },
            netdev: self.netdev.as_ref().map(|_| netdev.to_owned()),
            link_layer: infiniband.then_some(LinkLayer::Infiniband),
            cable: self.cables.clone(),
            name: Some(self.name.clone()),
            idle_exit: self.idle_exit.map(|time| time.as_secs()),
            receive_buffer: Some(self.receive_buffer),
            stretch_timeouts: Some(self.stretch_timeouts),
            congestion: Some(self.congestion),
            group: self.group.clone(),
            log: self.log.clone(),
        }
    }
}

impl TryFrom<Config> for Settings {
    type Error = DaemonError;

    fn try_from(config: Config) -> Result<Self, DaemonError> {
        let name = config.name.unwrap_or_else(|| "ferroce0".into());
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        // umad keeps names of devices in 20 bytes.
        if name.is_empty() || name.len() > 19 || !name.chars().all(good) {
            return Err(DaemonError::Setting(format!(
                "`{name}` cannot be a device's name: use 1 to 19 letters, digits, `_` or `-`"
            )));
        }
        for (i, addr) in config.addr.iter().enumerate() {
            if config.addr[..i].contains(addr) {
                return Err(DaemonError::Setting(format!(
                    "address {addr} is given twice"
                )));
            }
        }
        if config.addr.len() > usize::from(ferroce_control::GID_TABLE_LEN) {
            return Err(DaemonError::Setting(format!(
                "{} addresses are more than a GID table holds ({})",
                config.addr.len(),
                ferroce_control::GID_TABLE_LEN
            )));
        }
        let stretch_timeouts = config.stretch_timeouts.unwrap_or(1);
        if !(1..=MAX_STRETCH).contains(&stretch_timeouts) {
            return Err(DaemonError::Setting(format!(
                "stretch_timeouts is {stretch_timeouts}: timeouts can be multiplied by 1 to {MAX_STRETCH}"
            )));
        }
        let mut ib_addrs = Vec::new();
        let addrs = match config.link_layer.unwrap_or_default() {
            LinkLayer::Ethernet if config.cable.is_empty() => config.addr,
            LinkLayer::Ethernet => {
                return Err(DaemonError::Setting(
                    "a cable needs link_layer = \"infiniband\" (--link-layer infiniband)".into(),
                ));
            }
            LinkLayer::Infiniband => {
                if let Some(name) = &config.netdev {
                    return Err(DaemonError::Setting(format!(
                        "an InfiniBand port is at a cable, and at no interface: leave out {name} (--netdev, or netdev in the file of settings)"
                    )));
                }
                ib_addrs = addresses_of_ports(&config.addr, config.cable.len())?;
                ends_of_cables(&config.cable)?
            }
        };
        Ok(Self {
            addrs,
            netdev: config.netdev,
            cables: config.cable,
            ib_addrs,
            name,
            idle_exit: config
                .idle_exit
                .filter(|&seconds| seconds > 0)
                .map(Duration::from_secs),
            receive_buffer: config.receive_buffer.unwrap_or(udp::RECEIVE_BUFFER),
            stretch_timeouts,
            congestion: config.congestion.unwrap_or_default(),
            group: config.group,
            log: config.log,
        })
    }
}

/// The addresses of an InfiniBand device's ports, which need not be the host's.
fn addresses_of_ports(addrs: &[AddrSpec], ports: usize) -> Result<Vec<IpAddr>, DaemonError> {
    if addrs.len() > ports {
        return Err(DaemonError::Setting(format!(
            "an InfiniBand port has one address at most: {} addresses are too many for {ports} cables",
            addrs.len()
        )));
    }
    if let Some(local) = addrs.iter().find(|addr| addr.interface.is_some()) {
        return Err(DaemonError::Setting(format!(
            "an InfiniBand port is no interface: {local} cannot be its address"
        )));
    }
    Ok(addrs.iter().map(|addr| addr.ip).collect())
}

/// The addresses at which an InfiniBand device's cables end.
fn ends_of_cables(cables: &[Cable]) -> Result<Vec<AddrSpec>, DaemonError> {
    let setting = |text: String| Err(DaemonError::Setting(text));
    if cables.is_empty() || cables.len() > ferroce_control::MAX_PORTS {
        return setting(format!(
            "an InfiniBand device has 1 to {} ports, and so many cables: give them with --cable",
            ferroce_control::MAX_PORTS
        ));
    }
    let mut ends: Vec<AddrSpec> = Vec::new();
    for (i, cable) in cables.iter().enumerate() {
        if cables[..i].iter().any(|other| other.local == cable.local) {
            return setting(format!("two cables end at {}", cable.local));
        }
        let end = AddrSpec {
            ip: cable.local.ip(),
            interface: None,
        };
        if !ends.contains(&end) {
            ends.push(end);
        }
    }
    Ok(ends)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
