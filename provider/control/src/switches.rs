//! What of the kernel and of ferroce itself a user can do without, by the environment.

use std::env;
use std::ffi::OsStr;

/// Receiving by io_uring; the helper uses `poll(2)` without.
pub const IO_URING: &str = "FERROCE_IO_URING";
/// Segmentation by the kernel; without, each packet is a system call of its own.
pub const GSO: &str = "FERROCE_GSO";
/// Memory that processes of one device share; without, packets between them take the sockets.
pub const LOOPBACK: &str = "FERROCE_LOOPBACK";

/// Whether the environment leaves it on: `off` and `0` switch it off, anything else does not.
pub fn enabled(switch: &str) -> bool {
    !env::var_os(switch).is_some_and(|value| is_off(&value))
}

fn is_off(value: &OsStr) -> bool {
    value == "off" || value == "0"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_and_0_alone_switch_off() {
        for off in ["off", "0"] {
            assert!(is_off(OsStr::new(off)), "{off}");
        }
        for on in ["", "on", "1", "OFF", "no"] {
            assert!(!is_off(OsStr::new(on)), "{on}");
        }
    }
}
