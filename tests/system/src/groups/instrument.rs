//! Group `instrument`: what ferroce shows of itself, as others' programs read it, and what it does
//! on command.

mod capture;
mod direct;
mod faults;
mod python;
mod replay;
mod top;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use crate::build;
use crate::groups::cm;
use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process;
use crate::lab::host::Host;
use crate::lab::{Lab, Place};
use crate::packages::PYTHON;

const LIMIT: Duration = Duration::from_secs(30);

/// Reads OpenMetrics from a file or an address with Prometheus' own parser, which is strict, and
/// prints the samples as JSON.
const READ: &str = "
import json, sys, urllib.request
from prometheus_client.openmetrics.parser import text_string_to_metric_families
where = sys.argv[1]
if where.startswith('http://'):
    with urllib.request.urlopen(where, timeout=10) as answer:
        assert answer.headers['Content-Type'].startswith('application/openmetrics-text'), answer.headers
        text = answer.read().decode()
else:
    text = open(where).read()
samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
print(json.dumps([[s.name, s.labels, s.value] for s in samples]))
";

pub(crate) fn cases() -> Vec<Case> {
    let metrics = [
        Case::new("instrument/metrics of a transfer", transfer),
        Case::new("instrument/metrics over HTTP", over_http),
        Case::new("instrument/Grafana's board", board),
    ];
    metrics
        .into_iter()
        .chain(faults::cases())
        .chain(capture::cases())
        .chain(replay::cases())
        .chain(top::cases())
        .chain(python::cases())
        .chain(direct::cases())
        .collect()
}

/// Samples by name and labels, sorted.
type Samples = HashMap<(String, Vec<(String, String)>), f64>;

/// What the parser makes of a file or an address.
fn read(dir: &Path, source: &str) -> Result<Samples, Stop> {
    let mut command = Command::new(PYTHON);
    command.args(["-c", READ, source]);
    let finished = process::run(command, dir, "parser", LIMIT)?;
    let list: Vec<(String, HashMap<String, String>, f64)> = serde_json::from_str(&finished.out)
        .map_err(|error| Stop::with(format!("no OpenMetrics: {error}"), &[&finished]))?;

    let sorted = |labels: HashMap<String, String>| {
        let mut labels: Vec<_> = labels.into_iter().collect();
        labels.sort();
        labels
    };
    let samples = list
        .into_iter()
        .map(|(name, labels, value)| ((name, sorted(labels)), value));
    Ok(samples.collect())
}

/// What `ferroce metrics` prints on a host.
fn printed(host: &Host, dir: &Path) -> Result<Samples, Stop> {
    let mut command = host.ferroce();
    command.arg("metrics");
    let finished = process::run(command, dir, "metrics", LIMIT)?;
    if !finished.success() {
        return Err(Stop::with("no metrics", &[&finished]));
    }

    let file = dir.join("metrics.txt");
    fs::write(&file, &finished.out).context("metrics.txt")?;
    read(dir, &file.to_string_lossy())
}

/// One sample, whose labels are the device and those that are given.
fn sample(samples: &Samples, name: &str, labels: &[(&str, &str)]) -> Result<f64, Stop> {
    let mut labels: Vec<_> = [("device", "ferroce0")]
        .iter()
        .chain(labels)
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    labels.sort();

    let key = (name.to_owned(), labels);
    let found = samples.get(&key).copied();
    found.ok_or_else(|| Stop::fail(format!("no sample {key:?}")))
}

/// The counters grow by what a transfer is, the same as in `status`, and what is in use is shown.
fn transfer(lab: &mut Lab) -> Ending {
    const MESSAGES: f64 = 500.0;
    const SIZE: f64 = 65_536.0;

    let dir = lab.case_dir()?;
    let port = lab.port();
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    let before = printed(host, &dir)?;

    // By rdma_cm, so that its messages are counted, too.
    let transfer = cm::perftest("ib_write_bw -n 500");
    cm::exchange(host, site.client(), &transfer, port, &dir)?;

    let after = printed(host, &dir)?;
    for (name, least) in [
        ("ferroce_rx_write_requests_total", MESSAGES),
        ("ferroce_rcvd_bytes_total", MESSAGES * SIZE),
        ("ferroce_sent_bytes_total", MESSAGES * SIZE),
    ] {
        let grown = sample(&after, name, &[])? - sample(&before, name, &[])?;
        // A header and more for each packet, and answers.
        if grown < least || grown > 1.5 * least {
            return Err(Stop::fail(format!("{name} grew by {grown}, not {least}")));
        }
    }

    // The connection's ends may still say farewell, a second time if the first took long.
    let begun = Instant::now();
    while let Err(stop) = agrees_with_status(host, &printed(host, &dir)?) {
        if begun.elapsed() > LIMIT {
            return Err(stop);
        }
    }
    sample(&after, "ferroce_cm_tx_msgs_total", &[("message", "req")])?;
    let active = [("port", "1"), ("link_layer", "Ethernet")];
    match sample(&after, "ferroce_port_active", &active)? {
        1.0 => Ok(()),
        state => Err(Stop::fail(format!("ferroce_port_active is {state}"))),
    }
}

/// No counter of `status` is missing, and none has another value, unless somebody is at work.
fn agrees_with_status(host: &Host, samples: &Samples) -> Ending {
    let status = host.status()?;
    let counters = status["counters"].as_object().context("no counters")?;
    for (name, value) in counters {
        let value = value.as_f64().context("a counter without a value")?;
        let shown = match name.split_once('/') {
            None => sample(samples, &format!("ferroce_{name}_total"), &[])?,
            Some((name, message)) => {
                let labels = [("message", message)];
                sample(samples, &format!("ferroce_{name}_total"), &labels)?
            }
        };
        if shown != value {
            return Err(Stop::fail(format!("{name} is {shown}, {value} in status")));
        }
    }

    let version = status["version"].as_str().unwrap_or_default();
    sample(samples, "ferroce_build_info", &[("version", version)]).map(drop)
}

/// Prometheus' way: asked again and again, also when the daemon has gone; other paths and methods
/// are refused.
fn over_http(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.4", None)?;
    host.up()?;
    let mut command = host.ferroce();
    command.args(["metrics", "--listen", "127.0.0.1:0"]);
    let mut server = process::spawn(command, &dir, "server")?;

    if !server.wait_until(LIMIT, |server| server.output().contains('\n')) {
        return Err(Stop::with("no address is printed", &[&server.kill()]));
    }

    let address = server.output().trim().to_owned();
    let asked = asked_twice(&mut host, &dir, &address).and_then(|()| refused(&dir, &address));
    server.kill();
    asked
}

/// With a daemon, and when it has gone.
fn asked_twice(host: &mut Host, dir: &Path, address: &str) -> Ending {
    let up = ("ferroce_up".to_owned(), Vec::new());
    let there = read(dir, address)?;
    if there.get(&up) != Some(&1.0) || there.len() == 1 {
        return Err(Stop::fail(format!("with a daemon: {there:?}")));
    }

    host.down()?;
    let gone = read(dir, address)?;
    match gone == HashMap::from([(up, 0.0)]) {
        true => Ok(()),
        false => Err(Stop::fail(format!("without a daemon: {gone:?}"))),
    }
}

/// What is no request for the metrics gets the status that says so.
fn refused(dir: &Path, address: &str) -> Ending {
    const ASK: &str = "
import sys, urllib.request, urllib.error
for path, data, status in (('', None, 404), ('/metrics', b'x', 405)):
    try:
        urllib.request.urlopen(sys.argv[1] + path, data, timeout=10)
        sys.exit('answered: ' + path)
    except urllib.error.HTTPError as error:
        assert error.code == status, (path, error.code)
";
    let root = address.trim_end_matches("/metrics");
    let mut command = Command::new(PYTHON);
    command.args(["-c", ASK, root]);
    let finished = process::run(command, dir, "refused", LIMIT)?;
    match finished.success() {
        true => Ok(()),
        false => Err(Stop::with("not refused", &[&finished])),
    }
}

/// The board in the repository shows metrics that there are: a name that is mistyped is an empty
/// picture. Grafana itself is not packaged where the tests run.
fn board(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let file = build::workspace().join("deploy/grafana/ferroce.json");
    let text = fs::read_to_string(file).context("the board")?;
    let board: Value = serde_json::from_str(&text).context("the board")?;
    let panels = board["panels"].as_array().context("no panels")?;
    let expressions: Vec<&str> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
        .filter_map(|target| target["expr"].as_str())
        .collect();

    let host = lab.site(Place::OneDaemon)?.server();
    let samples = printed(host, &dir)?;
    let missing: Vec<&str> = expressions
        .iter()
        .flat_map(|expression| names(expression))
        .filter(|name| !samples.keys().any(|(known, _)| known == name))
        .collect();
    match missing.is_empty() && expressions.len() > panels.len() {
        true => Ok(()),
        false => Err(Stop::fail(format!(
            "not exposed: {missing:?}; {expressions:?}"
        ))),
    }
}

/// The metrics that an expression of Prometheus' names.
fn names(expression: &str) -> impl Iterator<Item = &str> {
    expression
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("ferroce_"))
}
