//! `ferroce metrics`: what there is and what is counted, in OpenMetrics' text, for Prometheus and
//! others that read it.

mod families;
mod server;

use std::fmt;
use std::net::SocketAddr;
use std::process::ExitCode;

use ferroce_control::{Client, ControlError, RuntimeDir};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::error::Error;
use crate::ports;
use crate::show;
use families::{Family, Kind};

/// Prints them once, or answers who asks for them until it is ended.
pub(crate) fn metrics(dir: &RuntimeDir, listen: Option<SocketAddr>) -> Result<ExitCode, Error> {
    match listen {
        None => show::print(exposition(of_daemon(dir)?)),
        Some(address) => server::serve(address, || scraped(dir)),
    }
}

/// For who asks again and again: that there is no daemon is an answer, too.
fn scraped(dir: &RuntimeDir) -> Result<String, Error> {
    match of_daemon(dir) {
        Err(Error::Control(ControlError::NotRunning { .. })) => {
            Ok(exposition(Snapshot(vec![families::up(false)])))
        }
        snapshot => Ok(exposition(snapshot?)),
    }
}

/// As of now, but for the ports' counters, which the daemon writes down once a second.
fn of_daemon(dir: &RuntimeDir) -> Result<Snapshot, Error> {
    let status = Client::connect(dir)?.status()?;
    let mut ports = ports::all(dir, &status.device.name)?;
    ports.retain(|port| port.ours);

    let mut all = vec![families::up(true)];
    all.extend(families::of_status(&status));
    all.extend(families::of_ports(dir, &ports));
    Ok(Snapshot(all))
}

/// What is exposed, in this order.
#[derive(Debug)]
struct Snapshot(Vec<Family>);

/// The text, up to its `# EOF`.
fn exposition(snapshot: Snapshot) -> String {
    let mut registry = Registry::with_prefix("ferroce");
    registry.register_collector(Box::new(snapshot));

    let mut text = String::new();
    text::encode(&mut text, &registry).expect("a string takes all that is written to it");
    text
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in &self.0 {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut rows = encoder.encode_descriptor(&family.name, &family.help, None, kind)?;

            for (labels, value) in &family.rows {
                let row = rows.encode_family(labels)?;
                match family.kind {
                    Kind::Counter => ConstCounter::new(*value).encode(row)?,
                    Kind::Gauge => ConstGauge::new(*value as f64).encode(row)?,
                }
            }
        }

        Ok(())
    }
}
