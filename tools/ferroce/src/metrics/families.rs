//! Which metrics there are. Their names begin with `ferroce_`, which is put before them later, and
//! those of counters end in `_total`, likewise.

use std::collections::BTreeMap;

use ferroce_control::{Counter, RuntimeDir, Status};

use crate::ports::{self, Port};

/// Metrics of one name.
#[derive(Debug)]
pub(super) struct Family {
    pub name: String,
    /// A sentence without its full stop.
    pub help: String,
    pub kind: Kind,
    /// Labels, and the value.
    pub rows: Vec<(Labels, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Grows, and begins at 0 again at times.
    Counter,
    Gauge,
}

pub(super) type Labels = Vec<(String, String)>;

impl Family {
    fn gauge(name: &str, help: &str) -> Self {
        Self {
            name: name.to_owned(),
            help: help.to_owned(),
            kind: Kind::Gauge,
            rows: Vec::new(),
        }
    }

    fn counter(name: &str, help: &str) -> Self {
        Self {
            kind: Kind::Counter,
            ..Self::gauge(name, help)
        }
    }

    fn row(mut self, labels: &[(&str, &str)], value: impl Into<u64>) -> Self {
        self.add(labels, value);
        self
    }

    fn add(&mut self, labels: &[(&str, &str)], value: impl Into<u64>) {
        let owned = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.rows.push((owned.collect(), value.into()));
    }
}

/// Whether there is a daemon.
pub(super) fn up(is: bool) -> Family {
    Family::gauge("up", "Whether the daemon answers").row(&[], is)
}

/// What the daemon says of itself, its device, and the programs that use it.
pub(super) fn of_status(status: &Status) -> Vec<Family> {
    let name = status.device.name.as_str();
    let device = &[("device", name)];
    let slots = &status.slots;
    let cm = &status.cm;

    let mut families = vec![
        Family::gauge("build_info", "The daemon's version")
            .row(&[("device", name), ("version", &status.version)], 1_u64),
        Family::gauge("uptime_seconds", "Since when the daemon runs")
            .row(device, status.uptime_seconds),
        Family::gauge("gids", "Used entries of the GID table").row(device, len(&status.gids)),
        Family::gauge("slots", "Places for programs, by what becomes of them")
            .row(&[("device", name), ("state", "claimed")], slots.claimed)
            .row(&[("device", name), ("state", "free")], slots.free)
            .row(&[("device", name), ("state", "resting")], slots.resting),
        Family::gauge("cm_programs", "Programs that use the connection manager")
            .row(device, cm.programs),
        Family::gauge("cm_ids", "Their ids of rdma_cm").row(device, cm.ids),
        Family::gauge(
            "cm_connections",
            "Connections and resolutions, those that linger after their end included",
        )
        .row(device, cm.connections),
        Family::gauge("cm_services", "Service IDs that are listened to")
            .row(device, len(&cm.services)),
        programs(status),
    ];

    families.extend(counters(name, &status.counters));
    families
}

/// What is counted by kind, as `cm_tx_msgs/req`, is one metric with the kind as a label: a name has
/// no `/` in it. A kind that was never seen is not there.
fn counters(device: &str, counters: &[(String, u64)]) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for (counter, value) in counters {
        let (name, message) = match counter.split_once('/') {
            Some((name, message)) => (name, Some(("message", message))),
            None => (counter.as_str(), None),
        };
        let labels: Vec<_> = [("device", device)].into_iter().chain(message).collect();

        match families.last_mut().filter(|family| family.name == name) {
            Some(family) => family.add(&labels, *value),
            None => families.push(Family::counter(name, help(name)).row(&labels, *value)),
        }
    }

    families
}

/// What a counter is, without its full stop.
fn help(name: &str) -> &'static str {
    match name {
        "cm_tx_msgs" => "Messages of the connection manager sent, repetitions included",
        "cm_tx_retries" => "Those sent again for want of an answer",
        "cm_rx_msgs" => "Messages of the connection manager received",
        "cm_rx_duplicates" => "Those received again",
        _ => Counter::ALL
            .iter()
            .find(|known| known.name() == name)
            .map_or("Counted by the daemon itself", |known| known.help()),
    }
}

/// The programs that have the device open, each with its process and slot.
fn programs(status: &Status) -> Family {
    let family = Family::gauge(
        "program_seconds",
        "How long a program has had the device open",
    );
    let open = status.clients.iter().filter_map(|client| {
        let slot = client.slot?.to_string();
        Some((client, slot, client.pid.to_string()))
    });

    open.fold(family, |family, (client, slot, pid)| {
        let labels = [
            ("device", status.device.name.as_str()),
            ("slot", &slot),
            ("pid", &pid),
            ("program", &client.name),
        ];
        family.row(&labels, client.seconds)
    })
}

/// The ports, and what is counted at each.
pub(super) fn of_ports(dir: &RuntimeDir, ports: &[Port]) -> Vec<Family> {
    let mut active = Family::gauge("port_active", "Whether a port is in state ACTIVE");
    let mut counted: BTreeMap<String, Family> = BTreeMap::new();

    for port in ports {
        let number = port.number.to_string();
        let labels = [("device", port.device.as_str()), ("port", &number)];
        let layer = ("link_layer", port.link_layer.as_str());
        active = active.row(&[labels[0], labels[1], layer], port.state == "ACTIVE");

        for (file, value) in ports::counters(dir, &port.device, port.number) {
            let (name, value) = named(&file, value);
            let help = format!("What sysfs shows as counters/{file} of a port");
            let family = counted.entry(name);
            family
                .or_insert_with_key(|name| Family::counter(name, &help))
                .add(&labels, value);
        }
    }

    [active].into_iter().chain(counted.into_values()).collect()
}

/// The name and the value of a port's counter. Data are counted in words of four bytes, which is
/// nothing to make people calculate with.
fn named(file: &str, value: u64) -> (String, u64) {
    let bare = file.strip_prefix("port_").unwrap_or(file);
    match bare {
        "rcv_data" | "xmit_data" => (format!("port_{bare}_bytes"), value.wrapping_mul(4)),
        _ => (format!("port_{bare}"), value),
    }
}

fn len<T>(all: &[T]) -> u64 {
    all.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_bytes() {
        assert_eq!(
            named("port_rcv_data", 5),
            ("port_rcv_data_bytes".to_owned(), 20)
        );
        assert_eq!(
            named("port_rcv_packets", 5),
            ("port_rcv_packets".to_owned(), 5)
        );
        assert_eq!(named("link_downed", 1), ("port_link_downed".to_owned(), 1));
    }
}
