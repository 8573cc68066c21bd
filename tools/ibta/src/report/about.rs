//! What was tested, from where, and by what: what stands at the head of every report.

use crate::protocol::DeviceInfo;
use chrono::{DateTime, FixedOffset, SecondsFormat, Utc};
use ferroce_fabric::link::Cable;
use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter, Result};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::SystemTime;

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// Version of the suite.
    pub suite: String,
    /// When it began, as RFC 3339 has it, in UTC.
    pub began: String,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// The devices under test. Of the tester's own there are two if both the transport and the
    /// management agents are tested.
    pub devices: Vec<Tested>,
}

impl About {
    /// A run of this program that begins now.
    pub fn now(devices: Vec<Tested>) -> About {
        About {
            suite: env!("CARGO_PKG_VERSION").to_owned(),
            began: DateTime::<Utc>::from(SystemTime::now())
                .to_rfc3339_opts(SecondsFormat::Secs, true),
            command: std::env::args_os()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            devices,
        }
    }

    /// A name for all that was tested.
    pub fn device(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for device in &self.devices {
            if !names.contains(&device.name.as_str()) {
                names.push(&device.name);
            }
        }
        names.join(", ")
    }

    /// When it began, if it is known.
    pub(super) fn time(&self) -> Option<DateTime<FixedOffset>> {
        DateTime::parse_from_rfc3339(&self.began).ok()
    }

    /// Names and values, for reports that have lists of such.
    pub(super) fn properties(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        for device in &self.devices {
            all.extend(device.properties());
        }
        all.push(("suite", format!("ferroce-ibta {}", self.suite)));
        all.push(("began", self.began.clone()));
        all.push(("command", self.command.join(" ")));
        all.retain(|(_, value)| !value.is_empty());
        all
    }
}

/// A device under test. What its side does not say is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tested {
    /// Its name.
    pub name: String,
    /// It is one of the tester's own, started for the run.
    pub own: bool,
    /// Where its agent listens, if the tester was told so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<SocketAddr>,
    /// GUID of the node, in hexadecimal with 0x.
    pub node_guid: String,
    /// GUID of its system, likewise.
    pub system_image_guid: String,
    /// Vendor, likewise.
    pub vendor_id: String,
    /// The vendor's number of the part.
    pub vendor_part_id: u32,
    /// Revision of the hardware.
    pub hw_ver: u32,
    /// Version of the firmware.
    pub firmware: String,
    /// Ports that it has.
    pub ports: u8,
    /// Those that were reached, and from where.
    pub reached: Vec<Reached>,
}

/// A port of a device under test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// Its number, from 1.
    pub port: u8,
    /// Its GID.
    pub gid: Ipv6Addr,
    /// How.
    #[serde(flatten)]
    pub over: Over,
}

/// How the tester reaches a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "over")]
pub enum Over {
    /// RoCE, version 2.
    Roce {
        /// The tester's address.
        tester: IpAddr,
        /// The port's.
        device: IpAddr,
    },
    /// A cable.
    Cable {
        /// From the tester's end to the port's.
        cable: Cable,
    },
}

impl Tested {
    /// A device as its own side tells of it; nothing is known yet of its ports.
    pub fn new(info: &DeviceInfo) -> Tested {
        let guid = |guid: u64| match guid {
            0 => String::new(),
            guid => format!("{guid:#018x}"),
        };
        Tested {
            name: info.name.clone(),
            node_guid: guid(info.node_guid),
            system_image_guid: guid(info.system_image_guid),
            vendor_id: format!("{:#08x}", info.vendor_id),
            vendor_part_id: info.vendor_part_id,
            hw_ver: info.hw_ver,
            firmware: info.fw_ver.clone(),
            ports: info.ports,
            ..Tested::default()
        }
    }

    /// The simulated one.
    pub fn simulated() -> Tested {
        Tested {
            name: "simulated".to_owned(),
            own: true,
            ..Tested::default()
        }
    }

    /// Whether it is the same device, reached another way.
    pub fn is(&self, other: &Tested) -> bool {
        let identity = |tested: &Tested| Tested {
            reached: Vec::new(),
            ..tested.clone()
        };
        identity(self) == identity(other)
    }

    fn properties(&self) -> Vec<(&'static str, String)> {
        let agent = self.agent.map(|agent| agent.to_string());
        let mut all = vec![
            ("device", self.name.clone()),
            ("agent", agent.unwrap_or_default()),
        ];
        if self.own && !self.node_guid.is_empty() {
            all.push(("started by", "the tester".to_owned()));
        }

        all.extend([
            ("node GUID", self.node_guid.clone()),
            ("system image GUID", self.system_image_guid.clone()),
            ("vendor", self.vendor_id.clone()),
        ]);
        // A device that tells nothing of itself has no vendor either.
        if !self.vendor_id.is_empty() {
            all.extend([
                ("vendor part", self.vendor_part_id.to_string()),
                ("hardware", self.hw_ver.to_string()),
                ("firmware", self.firmware.clone()),
                ("ports", self.ports.to_string()),
            ]);
        }

        all.extend(self.reached.iter().map(|port| ("tested", port.to_string())));
        all
    }
}

/// In one line: `ferroce0 (vendor 0x…, …): port 1, GID …, over RoCE from …`.
impl Display for Tested {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        write!(out, "{}", self.name)?;
        if self.vendor_id.is_empty() {
            return out.write_str(", a device in virtual time");
        }
        if self.own {
            out.write_str(", a device of the tester's own")?;
        }

        write!(
            out,
            " (vendor {}, part {}",
            self.vendor_id, self.vendor_part_id
        )?;
        // Agents of earlier versions say less.
        for (name, value) in [("node GUID", &self.node_guid), ("firmware", &self.firmware)] {
            if !value.is_empty() {
                write!(out, ", {name} {value}")?;
            }
        }
        out.write_str(")")?;

        if let Some(agent) = self.agent {
            write!(out, " by the agent at {agent}")?;
        }

        let mut between = ": ";
        for port in &self.reached {
            write!(out, "{between}{port}")?;
            between = "; ";
        }
        Ok(())
    }
}

impl Display for Reached {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        write!(out, "port {}, GID {}, ", self.port, self.gid)?;
        match &self.over {
            Over::Roce { tester, .. } => write!(out, "over RoCE from {tester}"),
            Over::Cable { cable } => write!(out, "by the cable {cable}"),
        }
    }
}
