//! In which order measurements are taken: all of them by turns, several rounds. The processors may
//! have been near each other for one and far for what it is compared with, in all rounds; such
//! pairs are taken again, one right after the other, until there is something to compare.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::distance::Distance;
use super::measure::{Bench, Figure};
use super::measurements::MEASUREMENTS;
use super::rules::{Rule, Target, rules};

/// How often a word goes there and back to tell how far the processors are: some milliseconds.
const LOOK: u32 = 20_000;
/// How often a pair is taken again at most.
const AGAIN: usize = 5;
/// No pair is taken again once so much time went to that.
const LONGEST: Duration = Duration::from_secs(300);

/// The measurements of one run.
pub(super) struct Rounds<'a> {
    bench: &'a Bench<'a>,
    /// As `MEASUREMENTS`.
    figures: Vec<Figure>,
    /// What a word took when it was last looked at, in nanoseconds.
    word: f64,
}

impl<'a> Rounds<'a> {
    /// Nothing is measured yet but how far the processors are.
    pub(super) fn new(bench: &'a Bench<'a>) -> Result<Rounds<'a>> {
        let figures = MEASUREMENTS.iter();
        Ok(Rounds {
            bench,
            figures: figures
                .map(|(key, unit, _)| Figure::new(key, unit))
                .collect(),
            word: bench.word(LOOK)?,
        })
    }

    /// Takes all measurements by turns, `repetitions` times, and pairs without an equal distance
    /// again.
    pub(super) fn run(mut self, repetitions: usize) -> Result<Vec<Figure>> {
        for round in 1..=repetitions {
            for index in 0..MEASUREMENTS.len() {
                self.take(index, &format!("round {round}"))?;
            }
        }
        self.again()?;

        let mut memory = Figure::new("idle_qp_memory", "bytes");
        let idle = "bytes per idle RC QP: ";
        let idle = self.bench.program("many", "idle_memory", idle)?;
        memory.values.push(idle);
        self.figures.push(memory);
        Ok(self.figures)
    }

    /// Takes what is judged and was never measured as its yardstick was.
    fn again(&mut self) -> Result<()> {
        let begun = Instant::now();
        for [figure, yardstick] in rules().filter_map(judged) {
            for _ in 0..AGAIN {
                let pair = [figure, yardstick].map(|index| &self.figures[index]);
                if !pair[0].beside(pair[1]).is_empty() || begun.elapsed() > LONGEST {
                    break;
                }
                self.take(yardstick, "again  ")?;
                self.take(figure, "again  ")?;
            }
        }
        Ok(())
    }

    fn take(&mut self, index: usize, turn: &str) -> Result<()> {
        let (key, unit, measure) = MEASUREMENTS[index];
        let value = measure(self.bench).with_context(|| format!("measuring {key}"))?;
        let after = self.bench.word(LOOK)?;
        let distance = Distance::during(self.word, after);
        self.word = after;

        let said = distance.map_or("", Distance::key);
        println!("{turn}  {key:<16} {value:>10.3} {unit:<5} {said}");
        let figure = &mut self.figures[index];
        figure.values.push(value);
        figure.distances.push(distance);
        Ok(())
    }
}

/// Where in `MEASUREMENTS` the figure and the yardstick of a rule that has a target are.
fn judged(rule: &Rule) -> Option<[usize; 2]> {
    let (yardstick, ..) = rule.against?;
    let place = |key| MEASUREMENTS.iter().position(|(of, ..)| *of == key);
    match rule.target {
        Target::None => None,
        _ => Some([place(rule.key)?, place(yardstick)?]),
    }
}
