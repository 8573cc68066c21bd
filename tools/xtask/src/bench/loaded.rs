//! `cargo xtask bench --loaded`: how much longer perftest takes while strangers keep the processors busy.
//!
//! Six programs that never sleep, at the tests' own priority, beside each test on one device, over sockets and between two daemons;
//! each test once with them and once without, all sizes as `cargo xtask test` runs them, and on one device with perftest's own number of
//! iterations too. The time is the client's from its start to its end. Two threads that hand a word of memory to each
//! other show what the scheduler alone makes of programs that wait by polling memory, as `ib_write_lat` does.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::build;
use crate::case::Stop;
use crate::host::Host;
use crate::packages;
use crate::perftest::Pair;
use crate::process::{self, Running};

/// Programs that never sleep.
const STRANGERS: usize = 6;
/// What a test may take with them, as a multiple of what it takes without.
const AIM: f64 = 5.0;
/// For one run.
const LIMIT: Duration = Duration::from_secs(180);
const PORT: u16 = 19_907;
const TESTS: [&str; 4] = ["ib_send_lat", "ib_write_lat", "ib_read_lat", "ib_write_bw"];
/// All sizes, as the tests run them.
const TESTED: &[&str] = &["-a", "-n", "100"];
/// All sizes with as many iterations as perftest takes by itself.
const UNTOLD: &[&str] = &["-a"];

/// Measures and prints; a test that misses the aim is a figure and no failure.
pub fn run() -> Result<()> {
    packages::ensure(packages::BENCH)?;
    build::packages(&["ferroce-baseline"])?;
    let programs = build::product()?;
    let mut device = Host::new(&programs, "127.0.0.2", None)?;
    let mut socket = Host::new(&programs, "127.0.0.1", None)?.without_loopback();
    let mut other = Host::new(&programs, "127.0.0.3", None)?.without_loopback();
    for host in [&mut device, &mut socket, &mut other] {
        host.up()?;
    }
    let places = [
        ("one device", &device, &device),
        ("sockets", &socket, &socket),
        ("two daemons", &socket, &other),
    ];
    let (alone, beside) = both(|| word(&programs))?;
    println!(
        "a word of memory, there and back: alone {alone:.2} us, beside {STRANGERS} others {beside:.0} us"
    );
    let tested = places.map(|place| (place, TESTED));
    for ((place, server, client), options) in tested.into_iter().chain([(places[0], UNTOLD)]) {
        for tool in TESTS {
            let (alone, beside) = both(|| seconds(tool, options, server, client))?;
            println!("{}", line(place, tool, options, alone, beside));
        }
    }
    for host in [&mut device, &mut socket, &mut other] {
        host.down()?;
    }
    Ok(())
}

/// `None`: it had not ended after [`LIMIT`].
fn line(
    place: &str,
    tool: &str,
    options: &[&str],
    alone: Option<f64>,
    beside: Option<f64>,
) -> String {
    let limit = LIMIT.as_secs();
    let said = |time: Option<f64>| match time {
        Some(time) => format!("{time:.2} s"),
        None => format!("over {limit} s"),
    };
    let verdict = match (alone, beside) {
        (Some(alone), Some(beside)) => {
            let ratio = beside / alone;
            let met = if ratio <= AIM { "met" } else { "missed" };
            format!("{ratio:.1} (at most {AIM}: {met})")
        }
        _ => "no ratio".to_owned(),
    };
    format!(
        "{place:<11}  {tool:<12} {:<9}  alone {:<9}  beside {STRANGERS} others {:<9}  {verdict}",
        options.join(" "),
        said(alone),
        said(beside)
    )
}

/// A measurement alone, and beside the strangers.
fn both<T>(measure: impl Fn() -> Result<T>) -> Result<(T, T)> {
    let alone = measure()?;
    let strangers = begin_strangers()?;
    let beside = measure();
    for stranger in strangers {
        stranger.kill();
    }
    Ok((alone, beside?))
}

/// Microseconds of a word of memory there and back between two threads that look at it until it comes.
fn word(programs: &Path) -> Result<f64> {
    let mut command = Command::new(programs.join("udp-baseline"));
    command.arg("word");
    let ran = process::run(command, &build::scratch("loaded")?, "word", LIMIT)?;
    ran.out.trim().parse().context(ran.ending())
}

fn begin_strangers() -> Result<Vec<Running>> {
    let dir = build::scratch("loaded")?;
    let one = |number| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "while :; do :; done"]);
        process::spawn(shell, &dir, &format!("stranger-{number}"))
    };
    (0..STRANGERS).map(one).collect()
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
