//! What is compared with what, the targets, and how it is shown.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use super::measure::Figure;

/// What ratio is wanted.
#[derive(Clone, Copy)]
enum Target {
    /// For information.
    None,
    AtLeast(f64),
    AtMost(f64),
}

/// Which figure is compared with which.
struct Rule {
    name: &'static str,
    key: &'static str,
    /// The yardstick and how often it counts.
    against: Option<(&'static str, f64, &'static str)>,
    target: Target,
}

const UDP: Option<(&str, f64, &str)> = Some(("udp_bandwidth", 1.0, "raw UDP GSO/GRO"));
const TCP: Option<(&str, f64, &str)> = Some(("tcp_bandwidth", 1.0, "TCP (qperf 64 KiB)"));
const WRITE_64K: Option<(&str, f64, &str)> = Some(("write_64k", 1.0, "ib_write_bw 64 KiB"));
const WRITE_1M: Option<(&str, f64, &str)> = Some(("write_1m", 1.0, "ib_write_bw 1 MiB"));
const PING: Option<(&str, f64, &str)> = Some(("udp_latency", 1.0, "raw UDP ping-pong"));
const ROUND: Option<(&str, f64, &str)> = Some(("udp_latency", 2.0, "raw UDP round trip"));
const RATE: Option<(&str, f64, &str)> = Some(("udp_rate", 1.0, "raw UDP GSO/GRO, packets"));

const RULES: &[Rule] = &[
    rule(
        "raw UDP GSO/GRO, 4,096 B packets",
        "udp_bandwidth",
        None,
        Target::None,
    ),
    rule("TCP, qperf 64 KiB", "tcp_bandwidth", UDP, Target::None),
    rule("ib_write_bw 64 KiB", "write_64k", UDP, Target::AtLeast(0.6)),
    rule("ib_write_bw 1 MiB", "write_1m", UDP, Target::AtLeast(0.6)),
    rule("ib_write_bw 64 KiB", "write_64k", TCP, Target::AtLeast(1.0)),
    rule("ib_write_bw 1 MiB", "write_1m", TCP, Target::AtLeast(1.0)),
    rule("ib_send_bw 64 KiB", "send_64k", UDP, Target::None),
    rule("ib_send_bw 1 MiB", "send_1m", UDP, Target::None),
    rule("ib_read_bw 64 KiB", "read_64k", UDP, Target::None),
    rule("ib_read_bw 1 MiB", "read_1m", UDP, Target::None),
    rule("exs_bw 64 KiB", "exs_64k", TCP, Target::AtLeast(1.0)),
    rule("exs_bw 1 MiB", "exs_1m", TCP, Target::AtLeast(1.0)),
    rule("exs_bw 64 KiB", "exs_64k", WRITE_64K, Target::None),
    rule("exs_bw 1 MiB", "exs_1m", WRITE_1M, Target::AtLeast(0.9)),
    rule("exs_bw -o 1 MiB", "exs_1m_own", WRITE_1M, Target::None),
    rule(
        "raw UDP polled ping-pong, one way",
        "udp_latency",
        None,
        Target::None,
    ),
    rule("TCP, qperf 2 B, one way", "tcp_latency", PING, Target::None),
    rule(
        "ib_write_lat 2 B",
        "write_latency",
        PING,
        Target::AtMost(2.5),
    ),
    rule("ib_send_lat 2 B", "send_latency", PING, Target::AtMost(2.5)),
    rule("ib_read_lat 2 B", "read_latency", ROUND, Target::None),
    rule("ib_atomic_lat 8 B", "atomic_latency", ROUND, Target::None),
    rule(
        "raw UDP GSO/GRO, 20 B packets",
        "udp_rate",
        None,
        Target::None,
    ),
    rule(
        "ib_write_bw 2 B, messages",
        "write_rate",
        RATE,
        Target::None,
    ),
    rule("ib_send_bw 2 B, messages", "send_rate", RATE, Target::None),
    rule(
        "one device: ib_write_bw 64 KiB",
        "alone_write_64k",
        UDP,
        Target::None,
    ),
    rule(
        "one device: ib_write_bw 1 MiB",
        "alone_write_1m",
        UDP,
        Target::None,
    ),
    rule(
        "one device: ib_send_bw 64 KiB",
        "alone_send_64k",
        UDP,
        Target::None,
    ),
    rule(
        "one device: ib_read_bw 64 KiB",
        "alone_read_64k",
        UDP,
        Target::None,
    ),
    rule(
        "one device: exs_bw 1 MiB",
        "alone_exs_1m",
        Some(("alone_write_1m", 1.0, "one device: ib_write_bw 1 MiB")),
        Target::None,
    ),
    rule(
        "one device: ib_write_lat 2 B",
        "alone_write_latency",
        PING,
        Target::None,
    ),
    rule(
        "one device: ib_send_lat 2 B",
        "alone_send_latency",
        PING,
        Target::None,
    ),
    rule(
        "one device: ib_read_lat 2 B",
        "alone_read_latency",
        ROUND,
        Target::None,
    ),
    rule(
        "one device: ib_write_bw 2 B, messages",
        "alone_write_rate",
        RATE,
        Target::None,
    ),
    rule(
        "one device: ib_send_bw 2 B, messages",
        "alone_send_rate",
        RATE,
        Target::None,
    ),
    rule(
        "TCP, one connection on loopback",
        "tcp_connection",
        None,
        Target::None,
    ),
    rule(
        "rdma_connect, one connection",
        "cm_connection",
        Some(("tcp_connection", 1.0, "TCP connect and accept")),
        Target::None,
    ),
    rule(
        "cmtime, 2,000 connections made and ended",
        "cm_rate",
        Some(("", 5_000.0, "5,000 a second")),
        Target::AtLeast(1.0),
    ),
    rule(
        "engine alone: WRITE 64 B, a packet",
        "engine_64",
        None,
        Target::None,
    ),
    rule(
        "engine alone: WRITE 4 KiB, a packet",
        "engine_4k",
        None,
        Target::None,
    ),
    rule(
        "engine alone: WRITE 1 MiB, a packet",
        "engine_1m",
        None,
        Target::None,
    ),
    rule(
        "memory of an idle RC QP",
        "idle_qp_memory",
        Some(("", 16_384.0, "16 KiB")),
        Target::AtMost(1.0),
    ),
];

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

/// One line of the result.
pub(super) struct Comparison {
    name: &'static str,
    key: &'static str,
    value: f64,
    low: f64,
    high: f64,
    unit: &'static str,
    against: &'static str,
    ratio: Option<f64>,
    target: Target,
    /// Others kept the machine too busy to say that a target is missed.
    loaded: bool,
}

/// What others may use of all processors without a row being judged by it: 0 to 1.
pub(super) const LOADED: f64 = 0.05;

/// Applies the rules to the figures. `others`: what others used of all processors meanwhile.
pub(super) fn compare(figures: &[Figure], others: f64) -> Vec<Comparison> {
    let find = |key: &str| figures.iter().find(|figure| figure.key == key);
    RULES
        .iter()
        .filter_map(|rule| {
            let figure = find(rule.key)?;
            let ratio = rule.against.map(|(yardstick, factor, _)| {
                figure.median()
                    / find(yardstick).map_or(factor, |yardstick| yardstick.median() * factor)
            });

            Some(Comparison {
                name: rule.name,
                key: rule.key,
                value: figure.median(),
                low: figure.least(),
                high: figure.most(),
                unit: figure.unit,
                against: rule.against.map_or("", |(_, _, words)| words),
                ratio,
                target: rule.target,
                loaded: others > LOADED,
            })
        })
        .collect()
}

impl Comparison {
    fn target(&self) -> String {
        match self.target {
            Target::None => String::new(),
            Target::AtLeast(bound) => format!("≥ {bound:.2}"),
            Target::AtMost(bound) => format!("≤ {bound:.2}"),
        }
    }

    /// `None`: there is no target, or a machine that others keep busy misses it.
    fn met(&self) -> Option<bool> {
        let met = match (self.target, self.ratio) {
            (Target::AtLeast(bound), Some(ratio)) => ratio >= bound,
            (Target::AtMost(bound), Some(ratio)) => ratio <= bound,
            _ => return None,
        };
        (met || !self.loaded).then_some(met)
    }

    fn verdict(&self) -> &'static str {
        match (self.target, self.met()) {
            (Target::None, _) => "",
            (_, Some(true)) => "met",
            (_, Some(false)) => "missed",
            (_, None) => "not judged",
        }
    }
}

/// The table.
pub(super) fn render(comparisons: &[Comparison]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "measured", "median", "range", "against", "ratio", "target", "",
    ]);

    for one in comparisons {
        table.add_row([
            one.name.to_owned(),
            format!("{} {}", amount(one.value), one.unit),
            format!("{} – {}", amount(one.low), amount(one.high)),
            one.against.to_owned(),
            one.ratio
                .map(|ratio| format!("{ratio:.2}"))
                .unwrap_or_default(),
            one.target(),
            one.verdict().to_owned(),
        ]);
    }

    for column in [1, 4, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }

    table
}

/// A figure as one reads it.
pub(super) fn amount(value: f64) -> String {
    if value >= 1000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// The same for programs.
pub(super) fn json(figures: &[Figure], comparisons: &[Comparison]) -> Value {
    let figures: serde_json::Map<String, Value> = figures
        .iter()
        .map(|figure| {
            let value =
                json!({ "unit": figure.unit, "median": figure.median(), "values": figure.values });
            (figure.key.to_owned(), value)
        })
        .collect();

    let ratios: Vec<Value> = comparisons
        .iter()
        .filter(|one| one.ratio.is_some())
        .map(|one| {
            json!({
                "measured": one.name, "key": one.key, "against": one.against,
                "ratio": one.ratio, "target": one.target(), "met": one.met(),
            })
        })
        .collect();

    json!({ "figures": figures, "ratios": ratios })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(latency: f64, others: f64) -> &'static str {
        let figure = |key, value| Figure {
            key,
            unit: "us",
            values: vec![value],
        };
        let figures = [
            figure("udp_latency", 10.0),
            figure("write_latency", latency),
        ];
        let compared = compare(&figures, others);
        let row = compared.iter().find(|one| one.key == "write_latency");
        row.unwrap().verdict()
    }

    #[test]
    fn nothing_is_missed_for_others_work() {
        assert_eq!(verdict(20.0, 0.0), "met");
        assert_eq!(verdict(20.0, 0.5), "met");
        assert_eq!(verdict(40.0, 0.0), "missed");
        assert_eq!(verdict(40.0, 0.5), "not judged");
    }
}
