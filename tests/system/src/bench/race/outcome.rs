//! What came of the race. Every figure has a better direction, and what is shown is how many times
//! better than rdma_rxe ferroce is, and plain UDP would be.

use comfy_table::{Table, presets};
use serde_json::{Value, json};

use super::Lap;
use super::events::{EVENTS, Event};
use crate::bench::measure;
use crate::bench::table::{align_right, amount};

/// A lap with its event, the medians, and how many times better than rdma_rxe ferroce and plain UDP
/// are.
struct Outcome<'a> {
    event: &'static Event,
    lap: &'a Lap,
    rxe: f64,
    ferroce: f64,
    udp: Option<f64>,
}

impl Outcome<'_> {
    /// How many times better than rdma_rxe a value is.
    fn times(&self, value: f64) -> f64 {
        if self.event.rises() {
            value / self.rxe
        } else {
            self.rxe / value
        }
    }

    fn met(&self) -> bool {
        self.times(self.ferroce) >= self.event.aim
    }
}

fn results(laps: &[Lap]) -> impl Iterator<Item = Outcome<'_>> {
    laps.iter().filter_map(|lap| {
        let event = EVENTS.iter().find(|event| event.key == lap.key)?;
        let median = |values: &[Option<f64>]| {
            let values: Vec<f64> = values.iter().copied().flatten().collect();
            (!values.is_empty()).then(|| measure::median(values))
        };

        Some(Outcome {
            event,
            lap,
            rxe: median(&lap.rxe)?,
            ferroce: median(&lap.ferroce)?,
            udp: median(&lap.udp),
        })
    })
}

/// The table.
pub(in crate::bench) fn table(laps: &[Lap]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "measured",
        "rdma_rxe",
        "ferroce",
        "times better",
        "aim",
        "",
        "plain UDP",
        "times better",
    ]);

    for one in results(laps) {
        let figure = |value: f64| format!("{} {}", amount(value), one.event.unit);
        let times = |value: f64| format!("{:.2}", one.times(value));
        table.add_row([
            one.event.name.to_owned(),
            figure(one.rxe),
            figure(one.ferroce),
            times(one.ferroce),
            format!("≥ {}", one.event.aim),
            if one.met() { "met" } else { "missed" }.to_owned(),
            one.udp.map(figure).unwrap_or_default(),
            one.udp.map(times).unwrap_or_default(),
        ]);
    }

    align_right(&mut table, 1..5);
    align_right(&mut table, 6..8);

    table
}

/// The same for programs.
pub(in crate::bench) fn json(laps: &[Lap]) -> Value {
    let ratios: Vec<Value> = results(laps)
        .map(|one| {
            json!({
                "measured": one.event.name, "key": one.event.key, "unit": one.event.unit,
                "rxe": { "median": one.rxe, "values": one.lap.rxe },
                "ferroce": { "median": one.ferroce, "values": one.lap.ferroce },
                "times_better": one.times(one.ferroce), "aim": one.event.aim, "met": one.met(),
                "plain_udp": { "median": one.udp, "values": one.lap.udp,
                    "times_better": one.udp.map(|value| one.times(value)) },
            })
        })
        .collect();
    json!({ "ratios": ratios })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_bandwidth_and_less_latency_are_better() {
        let lap = |key: &str, rxe, ferroce| Lap {
            key: key.to_owned(),
            rxe: vec![Some(rxe), None],
            ferroce: vec![Some(ferroce)],
            udp: vec![Some(ferroce * 2.0)],
        };

        let mut laps = vec![
            lap("write_64k", 1.0, 3.0),
            lap("send_latency_2", 30.0, 15.0),
            lap("processor", 4.0, 8.0),
        ];
        let times: Vec<f64> = results(&laps).map(|one| one.times(one.ferroce)).collect();
        assert_eq!(times, [3.0, 2.0, 0.5]);
        let times: Vec<_> = results(&laps)
            .map(|one| one.udp.map(|udp| one.times(udp)))
            .collect();
        assert_eq!(times, [Some(6.0), Some(1.0), Some(0.25)]);
        let json = json(&laps);
        let met: Vec<_> = json["ratios"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["met"])
            .collect();
        assert_eq!(met, [false, true, false]);

        // What one of them did not finish is left out.
        laps[0].rxe.clear();
        assert_eq!(results(&laps).count(), 2);
    }
}
