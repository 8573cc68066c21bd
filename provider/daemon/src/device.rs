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
        })
    }

    /// The interface that stands for the port.
    pub(crate) fn netdev(&self) -> &str {
        match self {
            Self::Fixed { netdev, .. } | Self::Interface(netdev) => netdev,
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
    source
        .fixed()
        .iter()
        .filter_map(|addr| link_of(addr, snapshot))
        .map(|link| link.mtu)
        .fold(link.mtu, u32::min)
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
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::interfaces::Address;

    fn snapshot() -> Snapshot {
        let link = |index, name: &str, mtu, mac, up, loopback| Link {
            index,
            name: name.to_owned(),
            mtu,
            mac,
            up,
            loopback,
        };

        let address = |ifindex, ip: &str, prefix_len| Address {
            ifindex,
            ip: ip.parse().unwrap(),
            prefix_len,
        };

        Snapshot {
            links: vec![
                link(1, "lo", 65_536, None, true, true),
                link(2, "eth7", 1500, Some([0x52, 0x54, 0, 1, 2, 3]), true, false),
            ],
            addresses: vec![
                address(1, "127.0.0.1", 8),
                address(2, "192.0.2.2", 24),
                address(2, "fe80::2", 64),
            ],
        }
    }

    fn settings(addrs: &[&str], netdev: Option<&str>) -> Settings {
        let config = Config {
            addr: addrs.iter().map(|addr| addr.parse().unwrap()).collect(),
            netdev: netdev.map(str::to_owned),
            ..Config::default()
        };
        config.try_into().unwrap()
    }

    #[test]
    fn a_given_address_brings_its_interface() {
        let (settings, snapshot) = (settings(&["127.0.7.9"], None), snapshot());
        let source = Source::choose(&settings, &snapshot, None).unwrap();
        assert_eq!(source.netdev(), "lo");
        let info = identify(&settings, &source, &snapshot);
        assert_eq!(
            (info.netdev_mtu, info.active_mtu, info.port_active),
            (65_536, 4096, true)
        );
        assert_eq!(info.node_guid[0] & 3, 0);
        assert_eq!(source.wanted(&snapshot).unwrap()[0].ifname, "lo");
    }

    #[test]
    fn an_interface_brings_its_addresses_and_its_hardware_address() {
        let (settings, mut snapshot) = (settings(&[], Some("eth7")), snapshot());
        let source = Source::choose(&settings, &snapshot, None).unwrap();
        let mut info = identify(&settings, &source, &snapshot);
        assert_eq!(info.node_guid, [0x50, 0x54, 0, 0xff, 0xfe, 1, 2, 3]);
        assert_eq!((info.active_mtu, info.port_active), (1024, true));
        assert_eq!(source.wanted(&snapshot).unwrap().len(), 2);

        snapshot.links[1].up = false;
        assert!(refresh(&mut info, &source, &snapshot));
        assert!(!info.port_active);
        snapshot.links.remove(1);
        assert!(!refresh(&mut info, &source, &snapshot));
        assert!(source.wanted(&snapshot).unwrap().is_empty());
    }

    #[test]
    fn without_a_word_it_is_loopback_whatever_else_there_is() {
        let (settings, snapshot) = (settings(&[], None), snapshot());
        let source = Source::choose(&settings, &snapshot, "127.47.91.7".parse().ok()).unwrap();
        assert_eq!(source.netdev(), "lo");
        assert_eq!(source.fixed()[0].to_string(), "127.47.91.7");
        // The same device as if the address had been given.
        let given = Source::choose(&self::settings(&["127.47.91.7"], None), &snapshot, None);
        assert_eq!(given.unwrap(), source);
    }

    #[test]
    fn the_smallest_interface_bounds_the_mtu() {
        let (settings, snapshot) = (settings(&["127.0.0.1", "192.0.2.2"], None), snapshot());
        let source = Source::choose(&settings, &snapshot, None).unwrap();
        assert_eq!(identify(&settings, &source, &snapshot).active_mtu, 1024);
    }

    #[test]
    fn what_does_not_exist_is_told() {
        let snapshot = snapshot();
        let error = Source::choose(&settings(&[], Some("eth9")), &snapshot, None).unwrap_err();
        assert!(error.to_string().contains("`eth9`"), "{error}");
        let error = Source::choose(&settings(&["203.0.113.5"], None), &snapshot, None).unwrap_err();
        assert!(
            error.to_string().contains("203.0.113.5 is not an address"),
            "{error}"
        );
    }

    #[test]
    fn made_up_numbers_differ() {
        assert_ne!(made_up(b"127.0.0.1"), made_up(b"127.0.0.2"));
    }
}
