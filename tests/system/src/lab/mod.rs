//! The places that tests run in: one daemon, with and without the way through memory, two daemons
//! on two loopback addresses, two namespaces joined by veth; one daemon and two namespaces over
//! IPv6, too.
//!
//! One is up at a time, since the first two would share port 4791 of 127.0.0.1.

pub(crate) mod environment;
pub mod guest;
pub(crate) mod holder;
pub(crate) mod host;
pub(crate) mod huge;
pub(crate) mod line;
pub(crate) mod load;
pub(crate) mod losses;
pub(crate) mod machine;
pub(crate) mod manager;
pub(crate) mod marks;
pub(crate) mod netns;
pub(crate) mod rxe;
pub(crate) mod subnet;

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::harness::case::{Ending, Stop};
use crate::lab::host::Host;
use crate::lab::netns::Pair;

/// A kind of place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Both ends through one daemon, and so through memory.
    OneDaemon,
    /// Both ends through one daemon, over sockets.
    Sockets,
    /// Two daemons, at 127.0.0.1 and 127.0.0.2.
    TwoDaemons,
    /// Two network namespaces joined by a veth pair of this MTU.
    Veth(u32),
    /// Both ends through one daemon, at ::1.
    Ipv6,
    /// Two namespaces joined by a veth pair of this MTU, the daemons at addresses of IPv6.
    VethIpv6(u32),
}

impl Place {
    /// The name in test names.
    pub fn name(self) -> String {
        match self {
            Place::OneDaemon => "one-daemon".to_owned(),
            Place::Sockets => "one-daemon-sockets".to_owned(),
            Place::TwoDaemons => "two-daemons".to_owned(),
            Place::Veth(mtu) => format!("veth-{mtu}"),
            Place::Ipv6 => "ipv6".to_owned(),
            Place::VethIpv6(1500) => "veth-ipv6".to_owned(),
            Place::VethIpv6(mtu) => format!("veth-ipv6-{mtu}"),
        }
    }

    /// The largest path MTU that fits the link with all headers (and what a port there reports as
    /// active).
    pub fn path_mtu(self) -> u32 {
        match self {
            Place::OneDaemon | Place::Sockets | Place::TwoDaemons | Place::Ipv6 => 4096,
            Place::Veth(link) => largest_path(link - 58),
            Place::VethIpv6(link) => largest_path(link - 78),
        }
    }

    /// Whether its addresses are of IPv6.
    pub fn is_ipv6(self) -> bool {
        matches!(self, Place::Ipv6 | Place::VethIpv6(_))
    }
}

/// The largest path MTU below what is left of a link.
fn largest_path(left: u32) -> u32 {
    let fits = |mtu: &u32| *mtu < left;
    [4096, 2048, 1024, 512]
        .into_iter()
        .find(fits)
        .unwrap_or(256)
}

/// A place that is up.
pub struct Site {
    /// Which.
    pub place: Place,
    hosts: Vec<Host>,
}

impl Site {
    /// Brings a place up.
    pub fn new(place: Place, programs: &Path) -> Result<Site, Stop> {
        let mut hosts = match place {
            Place::OneDaemon => vec![Host::new(programs, "127.0.0.1", None)?],
            Place::Sockets => vec![Host::new(programs, "127.0.0.1", None)?.without_loopback()],
            Place::TwoDaemons => {
                vec![
                    Host::new(programs, "127.0.0.1", None)?,
                    Host::new(programs, "127.0.0.2", None)?,
                ]
            }
            Place::Veth(mtu) => joined(programs, mtu, netns::ADDRESSES)?,
            Place::Ipv6 => {
                if std::net::UdpSocket::bind("[::1]:0").is_err() {
                    return Err(Stop::Skip("this host has no IPv6".to_owned()));
                }
                vec![Host::new(programs, "::1", None)?]
            }
            Place::VethIpv6(mtu) => joined(programs, mtu, netns::ADDRESSES_V6)?,
        };

        for (index, host) in hosts.iter_mut().enumerate() {
            match place {
                // By interface here, so that both ways of naming the address are used.
                Place::Veth(_) => host.up_with(&["--netdev", netns::INTERFACES[index]])?,
                _ => host.up()?,
            }
        }

        Ok(Site { place, hosts })
    }

    /// As [`new`](Self::new), the daemons started with these options, too.
    pub fn with(place: Place, programs: &Path, options: &[&str]) -> Result<Site, Stop> {
        let mut site = Site::new(place, programs)?;
        for host in &mut site.hosts {
            host.down()?;
            let address = host.address.clone();
            host.up_with(&[&["--addr", &address], options].concat())?;
        }
        Ok(site)
    }

    /// Makes the kernel cut GSO sends before they reach the veth devices, as it does for a plain
    /// NIC.
    pub fn segment_in_software(&self) -> Result<(), Stop> {
        for (host, interface) in self.hosts.iter().zip(netns::INTERFACES) {
            let mut ip = host.plain("ip");
            ip.args(["link", "set", "dev", interface, "gso_max_segs", "1"]);
            ip.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
            let output = ip.output().map_err(anyhow::Error::from)?;
            if !output.status.success() {
                return Err(Stop::fail(String::from_utf8_lossy(&output.stderr)));
            }
        }
        Ok(())
    }

    /// The interface of the client's host.
    pub fn client_interface(&self) -> &'static str {
        match self.place {
            Place::Veth(_) | Place::VethIpv6(_) => netns::INTERFACES[1],
            _ => "lo",
        }
    }

    /// Has programs recover from losses so from now on: those of the server's host, and of the
    /// client's.
    pub fn recovers_by(&mut self, ways: [&'static str; 2]) {
        for (host, way) in self.hosts.iter_mut().zip(ways) {
            host.recovers_by(way);
        }
    }

    /// The host on which servers run.
    pub fn server(&self) -> &Host {
        &self.hosts[0]
    }

    /// The host on which clients run: the same one in a place with one daemon.
    pub fn client(&self) -> &Host {
        self.hosts.last().unwrap_or(&self.hosts[0])
    }

    /// The server's host where it is not the client's.
    pub fn other(&self) -> Option<&Host> {
        (self.hosts.len() > 1).then(|| self.server())
    }
}

/// Hosts in two namespaces joined by veth.
fn joined(programs: &Path, mtu: u32, addresses: [&str; 2]) -> Result<Vec<Host>, Stop> {
    let pair = Pair::new(mtu).map_err(|error| {
        Stop::Skip(format!(
            "network namespaces are not allowed here: {error:#}"
        ))
    })?;
    if addresses == netns::ADDRESSES_V6 {
        pair.add_ipv6()
            .map_err(|error| Stop::Skip(format!("this host has no IPv6: {error:#}")))?;
    }
    let [a, b] = addresses;
    Ok(vec![
        Host::new(programs, a, Some(pair.a))?,
        Host::new(programs, b, Some(pair.b))?,
    ])
}

/// What cases share.
pub struct Lab {
    programs: PathBuf,
    logs: PathBuf,
    site: Option<Site>,
    case_number: u32,
    port: Cell<u16>,
}

impl Lab {
    /// Nothing is started yet. `programs` holds the built product, `logs` will hold a directory per
    /// case.
    pub fn new(programs: PathBuf, logs: PathBuf) -> Lab {
        Lab {
            programs,
            logs,
            site: None,
            case_number: 0,
            port: Cell::new(18_600),
        }
    }

    /// The place, brought up if it is not the one that is up already.
    pub fn site(&mut self, place: Place) -> Result<&Site, Stop> {
        if self.site.as_ref().is_none_or(|site| site.place != place) {
            self.site = None;
            self.site = Some(Site::new(place, &self.programs)?);
        }
        self.site.as_ref().ok_or_else(|| Stop::fail("no site"))
    }

    /// Does something while programs at a place recover from losses so.
    pub fn recovering(
        &mut self,
        place: Place,
        way: &'static str,
        does: impl FnOnce(&mut Lab) -> Ending,
    ) -> Ending {
        self.site(place)?;
        if let Some(site) = &mut self.site {
            site.recovers_by([way; 2]);
        }
        let ending = does(self);
        self.vacate();
        ending
    }

    /// Stops whatever is up, for cases that start daemons of their own.
    pub fn vacate(&mut self) {
        self.site = None;
    }

    /// The directory of the built product.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// A fresh directory for one case's output.
    pub fn case_dir(&mut self) -> Result<PathBuf, Stop> {
        self.case_number += 1;
        let dir = self.case_logs();
        // What an earlier run left there must not be taken for this one's.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).map_err(anyhow::Error::from)?;
        Ok(dir)
    }

    /// Where the output of the last case's programs is.
    pub fn case_logs(&self) -> PathBuf {
        self.logs.join(format!("{:04}", self.case_number))
    }

    /// A TCP port that no other case uses.
    pub fn port(&self) -> u16 {
        next_port(&self.port)
    }
}

/// Counts through a range below the ephemeral ports.
fn next_port(last: &Cell<u16>) -> u16 {
    let next = if last.get() >= 32_000 {
        18_600
    } else {
        last.get() + 1
    };
    last.set(next);
    next
}
