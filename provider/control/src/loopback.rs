//! The addresses of devices for which none was given. They are the loopback interface's, so nothing
//! on a network can reach a device whose owner has not said so; and there are many, so that each
//! user of a machine, and each runtime directory, gets a device.

use std::net::{IpAddr, Ipv4Addr};

/// The network of the further ones: the RoCE port is 4791.
const FURTHER: [u8; 3] = [127, 47, 91];

/// Where to look for a free address, in this order: 127.0.0.1, then 127.47.91.1 to 127.47.91.254.
pub fn addresses() -> impl Iterator<Item = IpAddr> {
    let [a, b, c] = FURTHER;
    let further = (1..=254).map(move |d| Ipv4Addr::new(a, b, c, d));
    std::iter::once(Ipv4Addr::LOCALHOST)
        .chain(further)
        .map(IpAddr::V4)
}

/// Whether an address is one of those that are taken when 127.0.0.1 is not free.
pub fn is_further(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(v4) if v4.octets().starts_with(&FURTHER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_many_and_all_loopback() {
        let all: Vec<IpAddr> = addresses().collect();
        assert_eq!(all.len(), 255);
        assert_eq!(all[7].to_string(), "127.47.91.7");
        assert!(all.iter().all(IpAddr::is_loopback));
        assert!(!is_further(all[0]) && all[1..].iter().all(|&ip| is_further(ip)));
    }
}
