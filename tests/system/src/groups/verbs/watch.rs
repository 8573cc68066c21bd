//! `ibv_asyncwatch` beside an interface whose address and carrier come and go: each change is one
//! event, and none more.

use std::time::Duration;

use crate::harness::case::{Ending, Stop};
use crate::harness::process::{self, Running};
use crate::lab::Lab;
use crate::lab::host::Host;
use crate::lab::netns::{self, Pair};
use crate::packages;
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(30);

pub(super) fn asyncwatch(lab: &mut Lab) -> Ending {
    if packages::which("ibv_asyncwatch").is_none() {
        return Err(Stop::Skip("ibv_asyncwatch is not installed".to_owned()));
    }

    lab.vacate();
    let dir = lab.case_dir()?;
    let pair = Pair::new(1500).map_err(|error| {
        Stop::Skip(format!(
            "network namespaces are not allowed here: {error:#}"
        ))
    })?;

    let [near, far] = netns::INTERFACES;
    let other = Host::new(lab.programs(), netns::ADDRESSES[1], Some(pair.b))?;
    let mut host = Host::new(lab.programs(), netns::ADDRESSES[0], Some(pair.a))?;
    only_ipv4(&host, near)?;
    host.up_with(&["--netdev", near])?;

    let watcher = |name| -> Result<Running, Stop> {
        // Standard output that is no terminal is held back until it fills a buffer.
        let mut command = host.run("stdbuf");
        command.args(["-oL", "ibv_asyncwatch", "-d", "ferroce0"]);
        let mut watch = process::spawn(command, &dir, name)?;
        wait(&mut watch, "async event FD", 1)?;
        Ok(watch)
    };
    let mut watch = watcher("ibv_asyncwatch")?;

    let address = ["10.77.0.9/24", "dev", near];
    ip(&host, &[&["addr", "add"], &address[..]].concat())?;
    wait(&mut watch, "IBV_EVENT_GID_CHANGE (18), port 1", 1)?;
    ip(&other, &["link", "set", far, "down"])?;
    wait(&mut watch, "IBV_EVENT_PORT_ERR (10), port 1", 1)?;
    ip(&other, &["link", "set", far, "up"])?;
    wait(&mut watch, "IBV_EVENT_PORT_ACTIVE (9), port 1", 1)?;
    ip(&host, &[&["addr", "del"], &address[..]].concat())?;
    wait(&mut watch, "IBV_EVENT_GID_CHANGE (18), port 1", 2)?;

    // Who does not look is told all the same, each change by itself.
    let mut awake = watcher("awake")?;
    watch.signal(Signal::STOP);
    ip(&host, &[&["addr", "add"], &address[..]].concat())?;
    wait(&mut awake, "GID_CHANGE (18)", 1)?;
    ip(&other, &["link", "set", far, "down"])?;
    wait(&mut awake, "PORT_ERR (10)", 1)?;
    ip(&other, &["link", "set", far, "up"])?;
    wait(&mut awake, "PORT_ACTIVE (9)", 1)?;
    watch.signal(Signal::CONT);
    wait(&mut watch, "IBV_EVENT_GID_CHANGE (18), port 1", 3)?;
    wait(&mut watch, "IBV_EVENT_PORT_ERR (10), port 1", 2)?;
    wait(&mut watch, "IBV_EVENT_PORT_ACTIVE (9), port 1", 2)?;
    awake.kill();

    host.down()?;
    wait(&mut watch, "IBV_EVENT_DEVICE_FATAL (8), port 1", 1)?;
    watch.signal(Signal::TERM);
    let finished = watch.finish(LIMIT);
    let events = finished.out.matches("event_type").count();
    if events == 8 {
        Ok(())
    } else {
        Err(Stop::with(
            format!("{events} events of 8 changes"),
            &[&finished],
        ))
    }
}

fn wait(watch: &mut Running, wanted: &str, times: usize) -> Ending {
    if watch.wait_until(LIMIT, |watch| {
        watch.output().matches(wanted).count() >= times
    }) {
        Ok(())
    } else {
        Err(Stop::fail(format!(
            "{wanted:?} does not come {times} times; the output is:\n{}",
            watch.output()
        )))
    }
}

/// Takes the link-local addresses off an interface: they come and go with the carrier, and late,
/// each a change of the GID table.
pub(crate) fn only_ipv4(host: &Host, interface: &str) -> Ending {
    ip(host, &["link", "set", interface, "addrgenmode", "none"])?;
    ip(host, &["-6", "addr", "flush", "dev", interface])
}

/// `ip` on a host.
pub(crate) fn ip(host: &Host, words: &[&str]) -> Ending {
    let mut command = host.plain("ip");
    command.args(words);
    command.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    let output = command.output().map_err(anyhow::Error::from)?;
    if output.status.success() {
        Ok(())
    } else {
        Err(Stop::fail(format!(
            "ip {}: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )))
    }
}
