//! What is compared by the rules, and how it is shown.

use std::fmt::{self, Display, Formatter};

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use super::distance::Distance;
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
    ratio: Option<Ratio>,
    target: Target,
    /// Others kept the machine too busy to say that a target is missed.
    loaded: bool,
}

/// How a figure is to its yardstick.
#[derive(Clone, Debug, PartialEq)]
struct Ratio {
    /// Of the medians of all that was measured.
    whole: f64,
    /// Of those with the processors at one distance, where either was measured so at least twice.
    at: Vec<(Distance, f64)>,
    /// The yardstick is a number, which is the same at any distance.
    of_number: bool,
}

/// What others may use of all processors without a row being judged by it: 0 to 1.
pub(super) const LOADED: f64 = 0.05;

/// Applies the rules to the figures. `others`: what others used of all processors meanwhile.
pub(super) fn compare(figures: &[Figure], others: f64) -> Vec<Comparison> {
    let find = |key: &str| figures.iter().find(|figure| figure.key == key);
    rules()
        .filter_map(|rule| {
            let figure = find(rule.key)?;
            let ratio = rule
                .against
                .map(|(yardstick, factor, _)| Ratio::new(figure, find(yardstick), factor));

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

impl Ratio {
    /// Of a figure to so many of a yardstick; without one the factor is what it is measured by.
    fn new(figure: &Figure, yardstick: Option<&Figure>, factor: f64) -> Self {
        let Some(yardstick) = yardstick else {
            return Self {
                whole: figure.median() / factor,
                at: Vec::new(),
                of_number: true,
            };
        };

        let at = figure.beside(yardstick).into_iter();
        Self {
            whole: figure.median() / (yardstick.median() * factor),
            at: at
                .map(|(distance, [own, its])| (distance, own / (its * factor)))
                .collect(),
            of_number: false,
        }
    }

    /// What is judged; nothing where there is a yardstick and nothing of equal distances, as the
    /// medians of all may be of one distance here and of the other there.
    fn judged(&self) -> Vec<f64> {
        match self.of_number {
            true => vec![self.whole],
            false => self.at.iter().map(|(_, ratio)| *ratio).collect(),
        }
    }
}

impl Display for Ratio {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.of_number {
            return write!(f, "{:.2}", self.whole);
        }
        if self.at.is_empty() {
            return write!(f, "{:.2} mixed", self.whole);
        }
        let at = self.at.iter().map(|(at, ratio)| format!("{ratio:.2} {at}"));
        f.write_str(&at.collect::<Vec<_>>().join(", "))
    }
}

impl Comparison {
    fn target(&self) -> String {
        match self.target {
            Target::None => String::new(),
            Target::AtLeast(bound) => format!("≥ {bound:.2}"),
            Target::AtMost(bound) => format!("≤ {bound:.2}"),
        }
    }

    /// `None`: there is no target, nothing to judge by, or a machine that is busy misses it.
    fn met(&self) -> Option<bool> {
        let judged = self.ratio.as_ref()?.judged();
        if judged.is_empty() {
            return None;
        }

        let met = judged.into_iter().all(|ratio| match self.target {
            Target::AtLeast(bound) => ratio >= bound,
            Target::AtMost(bound) => ratio <= bound,
            Target::None => true,
        });
        let has_target = !matches!(self.target, Target::None);
        (has_target && (met || !self.loaded)).then_some(met)
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
            one.ratio.as_ref().map(Ratio::to_string).unwrap_or_default(),
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
            let distances = figure.distances.iter().map(|at| at.map(Distance::key));
            let value = json!({
                "unit": figure.unit, "median": figure.median(), "values": figure.values,
                "distances": distances.collect::<Vec<_>>(),
            });
            (figure.key.to_owned(), value)
        })
        .collect();

    let ratios: Vec<Value> = comparisons
        .iter()
        .filter_map(|one| {
            let ratio = one.ratio.as_ref()?;
            let mut row = json!({
                "measured": one.name, "key": one.key, "against": one.against,
                "ratio": ratio.whole, "target": one.target(), "met": one.met(),
            });
            for (distance, ratio) in &ratio.at {
                row[distance.key()] = json!(ratio);
            }
            Some(row)
        })
        .collect();

    json!({ "figures": figures, "ratios": ratios })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values, each with what a word took meanwhile.
    fn figure(key: &'static str, values: &[(f64, f64)]) -> Figure {
        let mut figure = Figure::new(key, "us");
        for (value, word) in values {
            figure.values.push(*value);
            figure.distances.push(Distance::during(*word, *word));
        }
        figure
    }

    /// How the row of WRITE's latency ends: ratio and verdict.
    fn row(udp: &[(f64, f64)], write: &[(f64, f64)], others: f64) -> (String, &'static str) {
        let figures = [figure("udp_latency", udp), figure("write_latency", write)];
        let compared = compare(&figures, others);
        let mut rows = compared.iter();
        let row = rows.find(|one| one.key == "write_latency").unwrap();
        (row.ratio.as_ref().unwrap().to_string(), row.verdict())
    }

    fn verdict(latency: f64, others: f64) -> &'static str {
        row(&[(10.0, 100.0); 2], &[(latency, 100.0); 2], others).1
    }

    #[test]
    fn what_is_compared_was_measured_at_the_same_distance() {
        // Mostly far here and mostly near there: the medians alone say 2.
        let udp = [
            (10.0, 90.0),
            (10.0, 90.0),
            (10.0, 90.0),
            (18.0, 400.0),
            (18.0, 400.0),
        ];
        let write = [
            (12.0, 90.0),
            (12.0, 90.0),
            (20.0, 400.0),
            (20.0, 400.0),
            (20.0, 400.0),
        ];
        let same = ("1.20 near, 1.11 far".to_owned(), "met");
        assert_eq!(row(&udp, &write, 0.0), same);
        // One that is missed at either distance is missed.
        let slow = [(15.0, 90.0), (15.0, 90.0), (20.0, 400.0), (20.0, 400.0)];
        let missed = ("1.50 near, 1.11 far".to_owned(), "missed");
        assert_eq!(row(&udp, &slow, 0.0), missed);
        // Without enough of the same there are the medians, by which nothing is judged.
        let few = [(12.0, 90.0), (20.0, 400.0), (20.0, 400.0)];
        let mixed = ("2.00 mixed".to_owned(), "not judged");
        assert_eq!(row(&udp[..3], &few, 0.0), mixed);
    }

    #[test]
    fn nothing_is_missed_for_others_work() {
        assert_eq!(verdict(12.0, 0.0), "met");
        assert_eq!(verdict(12.0, 0.5), "met");
        assert_eq!(verdict(40.0, 0.0), "missed");
        assert_eq!(verdict(40.0, 0.5), "not judged");
    }
}
