//! What of the kernel and of ferroce itself a user can do without, by the environment.

use std::env;
use std::ffi::OsStr;

/// Receiving by io_uring; the helper uses `poll(2)` without.
pub const IO_URING: &str = "FERROCE_IO_URING";
/// Segmentation by the kernel; without, each packet is a system call of its own.
pub const GSO: &str = "FERROCE_GSO";
/// Memory that processes of one device share; without, packets between them take the sockets.
pub const LOOPBACK: &str = "FERROCE_LOOPBACK";

/// How lost packets are recovered: `selective`, or `go-back-n` as without it.
pub const RECOVERY: &str = "FERROCE_RECOVERY";

/// Whether the environment asks for selective acknowledgements. They are spoken only with a peer
/// that was asked likewise.
///
/// # Errors
/// What is there instead, if it is neither of the two.
pub fn is_selective() -> Result<bool, String> {
    match env::var_os(RECOVERY) {
        None => Ok(false),
        Some(value) => is_selective_value(&value),
    }
}

fn is_selective_value(value: &OsStr) -> Result<bool, String> {
    match value.to_str() {
        Some("selective") => Ok(true),
        Some("go-back-n" | "") => Ok(false),
        _ => Err(format!(
            "{RECOVERY} is {value:?}; it may be selective or go-back-n"
        )),
    }
}

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
    fn recovery_has_two_ways() {
        let of = |value: &str| is_selective_value(OsStr::new(value));
        assert_eq!(of("selective"), Ok(true));
        assert_eq!(of("go-back-n"), Ok(false));
        assert_eq!(of(""), Ok(false));
        let error = of("sack").expect_err("no such way");
        assert!(error.contains("selective or go-back-n"), "{error}");
    }

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
