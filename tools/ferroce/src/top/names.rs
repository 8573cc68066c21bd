//! Words for what is told in numbers, as libibverbs and `rdma` have them, and numbers for people.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use ferroce_capture::words::{STATES, STATUSES};

/// Of `enum ibv_qp_type`.
pub(super) fn service(qp_type: u8) -> &'static str {
    match qp_type {
        2 => "RC",
        3 => "UC",
        4 => "UD",
        9 => "XRC_INI",
        10 => "XRC_TGT",
        _ => "?",
    }
}

/// Of `enum ibv_qp_state`.
pub(super) fn state(state: u8) -> &'static str {
    STATES.get(usize::from(state)).copied().unwrap_or("?")
}

/// Of `enum ibv_wc_status`, without its `IBV_WC_`.
pub(super) fn status(status: u32) -> &'static str {
    let found = usize::try_from(status).ok().and_then(|i| STATUSES.get(i));
    found.copied().unwrap_or("?")
}

/// Of `enum ibv_access_flags`.
pub(super) fn rights(access: u32) -> Vec<&'static str> {
    const RIGHTS: [(u32, &str); 6] = [
        (1, "local_write"),
        (2, "remote_write"),
        (4, "remote_read"),
        (8, "remote_atomic"),
        (256, "flush_global"),
        (512, "flush_persistent"),
    ];
    let has = RIGHTS.iter().filter(|(bit, _)| access & bit != 0);
    has.map(|(_, name)| *name).collect()
}

/// The address that a GID stands for; none of one that is not set.
pub(super) fn address(gid: [u8; 16]) -> Option<IpAddr> {
    let address = Ipv6Addr::from(gid);
    match address.to_ipv4_mapped() {
        _ if address.is_unspecified() => None,
        Some(four) => Some(four.into()),
        None => Some(address.into()),
    }
}

/// How long a Local ACK Timeout is by its code; none: for ever.
pub(super) fn ack_timeout(code: u8, stretch: u32) -> Option<Duration> {
    let unit = Duration::from_nanos(4096);
    let times = (code != 0).then(|| 1u32 << code.min(31))?;
    Some((unit * times).saturating_mul(stretch.max(1)))
}

/// Five characters at most, with a unit of thousands: 17, 1.2k, 350M.
pub(super) fn short(number: f64) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let mut value = number;
    let mut unit = 0;
    // What would be shown as 1000 has the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }

    match unit == 0 || value >= 9.95 {
        true => format!("{value:.0}{}", UNITS[unit]),
        false => format!("{value:.1}{}", UNITS[unit]),
    }
}

/// A span of time for people: 3ms, 1.5s, 2m05s, 3h07m.
pub(super) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0) => format!("{}ms", time.as_millis()),
        (0, 0, 1..10) => format!("{:.1}s", time.as_secs_f64()),
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, _) => format!("{h}h{m:02}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (0.4, "0"),
            (999.4, "999"),
            (999.6, "1.0k"),
            (1234.0, "1.2k"),
            (9960.0, "10k"),
            (350e6, "350M"),
            (2.5e9, "2.5G"),
            (1e22, "10000000P"),
        ] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn spans_are_short() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1500, "1.5s"),
            (17_000, "17s"),
            (125_000, "2m05s"),
            (11_220_000, "3h07m"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn what_is_unknown_has_a_word_too() {
        assert_eq!((service(2), service(255)), ("RC", "?"));
        assert_eq!((state(3), state(7)), ("RTS", "?"));
        assert_eq!((status(12), status(u32::MAX)), ("RETRY_EXC_ERR", "?"));
        assert_eq!(rights(2 | 8 | 1 << 31), ["remote_write", "remote_atomic"]);
    }

    #[test]
    fn addresses_are_as_people_write_them() {
        let mut four = [0; 16];
        (four[10], four[11]) = (0xff, 0xff);
        four[12..].copy_from_slice(&[10, 0, 0, 7]);
        assert_eq!(address(four), Some("10.0.0.7".parse().unwrap()));
        let mut six = [0; 16];
        (six[0], six[1], six[15]) = (0xfe, 0x80, 1);
        assert_eq!(address(six), Some("fe80::1".parse().unwrap()));
        assert_eq!(address([0; 16]), None);
    }

    #[test]
    fn a_timeout_is_4_us_times_a_power_of_two() {
        assert_eq!(ack_timeout(0, 1), None);
        assert_eq!(ack_timeout(14, 1), Some(Duration::from_nanos(67_108_864)));
        assert_eq!(ack_timeout(1, 100), Some(Duration::from_nanos(819_200)));
        assert!(ack_timeout(255, 10_000) > Some(Duration::from_secs(8000)));
    }
}
