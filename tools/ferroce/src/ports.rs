//! Ports of devices, as the image has them and so as programs see them. `ferroce devices` and
//! `ferroce status` show the same of a port because both take it from here.

use std::fs;
use std::path::Path;

use ferroce_control::RuntimeDir;
use serde_json::json;

use crate::error::Error;

/// A port of a device.
#[derive(Debug)]
pub(crate) struct Port {
    pub device: String,
    pub number: u32,
    /// A word, such as `ACTIVE`.
    pub state: String,
    /// Likewise, such as `LinkUp`.
    pub phys_state: String,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: String,
    /// As sysfs has it, with its unit.
    pub rate: String,
    /// 0 of a RoCE port, or before a subnet manager has given it one.
    pub lid: u32,
    /// The subnet manager's.
    pub sm_lid: u32,
    /// Interfaces that carry the device.
    pub netdevs: Vec<String>,
    pub node_guid: String,
    /// It is the daemon's device, not one of the host's.
    pub ours: bool,
}

/// All ports in the image, by device and number; `ours` is the daemon's device.
pub(crate) fn all(dir: &RuntimeDir, ours: &str) -> Result<Vec<Port>, Error> {
    let class = dir.sysfs().join("class/infiniband");
    let mut names: Vec<String> = fs::read_dir(&class)
        .map_err(Error::io(class.display().to_string()))?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();

    let of_device = |name: &String| of_device(&class.join(name), name, name == ours);
    Ok(names.iter().flat_map(of_device).collect())
}

fn of_device(device: &Path, name: &str, ours: bool) -> Vec<Port> {
    let mut numbers: Vec<u32> = entries(&device.join("ports"));
    numbers.sort_unstable();
    let mut netdevs: Vec<String> = entries(&device.join("device/net"));
    netdevs.sort();
    let node_guid = read(&device.join("node_guid"));

    numbers
        .into_iter()
        .map(|number| {
            let port = device.join("ports").join(number.to_string());
            Port {
                device: name.to_owned(),
                number,
                state: word(&read(&port.join("state"))),
                phys_state: word(&read(&port.join("phys_state"))),
                link_layer: read(&port.join("link_layer")),
                rate: read(&port.join("rate")),
                lid: hexadecimal(&read(&port.join("lid"))),
                sm_lid: hexadecimal(&read(&port.join("sm_lid"))),
                netdevs: netdevs.clone(),
                node_guid: node_guid.clone(),
                ours,
            }
        })
        .collect()
}

impl Port {
    pub(crate) fn json(&self) -> serde_json::Value {
        json!({
            "device": self.device,
            "port": self.number,
            "state": self.state,
            "phys_state": self.phys_state,
            "link_layer": self.link_layer,
            "rate": self.rate,
            "lid": self.lid,
            "sm_lid": self.sm_lid,
            "netdevs": self.netdevs,
            "node_guid": self.node_guid,
            "ferroce": self.ours,
        })
    }
}

/// What is counted at a port, as its directory `counters` in the image has it: once a second.
pub(crate) fn counters(dir: &RuntimeDir, device: &str, number: u32) -> Vec<(String, u64)> {
    let place = dir
        .sysfs()
        .join(format!("class/infiniband/{device}/ports/{number}/counters"));
    let mut names: Vec<String> = entries(&place);
    names.sort();

    let value = |name: String| {
        let value = read(&place.join(&name)).parse().ok()?;
        Some((name, value))
    };
    names.into_iter().filter_map(value).collect()
}

fn entries<T: std::str::FromStr>(dir: &Path) -> Vec<T> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Of `4: ACTIVE` the word.
fn word(text: &str) -> String {
    let word = text.split_once(": ").map_or(text, |(_, word)| word);
    word.to_owned()
}

fn hexadecimal(text: &str) -> u32 {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u32::from_str_radix(digits, 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_sysfs_are_read_as_the_kernel_writes_them() {
        assert_eq!(word("4: ACTIVE"), "ACTIVE");
        assert_eq!(word("5: LinkUp"), "LinkUp");
        assert_eq!(word(""), "");
        assert_eq!(hexadecimal("0xc001"), 0xc001);
        assert_eq!(hexadecimal(""), 0);
    }
}
