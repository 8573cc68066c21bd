//! What of the kernel and of ferroce itself a user can do without, by the environment.

use std::env;
use std::ffi::{OsStr, OsString};

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
    /// What the environment asks for, or the default.
    pub fn chosen() -> Recovery {
        let value = env::var_os(RECOVERY);
        value
            .and_then(|value| Recovery::of(&value))
            .unwrap_or_default()
    }

    fn of(value: &OsStr) -> Option<Recovery> {
        match value.to_str() {
            Some("automatic" | "") => Some(Recovery::Automatic),
            Some("selective") => Some(Recovery::Selective),
            Some("go-back-n") => Some(Recovery::GoBackN),
            _ => None,
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

fn is_on(value: &OsStr) -> bool {
    ["on", "1", ""].iter().any(|on| value == *on)
}

/// The variables whose values mean nothing, so that they are as if they were not set: a sentence
/// about each, for whoever has set them and believes that something is different now.
pub fn mistakes() -> Vec<String> {
    mistakes_in(|name| env::var_os(name))
}

fn mistakes_in(variable: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
    let meant = |name: &str, value: &OsStr| match name {
        RECOVERY => Recovery::of(value).is_some(),
        _ => is_off(value) || is_on(value),
    };
    let all = [
        (IO_URING, "off (or 0) or on (or 1)"),
        (GSO, "off (or 0) or on (or 1)"),
        (LOOPBACK, "off (or 0) or on (or 1)"),
        (RECOVERY, "automatic, selective or go-back-n"),
    ];
    let mistakes = all.into_iter().filter_map(|(name, allowed)| {
        let value = variable(name).filter(|value| !meant(name, value))?;
        let value = value.to_string_lossy();
        Some(format!("{name}={value} means nothing: it may be {allowed}"))
    });
    mistakes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_has_three_ways() {
        let of = |value: &str| Recovery::of(OsStr::new(value));
        assert_eq!(of("automatic"), Some(Recovery::Automatic));
        assert_eq!(of("selective"), Some(Recovery::Selective));
        assert_eq!(of("go-back-n"), Some(Recovery::GoBackN));
        assert_eq!(of(""), Some(Recovery::Automatic));
        assert_eq!(of("sack"), None);
    }

    #[test]
    fn what_means_nothing_is_named_with_what_would() {
        let said = |set: &[(&str, &str)]| {
            mistakes_in(|name| {
                let found = set.iter().find(|(set, _)| *set == name);
                found.map(|(_, value)| value.into())
            })
        };
        assert!(said(&[]).is_empty());
        for fine in ["on", "1", "", "off", "0"] {
            assert!(said(&[(IO_URING, fine), (GSO, fine), (LOOPBACK, fine)]).is_empty());
        }
        assert!(said(&[(RECOVERY, "selective")]).is_empty());
        let mistakes = said(&[(GSO, "OFF"), (RECOVERY, "off"), (LOOPBACK, "no")]);
        assert_eq!(
            mistakes,
            [
                "FERROCE_GSO=OFF means nothing: it may be off (or 0) or on (or 1)",
                "FERROCE_LOOPBACK=no means nothing: it may be off (or 0) or on (or 1)",
                "FERROCE_RECOVERY=off means nothing: it may be automatic, selective or go-back-n",
            ]
        );
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
