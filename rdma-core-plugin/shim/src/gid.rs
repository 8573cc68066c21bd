//! The GID tables of a device, which the provider knows. Without it they are read from the image,
//! which ferroced keeps in step with the host's addresses, as long as the process finds its files.

use crate::image::IMAGE;
use crate::sys::{self, PathBuffer};
use crate::told::Told;
use ferroce_cabi::uverbs::query_gid;
use ferroce_cabi::{IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V2, ibv_gid, ibv_gid_entry};
use libc::c_int;
use std::ffi::CStr;

/// `IBV_GID_TYPE_IB` and `IBV_GID_TYPE_ROCE_V1` share their name in sysfs; on Ethernet it is the
/// latter.
const IBV_GID_TYPE_ROCE_V1: u32 = 1;
/// Among how many devices a GID is looked for.
const DEVICES: u16 = 32;

static QUERY: Told<query_gid> = Told::nothing();

/// For the provider: see [`ferroce_cabi::uverbs::shim_query_gid`].
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
pub(crate) extern "C" fn ferroce_shim_query_gid(function: query_gid) {
    QUERY.tell(function);
}

/// An entry of the table of a port of `uverbsN`, whose file is open there, with a GID of zeros if
/// it is empty. The error is an errno; `EINVAL`: there is no such port or index.
pub(crate) fn entry(fd: c_int, uverbs: u16, port: u32, index: u32) -> Result<ibv_gid_entry, c_int> {
    let mut entry = ibv_gid_entry::default();
    let said = match QUERY.function() {
        // SAFETY: it takes any descriptor and numbers, and the place of an entry.
        Some(function) => unsafe { function(fd, port, index, &raw mut entry) },
        None => -1,
    };
    match said {
        0 => Ok(entry),
        1.. => Err(said),
        // As in a forked child, whose parent's the device is.
        _ => {
            let device = Device::of_uverbs(uverbs).ok_or(libc::ENODEV)?;
            device.entry(port, index).ok_or(libc::EINVAL)
        }
    }
}

/// A device of the image, by its directory in `/sys/class/infiniband`.
struct Device {
    name: [u8; 64],
    len: usize,
}

impl Device {
    /// The device behind `uverbsN`.
    fn of_uverbs(number: u16) -> Option<Device> {
        let mut path = class(b"/sys/class/infiniband_verbs/uverbs")?;
        path.push_number(number.into());
        path.push(b"/ibdev");
        let mut device = Device {
            name: [0; 64],
            len: 0,
        };
        device.len = sys::read_file(path.as_cstr()?, &mut device.name)?.len();
        (device.len > 0).then_some(device)
    }

    fn port(&self, port: u32) -> Option<PathBuffer> {
        let mut path = class(b"/sys/class/infiniband/")?;
        path.push(self.name.get(..self.len)?);
        path.push(b"/ports/");
        path.push_number(port);
        Some(path)
    }

    /// One entry; `None` if the port or the index does not exist. An empty entry has a GID of zero.
    fn entry(&self, port: u32, index: u32) -> Option<ibv_gid_entry> {
        let mut text = [0; 64];
        let mut read = |directory: &[u8]| -> Option<([u8; 64], usize)> {
            let mut path = self.port(port)?;
            path.push(directory);
            path.push_number(index);
            let len = sys::read_file(path.as_cstr()?, &mut text)?.len();
            Some((text, len))
        };

        let gid = self.gid(port, index)?;
        let mut entry = ibv_gid_entry {
            gid,
            gid_index: index,
            port_num: port,
            gid_type: 0,
            ndev_ifindex: 0,
        };

        if gid != ibv_gid::default() {
            let (kind, len) = read(b"/gid_attrs/types/")?;
            entry.gid_type = if kind.get(..len)? == b"RoCE v2" {
                IBV_GID_TYPE_ROCE_V2
            } else if self.is_infiniband(port) {
                IBV_GID_TYPE_IB
            } else {
                IBV_GID_TYPE_ROCE_V1
            };
            entry.ndev_ifindex =
                read(b"/gid_attrs/ndevs/").map_or(0, |(name, len)| interface_index(&name, len));
        }

        Some(entry)
    }

    /// Is this the GID of one of its ports?
    fn has_gid(&self, gid: &ibv_gid) -> bool {
        let ports = (1..).take_while(|port| self.has_port(*port));
        ports
            .flat_map(|port| (0..).map_while(move |index| self.gid(port, index)))
            .any(|held| held == *gid)
    }

    /// A GID as the table has it, zero where it has none; `None` behind its end.
    fn gid(&self, port: u32, index: u32) -> Option<ibv_gid> {
        let mut path = self.port(port)?;
        path.push(b"/gids/");
        path.push_number(index);
        let mut text = [0; 64];
        parse(sys::read_file(path.as_cstr()?, &mut text)?)
    }

    fn is_infiniband(&self, port: u32) -> bool {
        let mut text = [0; 32];
        let Some(mut path) = self.port(port) else {
            return false;
        };
        path.push(b"/link_layer");
        let kind = path
            .as_cstr()
            .and_then(|path| sys::read_file(path, &mut text));
        kind == Some(b"InfiniBand")
    }

    /// Is there such a port?
    fn has_port(&self, port: u32) -> bool {
        let mut state = [0; 32];
        let Some(mut path) = self.port(port) else {
            return false;
        };
        path.push(b"/state");
        path.as_cstr()
            .is_some_and(|path| sys::read_file(path, &mut state).is_some())
    }
}

/// Is this the GID of a port of a device of the image?
pub(crate) fn is_a_ports(gid: &ibv_gid) -> bool {
    (0..DEVICES)
        .filter_map(Device::of_uverbs)
        .any(|device| device.has_gid(gid))
}

fn class(path: &[u8]) -> Option<PathBuffer> {
    let mut buffer = PathBuffer::new();
    buffer.push(IMAGE.directory()?);
    buffer.push(path);
    Some(buffer)
}

fn interface_index(name: &[u8; 64], len: usize) -> u32 {
    let mut buffer = *name;
    match buffer.get_mut(len) {
        Some(end) => *end = 0,
        None => return 0,
    }
    // SAFETY: a NUL-terminated name.
    CStr::from_bytes_until_nul(&buffer)
        .map_or(0, |name| unsafe { libc::if_nametoindex(name.as_ptr()) })
}

/// Eight groups of four hexadecimal digits.
fn parse(text: &[u8]) -> Option<ibv_gid> {
    if text.len() != 39 {
        return None;
    }

    let mut gid = ibv_gid::default();
    for (group, bytes) in text.chunks(5).zip(gid.raw.chunks_mut(2)) {
        let digits = std::str::from_utf8(group.get(..4)?).ok()?;
        let value = digits
            .bytes()
            .all(|d| d.is_ascii_hexdigit())
            .then(|| u16::from_str_radix(digits, 16).ok())??;
        if group.get(4).is_some_and(|c| *c != b':') {
            return None;
        }
        bytes.copy_from_slice(&value.to_be_bytes());
    }

    Some(gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gids_are_read_as_sysfs_writes_them() {
        let gid = parse(b"0000:0000:0000:0000:0000:ffff:7f00:0001").unwrap();
        assert_eq!(
            gid.raw,
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1]
        );
        for bad in [
            &b""[..],
            b"0000:0000:0000:0000:0000:ffff:7f00:000",
            b"0000:0000:0000:0000:0000:ffff:7f00:000g",
            b"0000-0000:0000:0000:0000:ffff:7f00:0001",
            b"+000:0000:0000:0000:0000:ffff:7f00:0001",
        ] {
            assert!(parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn interfaces_are_named_by_index() {
        let mut name = [0; 64];
        name[..2].copy_from_slice(b"lo");
        assert_ne!(interface_index(&name, 2), 0);
        assert_eq!(interface_index(&name, 64), 0);
    }
}
