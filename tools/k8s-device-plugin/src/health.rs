//! Whether there is a device to give: a thread that stays connected to the daemon, and notices at
//! once when it goes. A daemon that is to be kept up is started again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use ferroce_control::{Client, ControlError, Event, RuntimeDir};
use tokio::sync::watch;

/// How long a daemon that does not answer counts as there.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long until the next look for a daemon where there is none.
const PAUSE: Duration = Duration::from_millis(500);

/// How a daemon is started.
#[derive(Debug)]
pub(crate) struct Up {
    /// The command `ferroce`.
    pub(crate) ferroce: PathBuf,
    /// Options of `ferroce up`.
    pub(crate) options: Vec<std::ffi::OsString>,
}

/// Watches the daemon of a runtime directory from now on. With `up` it is started when there is
/// none.
pub(crate) fn watch(dir: RuntimeDir, up: Option<Up>) -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    thread::spawn(move || {
        let mut told = String::new();
        while !sender.is_closed() {
            match attend(&dir, &sender) {
                Ok(()) => told.clear(),
                Err(error) => {
                    if let (ControlError::NotRunning { .. }, Some(up)) = (&error, &up) {
                        up.start(dir.path());
                    }
                    // Once, not twice a second.
                    let words = error.to_string();
                    if words != told {
                        tracing::warn!("no device for pods: {words}");
                        told = words;
                    }
                }
            }
            thread::sleep(PAUSE);
        }
    });
    receiver
}

/// Stays with a daemon until it goes.
fn attend(dir: &RuntimeDir, sender: &watch::Sender<bool>) -> Result<(), ControlError> {
    let mut client = Client::connect(dir)?;
    let status = client.status()?;
    // What pods are offered shall be there when they come, whatever the daemon's idle exit says.
    let _hold = client.hold()?;
    tracing::info!(device = status.device.name, "there is a device for pods");
    sender.send_replace(true);

    let gone = loop {
        match client.wait_event(INTERVAL) {
            Some(Event::Shutdown) => break "ferroced has gone".to_owned(),
            Some(_) => {}
            // It may be stopped.
            None => match client.status() {
                Ok(_) => {}
                Err(error) => break error.to_string(),
            },
        }
    };
    sender.send_replace(false);
    tracing::warn!("no device for pods any more: {gone}");
    Ok(())
}

impl Up {
    /// Starts the daemon and waits until it is ready; it says itself why it is not.
    fn start(&self, runtime: &Path) {
        let status = Command::new(&self.ferroce)
            .arg("--runtime-dir")
            .arg(runtime)
            .arg("up")
            .args(&self.options)
            .status();
        if let Err(error) = status {
            tracing::error!("{}: {error}", self.ferroce.display());
        }
    }
}
