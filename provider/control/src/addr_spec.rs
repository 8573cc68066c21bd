//! How settings and command lines name an address.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An address of one interface: `192.0.2.1`, `2001:db8::1`, or with its interface `fe80::1%eth0`.
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

impl AddrSpec {
    /// A port there, on an interface of this network namespace.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn at_port(&self, port: u16) -> Result<SocketAddr, String> {
        let index = match &self.interface {
            Some(name) => index_of(name).map_err(|error| format!("interface {name}: {error}"))?,
            None => 0,
        };
        Ok(match self.ip {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                SocketAddrV6::new(ip, port, 0, index).into()
            }
            ip => SocketAddr::new(ip, port),
        })
    }
}

/// An address and a port: `192.0.2.1:7000`, `[2001:db8::1]:7000`, `[fe80::1%eth0]:7000`.
///
/// # Errors
/// It is none, or there is no such interface.
pub fn endpoint(text: &str) -> Result<SocketAddr, String> {
    if let Ok(endpoint) = text.parse() {
        return Ok(endpoint);
    }
    let in_brackets = text
        .strip_prefix('[')
        .and_then(|text| text.rsplit_once("]:"));
    let parts = in_brackets.and_then(|(spec, port)| Some((spec, port.parse().ok()?)));
    let (spec, port) = parts.ok_or_else(|| format!("`{text}` is no address with a port"))?;
    spec.parse::<AddrSpec>()?.at_port(port)
}

fn index_of(interface: &str) -> rustix::io::Result<u32> {
    let any = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    netdevice::name_to_index(&any, interface)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_has_its_interface() {
        let index = index_of("lo").unwrap();
        let spec: AddrSpec = "fe80::1%lo".parse().unwrap();
        let due = SocketAddr::from(SocketAddrV6::new(
            "fe80::1".parse().unwrap(),
            7000,
            0,
            index,
        ));
        assert_eq!(spec.at_port(7000), Ok(due));
        assert_eq!(endpoint("[fe80::1%lo]:7000"), Ok(due));
        // Of other addresses there is one, whatever the interface.
        assert_eq!(
            endpoint("[fd00::1%lo]:7000"),
            Ok("[fd00::1]:7000".parse().unwrap())
        );
        assert_eq!(
            endpoint("127.0.0.1:7000"),
            Ok("127.0.0.1:7000".parse().unwrap())
        );
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for text in [
            "fe80::1%lo",
            "[fe80::1%lo]",
            "[fe80::1%lo]:x",
            "fe80::1%lo:7000",
            "7000",
        ] {
            let refused = endpoint(text).unwrap_err();
            assert!(refused.contains("is no address with a port"), "{refused}");
        }
        let refused = endpoint("[fe80::1%no-such-one]:7000").unwrap_err();
        assert!(refused.contains("interface no-such-one"), "{refused}");
    }
}
