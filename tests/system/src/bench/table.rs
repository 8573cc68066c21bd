//! What is compared by the rules, and how it is shown.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use super::measure::Figure;
use super::rules::{Target, rules};

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
    rules()
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

    align_right(&mut table, [1, 4, 5]);

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

/// Aligns columns of figures to the right.
pub(super) fn align_right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
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
        assert_eq!(verdict(12.0, 0.0), "met");
        assert_eq!(verdict(12.0, 0.5), "met");
        assert_eq!(verdict(40.0, 0.0), "missed");
        assert_eq!(verdict(40.0, 0.5), "not judged");
    }
}
