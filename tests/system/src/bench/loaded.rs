//! `cargo xtask bench --loaded`: how much longer perftest takes while strangers keep the processors
//! busy.
//!
//! Six programs that never sleep (or as many as told), at the tests' own priority, beside each
//! program of perftest on one device, over sockets, between two daemons and over veth, with the
//! sizes and iterations that `cargo xtask test` has; by turns with them and without, several
//! rounds. The time is the client's from its start to its end, and what counts is the ratio of the
//! medians. With `--own-iterations` on one device only, with as many iterations as perftest takes
//! by itself, which is minutes for each program.
//!
//! Two threads that hand a word of memory to each other, as often as `ib_write_lat` hands messages
//! over, show what the scheduler alone makes of programs that wait by looking at memory: what
//! misses the aim by no more than that misses it on any device.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::baseline::udp_baseline;
use super::measure::Figure;
use crate::build;
use crate::harness::case::Stop;
use crate::harness::process::{self, Running};
use crate::lab::host::Host;
use crate::lab::{Place, Site};
use crate::packages;
use crate::programs::perftest::Pair;

/// Programs that never sleep, unless told otherwise.
pub const STRANGERS: usize = 6;
/// What a test may take with them, as a multiple of what it takes without.
const AIM: f64 = 5.0;
/// For one run: more than the aim leaves to the longest.
const LIMIT: Duration = Duration::from_secs(180);
const PORT: u16 = 19_907;
const ROUNDS: usize = 3;
/// Messages that the word is handed over for: 23 sizes, 100 iterations of each.
const HANDED_OVER: &str = "2300";
/// Iterations that perftest's latencies take by themselves, of those hundred.
const OWN_LATENCIES: f64 = 1000.0 / 100.0;
const PLACES: [Place; 4] = [
    Place::OneDaemon,
    Place::Sockets,
    Place::TwoDaemons,
    Place::Veth(1500),
];
/// A program of perftest, with its options.
type Test = (&'static str, &'static [&'static str]);
/// The programs, with what the tests give them, and for perftest's own number of iterations.
const TESTS: [(&str, &[&str], &[&str]); 8] = [
    ("ib_send_bw", ALL_SIZES, &["-a"]),
    ("ib_send_lat", ALL_SIZES_IN_CYCLES, &["-a"]),
    ("ib_write_bw", ALL_SIZES, &["-a"]),
    (SPINS, ALL_SIZES_IN_CYCLES, &["-a"]),
    ("ib_read_bw", ALL_SIZES, &["-a"]),
    ("ib_read_lat", ALL_SIZES_IN_CYCLES, &["-a"]),
    ("ib_atomic_bw", ONE_SIZE, &[]),
    ("ib_atomic_lat", ONE_SIZE, &[]),
];
const ALL_SIZES: &[&str] = &["-a", "-n", "100"];
/// Half as much of the clock, which perftest measures alone as slowly as beside others.
const ALL_SIZES_IN_CYCLES: &[&str] = &["-a", "-n", "100", "-C"];
const ONE_SIZE: &[&str] = &["-n", "1000"];
/// The one whose ends look at memory until it changes.
const SPINS: &str = "ib_write_lat";

/// What is measured, and beside how many.
pub struct Scope<'a> {
    /// One round.
    pub quick: bool,
    /// This program of perftest.
    pub only: Option<&'a str>,
    /// So many programs that never sleep.
    pub strangers: usize,
    /// As many iterations as perftest takes by itself, on one device.
    pub own_iterations: bool,
}

/// Measures and prints; answers whether no test misses the aim by more than the scheduler's part.
pub fn run(scope: &Scope<'_>) -> Result<bool> {
    let (places, latencies) = match scope.own_iterations {
        true => (&PLACES[..1], OWN_LATENCIES),
        false => (&PLACES[..], 1.0),
    };
    let tests = chosen(scope)?;
    packages::ensure(packages::BENCH)?;
    build::packages(&["ferroce-baseline"])?;
    let programs = build::product()?;
    let (rounds, strangers) = (if scope.quick { 1 } else { ROUNDS }, scope.strangers);
    println!("xtask: {rounds} rounds; please leave the machine alone");
    let word = times(rounds, strangers, || word(&programs).map(Some))?;
    println!(
        "a word of memory, there and back {HANDED_OVER} times: alone {:.3} s, beside {strangers} others {:.2} s",
        word.alone.median(),
        word.beside.median()
    );

    let mut all_met = true;
    for &place in places {
        let site = match Site::new(place, &programs) {
            Err(Stop::Skip(why)) => {
                println!("{:<19} not measured: {why}", place.name());
                continue;
            }
            site => site.map_err(Stop::into_error)?,
        };
        let (server, client) = (site.server(), site.client());
        for &(tool, options) in &tests {
            let times = times(rounds, strangers, || seconds(tool, options, server, client))?;
            let floor = if tool == SPINS {
                word.beside.median() * latencies
            } else {
                0.0
            };
            let verdict = judge(times.alone.median(), times.beside.median(), floor);
            all_met &= verdict != Verdict::Missed;
            println!("{}", line(place, tool, options, strangers, &times, verdict));
        }
    }

    Ok(all_met)
}

fn chosen(scope: &Scope<'_>) -> Result<Vec<Test>> {
    let mut tests = TESTS
        .map(|(tool, given, own)| match scope.own_iterations {
            true => (tool, own),
            false => (tool, given),
        })
        .to_vec();
    if let Some(only) = scope.only {
        tests.retain(|(tool, _)| *tool == only);
        if tests.is_empty() {
            let all = TESTS.map(|(tool, ..)| tool);
            bail!("{only} is not measured; there are: {}", all.join(", "));
        }
    }
    Ok(tests)
}

/// Seconds of each round: alone, and beside the strangers. Infinite: it had not ended after
/// [`LIMIT`].
struct Times {
    alone: Figure,
    beside: Figure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Met,
    /// But for the time for which the word is handed over.
    MetButForTheScheduler,
    Missed,
}

/// Of medians. `floor`: seconds that the scheduler takes for it on any device.
fn judge(alone: f64, beside: f64, floor: f64) -> Verdict {
    let limit = AIM * alone;
    // Neither is met by what did not end at all.
    match beside {
        beside if beside.is_infinite() => Verdict::Missed,
        beside if beside <= limit => Verdict::Met,
        beside if beside - floor <= limit => Verdict::MetButForTheScheduler,
        _ => Verdict::Missed,
    }
}

fn line(
    place: Place,
    tool: &str,
    options: &[&str],
    strangers: usize,
    times: &Times,
    verdict: Verdict,
) -> String {
    let said = |times: &Figure| match times.median() {
        median if median.is_infinite() => format!("over {} s", LIMIT.as_secs()),
        median if times.values.len() == 1 => format!("{median:.2} s"),
        median => format!(
            "{median:.2} s ({:.2} to {:.2})",
            times.least(),
            times.most()
        ),
    };

    let ratio = times.beside.median() / times.alone.median();
    let ratio = match ratio.is_finite() {
        true => format!("{ratio:.1}"),
        false => "no ratio".to_owned(),
    };

    let verdict = match verdict {
        Verdict::Met => "met",
        Verdict::MetButForTheScheduler => "met but for what the word takes",
        Verdict::Missed => "missed",
    };

    format!(
        "{:<19} {tool:<14} {:<12}  alone {:<9}  beside {strangers} others {:<9}  {ratio} (at most {AIM}: {verdict})",
        place.name(),
        options.join(" "),
        said(&times.alone),
        said(&times.beside)
    )
}

/// By turns alone and beside the strangers. `None` of a measurement: it did not end.
fn times(
    rounds: usize,
    strangers: usize,
    measure: impl Fn() -> Result<Option<f64>>,
) -> Result<Times> {
    let mut times = Times {
        alone: Figure::new("alone", "s"),
        beside: Figure::new("beside", "s"),
    };
    for _ in 0..rounds {
        times.alone.values.push(measure()?.unwrap_or(f64::INFINITY));
        let others = begin_strangers(strangers)?;
        let measured = measure();
        for other in others {
            other.kill();
        }
        times.beside.values.push(measured?.unwrap_or(f64::INFINITY));
    }

    Ok(times)
}

/// Seconds for the word of memory between two threads that look at it until it comes.
fn word(programs: &Path) -> Result<f64> {
    let mut command = udp_baseline(programs);
    command.args(["word", "--rounds", HANDED_OVER]);
    let ran = process::run(command, &build::scratch("loaded")?, "word", LIMIT)?;
    let each: f64 = ran.out.trim().parse().context(ran.ending())?;
    Ok(each * HANDED_OVER.parse::<f64>()? / 1e6)
}

fn begin_strangers(count: usize) -> Result<Vec<Running>> {
    let dir = build::scratch("loaded")?;
    let one = |number| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "while :; do :; done"]);
        process::spawn(shell, &dir, &format!("stranger-{number}"))
    };
    (0..count).map(one).collect()
}

fn seconds(tool: &str, options: &[&str], server: &Host, client: &Host) -> Result<Option<f64>> {
    let pair = Pair {
        tool: tool.to_owned(),
        options: ["-F"]
            .iter()
            .chain(options)
            .map(|&word| word.to_owned())
            .collect(),
        port: PORT,
        limit: LIMIT,
    };

    let ends = pair
        .run(server, client, &build::scratch("loaded")?)
        .map_err(Stop::into_error)?;
    if ends.client.elapsed >= LIMIT {
        return Ok(None);
    }
    if !ends.client.success() {
        bail!("{tool}: {}", ends.client.ending());
    }

    Ok(Some(ends.client.elapsed.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_aim_is_a_multiple_of_the_time_alone() {
        assert_eq!(judge(1.0, 5.0, 0.0), Verdict::Met);
        assert_eq!(judge(1.0, 5.1, 0.0), Verdict::Missed);
        assert_eq!(judge(1.0, 5.1, 0.2), Verdict::MetButForTheScheduler);
        assert_eq!(judge(1.0, 9.0, 0.2), Verdict::Missed);
        assert_eq!(judge(1.0, f64::INFINITY, 1e9), Verdict::Missed);
        assert_eq!(judge(f64::INFINITY, f64::INFINITY, 0.0), Verdict::Missed);
    }
}
