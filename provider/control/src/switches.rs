//! What of the kernel and of ferroce itself a user can do without, by the environment.

use std::env;
use std::ffi::OsStr;

/// Receiving by io_uring; the helper uses `poll(2)` without.
pub const IO_URING: &str = "FERROCE_IO_URING";
/// Segmentation by the kernel; without, each packet is a system call of its own.
pub const GSO: &str = "FERROCE_GSO";
/// Memory that processes of one device share; without, packets between them take the sockets.
pub const LOOPBACK: &str = "FERROCE_LOOPBACK";

/// How lost packets are recovered: `automatic` as without it, `selective`, or `go-back-n`.
pub const RECOVERY: &str = "FERROCE_RECOVERY";

/// How reliable connections recover from losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// By selective acknowledgements with hosts that are known to be ferroce's, else by go-back-N.
    #[default]
    Automatic,
    /// By selective acknowledgements with whoever answers likewise; everybody is shown, by a
    /// reserved bit, that they are understood.
    Selective,
    /// By go-back-N, whoever the peer is.
    GoBackN,
}

impl Recovery {
    /// What the environment asks for.
    ///
    /// # Errors
    /// What is there instead, if it is none of the three.
    pub fn chosen() -> Result<Recovery, String> {
        match env::var_os(RECOVERY) {
            None => Ok(Recovery::default()),
            Some(value) => Recovery::of(&value),
        }
    }

    fn of(value: &OsStr) -> Result<Recovery, String> {
        match value.to_str() {
            Some("automatic" | "") => Ok(Recovery::Automatic),
            Some("selective") => Ok(Recovery::Selective),
            Some("go-back-n") => Ok(Recovery::GoBackN),
            _ => Err(format!(
                "{RECOVERY} is {value:?}; it may be automatic, selective or go-back-n"
            )),
        }
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
    fn recovery_has_three_ways() {
        let of = |value: &str| Recovery::of(OsStr::new(value));
        assert_eq!(of("automatic"), Ok(Recovery::Automatic));
        assert_eq!(of("selective"), Ok(Recovery::Selective));
        assert_eq!(of("go-back-n"), Ok(Recovery::GoBackN));
        assert_eq!(of(""), Ok(Recovery::Automatic));
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
