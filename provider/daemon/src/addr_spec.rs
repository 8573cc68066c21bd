//! How settings name an address.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An address to serve: `192.0.2.1`, `2001:db8::1`, or with its interface `fe80::1%eth0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddrSpec {
    /// The address.
    pub ip: IpAddr,
    /// The interface's name, which a link-local address needs.
    pub interface: Option<String>,
}

impl FromStr for AddrSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (ip, interface) = match text.split_once('%') {
            Some((ip, interface)) => (ip, Some(interface.to_owned())),
            None => (text, None),
        };
        let ip: IpAddr = ip
            .parse()
            .map_err(|_| format!("`{text}` is not an IP address"))?;
        if ip.is_unspecified() || ip.is_multicast() {
            return Err(format!("`{text}` is not the address of one interface"));
        }

        if let IpAddr::V6(v6) = ip {
            if v6.to_ipv4_mapped().is_some() {
                return Err(format!("write `{text}` as an IPv4 address"));
            }
            if v6.is_unicast_link_local() && interface.is_none() {
                return Err(format!("`{text}` needs its interface, as in {text}%eth0"));
            }
        }

        Ok(Self { ip, interface })
    }
}

impl fmt::Display for AddrSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.interface {
            Some(interface) => write!(f, "{}%{interface}", self.ip),
            None => write!(f, "{}", self.ip),
        }
    }
}

impl Serialize for AddrSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AddrSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
