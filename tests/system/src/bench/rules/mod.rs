//! What is compared with what, and the targets.

mod device;
mod rest;
mod sockets;

/// What ratio is wanted.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// For information.
    None,
    AtLeast(f64),
    AtMost(f64),
}

/// Which figure is compared with which.
pub(super) struct Rule {
    pub name: &'static str,
    /// Of the figure.
    pub key: &'static str,
    /// The yardstick and how often it counts.
    pub against: Option<(&'static str, f64, &'static str)>,
    pub target: Target,
}

const UDP: Option<(&str, f64, &str)> = Some(("udp_64k", 1.0, "raw UDP, 64 KiB"));
const UDP_1M: Option<(&str, f64, &str)> = Some(("udp_1m", 1.0, "raw UDP, 1 MiB"));
const PING: Option<(&str, f64, &str)> = Some(("udp_latency", 1.0, "raw UDP ping-pong"));
const ROUND: Option<(&str, f64, &str)> = Some(("udp_latency", 2.0, "raw UDP round trip"));
const RATE: Option<(&str, f64, &str)> = Some(("udp_rate", 1.0, "raw UDP GSO/GRO, packets"));

/// All of them, in the order in which they are shown.
pub(super) fn rules() -> impl Iterator<Item = &'static Rule> {
    [sockets::RULES, device::RULES, rest::RULES]
        .into_iter()
        .flatten()
}

const fn rule(
    name: &'static str,
    key: &'static str,
    against: Option<(&'static str, f64, &'static str)>,
    target: Target,
) -> Rule {
    Rule {
        name,
        key,
        against,
        target,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measurements::MEASUREMENTS;

    /// A row without its figure would be left out, and one without its yardstick wrong.
    #[test]
    fn what_is_compared_is_measured() {
        let measured = |key: &str| {
            // What `Rounds::run` takes besides.
            key == "idle_qp_memory" || MEASUREMENTS.iter().any(|(of, ..)| *of == key)
        };
        for rule in rules() {
            assert!(measured(rule.key), "{}", rule.key);
            // A yardstick without a name is a number.
            let (yardstick, ..) = rule.against.unwrap_or_default();
            assert!(yardstick.is_empty() || measured(yardstick), "{yardstick}");
        }
    }
}
