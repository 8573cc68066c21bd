//! One run: a server on one side, a client on the other, and how both ended. Which of the ways to
//! run two ends a program takes.

use std::path::Path;

use super::connected::{connected, exchange, multicast};
use super::cprograms;
use super::exs;
use super::failing::{Unanswered, client_killed, fio_sends, iperf3_stops, nobody_listens};
use super::field::Field;
use super::pairs::{perftest, pingpong};
use super::programs::Program;
use super::setting::Setting;
use crate::harness::case::Ending;

/// Runs a program in a setting. One that is several tests answers one by one.
pub(super) fn run(
    field: &Field,
    program: Program,
    setting: &Setting,
    port: u16,
    dir: &Path,
) -> Vec<(String, Ending)> {
    let name = program.name();
    let one = |ending| vec![(name.clone(), ending)];
    match program {
        Program::Perftest(line) => one(perftest(field, setting, line, port, dir)),
        Program::Connected(line) => one(connected(field, setting, line, port, dir)),
        Program::Pingpong(line) => one(pingpong(field, setting, line, port, dir)),
        Program::Stock(stock) => one(exchange(field, setting, stock, port, dir)),
        Program::Multicast(count) => one(multicast(field, setting, count, dir)),
        Program::NobodyListens => one(nobody_listens(field, setting, port, dir)),
        Program::NobodyAnswers => {
            one(Unanswered::begin(field, setting, dir).and_then(Unanswered::end))
        }
        Program::ClientKilled => one(client_killed(field, setting, port, dir)),
        Program::Iperf3Stops => one(iperf3_stops(field, setting, port, dir)),
        Program::FioSends => one(fio_sends(field, setting, port, dir)),
        Program::Exs(program, mode, ends) => {
            match exs::run(field, setting, (program, mode, ends), port, dir) {
                Ok(endings) => endings
                    .into_iter()
                    .map(|(test, ending)| (format!("{name}: {test}"), ending))
                    .collect(),
                Err(stop) => one(Err(stop)),
            }
        }
        Program::C(program, choice) => match cprograms::run(field, setting, program, choice, dir) {
            Ok(endings) => endings
                .into_iter()
                .map(|(test, ending)| (format!("{name}: {test}"), ending))
                .collect(),
            Err(stop) => one(Err(stop)),
        },
    }
}
