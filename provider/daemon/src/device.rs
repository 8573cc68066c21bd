//! What the device is: its addresses' origin, its identity, and how the interface's state becomes
//! the port's.

use std::fs;
use std::net::IpAddr;

use ferroce_control::{DeviceInfo, GID_TABLE_LEN, link};

use crate::config::{AddrSpec, Settings};
use crate::gids::Wanted;
use crate::interfaces::{Link, Snapshot};
use crate::{DaemonError, real};

/// Where the device's addresses come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// They were given, and stay.
    Fixed {
        /// The addresses.
        addrs: Vec<AddrSpec>,
        /// The interface that stands for the port.
        netdev: String,
        /// It was given, too; else it is that of the first address at any time.
        chosen: bool,
    },
    /// They are those of this interface at any time.
    Interface(String),
}

impl Source {
    /// Chooses as the settings say: the given addresses, else the given interface's, else
    /// `loopback`, an address that was found free because nothing was given.
    pub(crate) fn choose(
        settings: &Settings,
        snapshot: &Snapshot,
        loopback: Option<IpAddr>,
    ) -> Result<Self, DaemonError> {
        let known = |name: &str| {
            snapshot
                .link(name)
                .ok_or_else(|| DaemonError::NoSuchInterface {
                    name: name.to_owned(),
                })
        };
        if let Some(name) = &settings.netdev {
            known(name)?;
        }

        if !settings.addrs.is_empty() {
            for addr in &settings.addrs {
                if let Some(name) = &addr.interface {
                    known(name)?;
                }
            }

            let netdev = match &settings.netdev {
                Some(name) => name.clone(),
                None => link_of(&settings.addrs[0], snapshot)
                    .ok_or_else(|| no_such_address(&settings.addrs[0]))?
                    .name
                    .clone(),
            };

            return Ok(Self::Fixed {
                addrs: settings.addrs.clone(),
                netdev,
                chosen: settings.netdev.is_some(),
            });
        }

        if let Some(name) = &settings.netdev {
            return Ok(Self::Interface(name.clone()));
        }

        let found = loopback.ok_or_else(|| DaemonError::NoSuchInterface { name: "lo".into() })?;
        let addr = AddrSpec {
            ip: found,
            interface: None,
        };
        let link = link_of(&addr, snapshot).ok_or_else(|| no_such_address(&addr))?;
        Ok(Self::Fixed {
            netdev: link.name.clone(),
            addrs: vec![addr],
            chosen: false,
        })
    }

    /// The interface that stands for the port.
    pub(crate) fn netdev(&self) -> &str {
        match self {
            Self::Fixed { netdev, .. } | Self::Interface(netdev) => netdev,
        }
    }

    /// Goes by the name that the interface of this index has now: it may have been renamed. Where
    /// it is gone, one that is made again under its name takes its place. Where the port is at a
    /// given address's interface, it goes with the address to another one. Returns whether it has
    /// another name.
    pub(crate) fn follow(&mut self, index: u32, snapshot: &Snapshot) -> bool {
        let link = match self {
            Self::Fixed {
                addrs,
                chosen: false,
                ..
            } if addrs[0].interface.is_none() => snapshot.link_now(addrs[0].ip, index),
            _ => snapshot.link_at(index),
        };
        let (Self::Fixed { netdev, .. } | Self::Interface(netdev)) = self;
        match link {
            Some(link) if link.name != *netdev => {
                tracing::info!(from = netdev, to = link.name, "the port's interface");
                netdev.clone_from(&link.name);
                true
            }
            _ => false,
        }
    }

    /// The addresses that were given or found; none of an interface, whose addresses come and go.
    pub(crate) fn fixed(&self) -> &[AddrSpec] {
        match self {
            Self::Fixed { addrs, .. } => addrs,
            Self::Interface(_) => &[],
        }
    }

    /// The addresses as of now.
    pub(crate) fn wanted(&self, snapshot: &Snapshot) -> Result<Vec<Wanted>, DaemonError> {
        match self {
            Self::Fixed { addrs, .. } => addrs
                .iter()
                .map(|addr| {
                    let link = link_of(addr, snapshot).ok_or_else(|| no_such_address(addr))?;
                    Ok(Wanted::new(addr.ip, link))
                })
                .collect(),
            Self::Interface(name) => Ok(snapshot
                .link(name)
                .map(|link| Wanted::all_of(link, snapshot))
                .unwrap_or_default()),
        }
    }
}

fn no_such_address(addr: &AddrSpec) -> DaemonError {
    DaemonError::NoSuchAddress {
        address: addr.to_string(),
    }
}

fn link_of<'a>(addr: &AddrSpec, snapshot: &'a Snapshot) -> Option<&'a Link> {
    match &addr.interface {
        Some(name) => snapshot.link(name),
        None => snapshot.link_of(addr.ip, None),
    }
}

/// Refuses a name that a real device has.
pub(crate) fn check_name(name: &str) -> Result<(), DaemonError> {
    if real::entries("/sys/class/infiniband").contains(name) {
        return Err(DaemonError::Setting(format!(
            "this host has a device named {name} already: choose another name with --name"
        )));
    }
    Ok(())
}

/// The part of a [`DeviceInfo`] that never changes.
pub(crate) fn identify(settings: &Settings, source: &Source, snapshot: &Snapshot) -> DeviceInfo {
    let mac = snapshot.link(source.netdev()).and_then(|link| link.mac);
    let guid = match (source, mac) {
        (Source::Interface(_), Some(mac)) => eui64(mac),
        // Several daemons may share an interface when addresses are given, and loopback has no
        // hardware address: a number made of host, address and name tells them apart.
        _ => {
            let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
            let addrs = match source {
                Source::Fixed { addrs, .. } => addrs.iter().map(AddrSpec::to_string).collect(),
                Source::Interface(name) => vec![name.clone()],
            };
            let cables = settings.cables.iter().map(|cable| format!("\n{cable}"));
            let seed = format!("{}\n{}\n{}", machine.trim(), addrs.join(" "), settings.name);
            let seed = cables.fold(seed, |seed, cable| seed + &cable);
            made_up(seed.as_bytes())
        }
    };

    let mut info = DeviceInfo {
        name: settings.name.clone(),
        index: DeviceInfo::new_index(),
        uverbs: format!("uverbs{}", real::free_uverbs_number()),
        node_guid: guid,
        sys_image_guid: guid,
        netdev: source.netdev().to_owned(),
        netdev_index: 0,
        netdev_mtu: 0,
        active_mtu: 256,
        speed_mbps: 0,
        port_active: false,
        ib_ports: 0,
        gid_tbl_len: GID_TABLE_LEN,
        rcvbuf: 0,
        fw_ver: env!("CARGO_PKG_VERSION").to_owned(),
        stretch_timeouts: settings.stretch_timeouts,
        congestion: settings.congestion,
    };

    refresh(&mut info, source, snapshot);
    info
}

/// Brings the parts that follow the interface up to date. Returns whether the port went up or down.
pub(crate) fn refresh(info: &mut DeviceInfo, source: &Source, snapshot: &Snapshot) -> bool {
    let was_active = info.port_active;
    match snapshot.link(source.netdev()) {
        Some(link) => {
            info.netdev_index = link.index;
            info.netdev.clone_from(&link.name);
            info.netdev_mtu = smallest_mtu(link, source, snapshot);
            info.active_mtu = link::active_mtu(info.netdev_mtu);
            info.speed_mbps = speed(link);
            // An InfiniBand port's state is the subnet manager's.
            if info.ib_ports == 0 {
                info.port_active = link.up;
            }
        }
        None => info.port_active = false,
    }

    info.port_active != was_active
}

fn smallest_mtu(link: &Link, source: &Source, snapshot: &Snapshot) -> u32 {
    let fixed = source.fixed().iter();
    let fixed = fixed.filter_map(|addr| Some((addr.ip, link_of(addr, snapshot)?)));
    let own = snapshot.addresses.iter();
    let own = own.filter(|own| own.ifindex == link.index && source.fixed().is_empty());
    let all = fixed.chain(own.map(|own| (own.ip, link)));
    all.map(|(ip, link)| match link.loopback && !ip.is_loopback() {
        true => smallest_way_out(snapshot).unwrap_or(link.mtu),
        false => link.mtu,
    })
    .fold(link.mtu, u32::min)
}

/// The MTU for a service address: packets to it and from it go by other interfaces than the
/// loopback that has it, and which ones the routes may change at any time.
fn smallest_way_out(snapshot: &Snapshot) -> Option<u32> {
    let out = snapshot.links.iter();
    out.filter(|link| link.up && !link.loopback)
        .map(|link| link.mtu)
        .min()
}

/// The link's speed in Mb/s. Loopback counts as 40 Gb/s, about what the data path carries; links
/// that do not know, as virtual ones, as 10 Gb/s, which is what veth claims.
fn speed(link: &Link) -> u32 {
    if link.loopback {
        return 40_000;
    }
    // /sys may be another network namespace's, with another interface of that name.
    let read = |file: &str| -> Option<i64> {
        let path = format!("/sys/class/net/{}/{file}", link.name);
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    match (read("ifindex"), read("speed")) {
        (Some(index), Some(speed)) if index == i64::from(link.index) && speed > 0 => {
            u32::try_from(speed).unwrap_or(10_000)
        }
        _ => 10_000,
    }
}

/// The EUI-64 that Ethernet adapters make of their hardware address.
fn eui64(mac: [u8; 6]) -> [u8; 8] {
    [
        mac[0] ^ 2,
        mac[1],
        mac[2],
        0xff,
        0xfe,
        mac[3],
        mac[4],
        mac[5],
    ]
}

/// A locally administered EUI-64 made of a seed (FNV-1a).
pub(crate) fn made_up(seed: &[u8]) -> [u8; 8] {
    let hash = seed.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The ports of an InfiniBand node have the numbers after the node's own.
    let mut guid = (hash & !0xff).to_be_bytes();
    // In a modified EUI-64 this bit clear means: not assigned by anybody.
    guid[0] &= 0xfc;
    guid
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
