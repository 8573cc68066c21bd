//! `ferroce wait`: for scripts, which start a server in the background and then its client. It
//! looks, and neither starts a daemon nor connects to anybody: a server that takes one client alone
//! would take this for it.

use std::fs;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use ferroce_control::{Client, ControlError, RuntimeDir, Status};

use crate::arguments::Wait;
use crate::error::Error;
use crate::ports;

/// How often it looks. Neither the kernel nor the daemon tells of new listeners.
const PAUSE: Duration = Duration::from_millis(20);
/// The state of a TCP socket that listens, in the kernel's tables.
const LISTEN: &str = "0A";
/// The prefix of service IDs that stand for a port space and a port (IBA annex A11).
const BY_IP: u64 = 0x0100_0000;
/// What a service ID has above the port: prefix and port space, but for the latter's number.
const ABOVE: u64 = !0x00ff_ffff;

/// Waits for a listener, or for the ports to be active.
pub(crate) fn wait(dir: &RuntimeDir, wait: &Wait) -> Result<ExitCode, Error> {
    let patience = Duration::from_secs(wait.timeout);
    match wait.port {
        Some(port) => listener(dir, port, patience),
        None => active(dir, patience),
    }
}

/// Until a program listens at the port, by TCP or at the device.
fn listener(dir: &RuntimeDir, port: u16, patience: Duration) -> Result<ExitCode, Error> {
    let mut device = Device::new(dir);
    let found = within(patience, || {
        let by_ip = |status: Status| status.cm.services.iter().any(|id| is_at(*id, port));
        by_tcp(port) || device.status().is_ok_and(by_ip)
    });

    match found {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Error::NoListener {
            port,
            seconds: patience.as_secs(),
        }),
    }
}

/// Until all ports of the device are active, as programs see them.
fn active(dir: &RuntimeDir, patience: Duration) -> Result<ExitCode, Error> {
    let mut device = Device::new(dir);
    let mut waits = Ok(String::new());
    let found = within(patience, || {
        waits = inactive(dir, &mut device);
        waits.as_ref().is_ok_and(String::is_empty)
    });

    match waits? {
        _ if found => Ok(ExitCode::SUCCESS),
        ports => Err(Error::Inactive {
            ports,
            seconds: patience.as_secs(),
        }),
    }
}

/// The ports that are not active, in words; none: empty.
fn inactive(dir: &RuntimeDir, device: &mut Device<'_>) -> Result<String, Error> {
    let status = device.status()?;
    let ports = ports::all(dir, &status.device.name)?;
    let waits: Vec<String> = ports
        .iter()
        .filter(|port| port.ours && port.state != "ACTIVE")
        .map(|port| format!("port {} of {} is {}", port.number, port.device, port.state))
        .collect();
    Ok(waits.join(", "))
}

/// Whether something comes to hold in time.
fn within(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(PAUSE);
    }
}

/// A daemon that may have yet to come up.
struct Device<'a> {
    dir: &'a RuntimeDir,
    client: Option<Client>,
}

impl<'a> Device<'a> {
    fn new(dir: &'a RuntimeDir) -> Self {
        Self { dir, client: None }
    }

    fn status(&mut self) -> Result<Status, ControlError> {
        let client = match &mut self.client {
            Some(client) => client,
            None => self.client.insert(Client::connect(self.dir)?),
        };
        let status = client.status();
        if status.is_err() {
            self.client = None;
        }
        status
    }
}

/// Whether a service ID is that of a port, in whichever port space.
fn is_at(service: u64, port: u16) -> bool {
    service & ABOVE == BY_IP && service & 0xffff == u64::from(port)
}

/// Whether a TCP socket of this network namespace listens at the port.
fn by_tcp(port: u16) -> bool {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let read = |table: &&str| fs::read_to_string(table).unwrap_or_default();
    tables.iter().any(|table| listens(&read(table), port))
}

fn listens(table: &str, port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).any(|row| {
        let mut fields = row.split_whitespace().skip(1);
        let local = fields.next().unwrap_or_default();
        local.ends_with(&suffix) && fields.nth(1) == Some(LISTEN)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_listens_counts() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
             0: 0100007F:4853 00000000:0000 0A 00000000:00000000\n   \
             1: 0100007F:4854 0100007F:C3A2 01 00000000:00000000\n";
        assert!(listens(table, 18515));
        assert!(!listens(table, 18516));
        assert!(!listens(table, 18517));
    }

    #[test]
    fn services_of_every_port_space_count_and_others_do_not() {
        assert!(is_at(0x0106_1c06, 7174));
        assert!(is_at(0x0111_1c06, 7174));
        assert!(!is_at(0x0106_1c06, 7175));
        assert!(!is_at(0x0001_0106_1c06, 7174));
        assert!(!is_at(0x1c06, 7174));
    }

    #[test]
    fn it_does_not_wait_for_ever() {
        let mut looked = 0;
        assert!(!within(Duration::ZERO, || {
            looked += 1;
            false
        }));
        assert_eq!(looked, 1);
        assert!(within(Duration::ZERO, || true));
    }
}
