//! A cable: the two UDP endpoints between which a port's packets go.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where a port is, and where the port at the other end of its cable is:
/// `127.0.0.1:7101=127.0.0.2:7101`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cable {
    /// Our end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
}

impl FromStr for Cable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (local, remote) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is no cable: write LOCAL:PORT=REMOTE:PORT"))?;
        let end = |text: &str| -> Result<SocketAddr, String> {
            let end: SocketAddr = text
                .parse()
                .map_err(|_| format!("`{text}` is no endpoint: write ADDRESS:PORT"))?;
            if end.port() == 0 || end.ip().is_unspecified() || end.ip().is_multicast() {
                return Err(format!("`{text}` is not the endpoint of one port"));
            }
            Ok(end)
        };

        let (local, remote) = (end(local)?, end(remote)?);
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(format!("the ends of `{text}` are of different families"));
        }
        if local == remote {
            return Err(format!("`{text}` leads back to where it begins"));
        }

        Ok(Self { local, remote })
    }
}

impl fmt::Display for Cable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.local, self.remote)
    }
}

impl Serialize for Cable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cable {
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
    fn cables_are_read_and_mistakes_told() {
        let text = "127.0.0.1:7101=127.0.0.2:7102";
        assert_eq!(text.parse::<Cable>().unwrap().to_string(), text);
        assert!("[::1]:7101=[::1]:7102".parse::<Cable>().is_ok());
        for (text, word) in [
            ("127.0.0.1:7101", "LOCAL:PORT=REMOTE:PORT"),
            ("127.0.0.1=127.0.0.2:1", "ADDRESS:PORT"),
            ("127.0.0.1:0=127.0.0.2:1", "one port"),
            ("0.0.0.0:1=127.0.0.2:1", "one port"),
            ("127.0.0.1:1=[::1]:1", "families"),
            ("127.0.0.1:1=127.0.0.1:1", "leads back"),
        ] {
            let error = text.parse::<Cable>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
