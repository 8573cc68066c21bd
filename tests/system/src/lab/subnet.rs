//! InfiniBand fabrics on loopback addresses: hosts with cables, switches, and OpenSM.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::harness::case::Stop;
use crate::harness::process::{self, Finished, Running};
use crate::lab::host::Host;
use crate::lab::manager::Manager;
use crate::packages;

/// How long anything on a fabric may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// How long to wait before looking again.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// The cable's end of every host.
const HOST_PORT: u16 = 7101;
/// The first cable's end of a switch, and that of the first cable between switches.
const SWITCH_PORT: u16 = 7101;
const TRUNK_PORT: u16 = 7701;

/// A fabric that runs.
pub(crate) struct Subnet {
    /// Its hosts, each with one port.
    pub hosts: Vec<Host>,
    /// Held until the end.
    _switches: Vec<Running>,
    dir: PathBuf,
    count: usize,
}

impl Subnet {
    /// Two hosts with a cable between them.
    pub(crate) fn back_to_back(programs: &Path, dir: &Path) -> Result<Subnet, Stop> {
        let mut hosts = Vec::new();
        for (own, other) in [(1, 2), (2, 1)] {
            hosts.push(host(
                programs,
                own,
                &[&format!(
                    "127.0.0.{own}:{HOST_PORT}=127.0.0.{other}:{HOST_PORT}"
                )],
            )?);
        }
        Ok(Subnet {
            hosts,
            _switches: Vec::new(),
            dir: dir.to_owned(),
            count: 0,
        })
    }

    /// A host with so many ports, and at the other end of each one's cable a host (from 1 on) of
    /// its own: as many fabrics.
    pub(crate) fn star(programs: &Path, dir: &Path, ports: usize) -> Result<Subnet, Stop> {
        let own = |port: usize| format!("127.0.0.1:{}", usize::from(HOST_PORT) + port);
        let other = |port: usize| format!("127.0.0.{}:{HOST_PORT}", port + 2);
        let cables: Vec<String> = (0..ports)
            .map(|port| format!("{}={}", own(port), other(port)))
            .collect();
        let cables: Vec<&str> = cables.iter().map(String::as_str).collect();
        let mut hosts = vec![host(programs, 1, &cables)?];
        for port in 0..ports {
            let cable = format!("{}={}", other(port), own(port));
            hosts.push(host(programs, port + 2, &[&cable])?);
        }
        Ok(Subnet {
            hosts,
            _switches: Vec::new(),
            dir: dir.to_owned(),
            count: 0,
        })
    }

    /// Two switches with two cables between them, and half of the hosts at each.
    pub(crate) fn two_switches(programs: &Path, dir: &Path, hosts: usize) -> Result<Subnet, Stop> {
        let half = hosts / 2;
        let mut subnet = Subnet {
            hosts: Vec::new(),
            _switches: Vec::new(),
            dir: dir.to_owned(),
            count: 0,
        };

        let end = |switch: usize, port: usize| {
            format!("127.0.100.{switch}:{}", usize::from(SWITCH_PORT) + port)
        };
        for switch in 1..=2 {
            let mut command = Command::new(programs.join("ferroce"));
            command.args(["switch", "--ports", &(half + 2).to_string()]);
            command.args(["--name", &format!("switch {switch}")]);
            for port in 0..half {
                let host = (switch - 1) * half + port + 1;
                let cable = format!("{}=127.0.0.{host}:{HOST_PORT}", end(switch, port));
                command.args(["--cable", &cable]);
            }
            for trunk in 0..2 {
                let port = usize::from(TRUNK_PORT) + trunk;
                let cable = format!("127.0.100.{switch}:{port}=127.0.100.{}:{port}", 3 - switch);
                command.args(["--cable", &cable]);
            }
            let running = process::spawn(command, dir, &format!("switch{switch}"))?;
            subnet._switches.push(running);
        }

        for number in 1..=hosts {
            let (switch, port) = (1 + (number - 1) / half, (number - 1) % half);
            let cable = format!("127.0.0.{number}:{HOST_PORT}={}", end(switch, port));
            subnet.hosts.push(self::host(programs, number, &[&cable])?);
        }

        Ok(subnet)
    }

    /// Starts OpenSM on a host (from 0) with these options, and waits until the subnet is up.
    pub(crate) fn manage(&mut self, host: usize, options: &[&str]) -> Result<Manager, Stop> {
        let mut manager = self.start_manager(host, options)?;
        manager.wait_for("SUBNET UP")?;
        Ok(manager)
    }

    /// Starts OpenSM.
    pub(crate) fn start_manager(&mut self, host: usize, options: &[&str]) -> Result<Manager, Stop> {
        self.start_manager_with(host, options, "")
    }

    /// Starts OpenSM with these lines in its file of settings.
    pub(crate) fn start_manager_with(
        &mut self,
        host: usize,
        options: &[&str],
        settings: &str,
    ) -> Result<Manager, Stop> {
        self.count += 1;
        let dir = self.dir.join(format!("opensm{}", self.count));
        fs::create_dir_all(&dir).map_err(anyhow::Error::from)?;
        let log = dir.join("log");
        // A standby looks every ten seconds otherwise, and believes it the fourth time.
        let text = format!("sminfo_polling_timeout 500\npolling_retry_number 3\n{settings}");
        let settings = dir.join("opensm.conf");
        fs::write(&settings, text).map_err(anyhow::Error::from)?;
        let mut command = self.hosts[host].run("env");
        for variable in ["OSM_CACHE_DIR", "OSM_TMP_DIR"] {
            command.arg(format!("{variable}={}", dir.display()));
        }
        // What it says is in its log at once.
        command
            .arg(program("opensm")?)
            .arg("-d2")
            .arg("-f")
            .arg(&log);
        command.arg("-F").arg(&settings).args(options);
        let running = process::spawn(command, &dir, "opensm")?;
        Ok(Manager::new(running, log))
    }

    /// Runs a program to its end on a host (from 0); it must succeed.
    pub(crate) fn run(&mut self, host: usize, line: &[&str]) -> Result<Finished, Stop> {
        let finished = self.attempt(host, line)?;
        match finished.success() {
            true => Ok(finished),
            false => Err(Stop::with(
                format!("{} on host {}", finished.ending(), host + 1),
                &[&finished],
            )),
        }
    }

    /// Runs a program to its end on a host (from 0).
    pub(crate) fn attempt(&mut self, host: usize, line: &[&str]) -> Result<Finished, Stop> {
        let name = self.label(line);
        let command = self.command(host, line)?;
        Ok(process::run(command, &self.dir, &name, LIMIT)?)
    }

    /// Starts a program on a host (from 0).
    pub(crate) fn spawn(&mut self, host: usize, line: &[&str]) -> Result<Running, Stop> {
        let name = self.label(line);
        let command = self.command(host, line)?;
        Ok(process::spawn(command, &self.dir, &name)?)
    }

    /// Runs a program whose output must have all of `wanted`.
    pub(crate) fn expect(
        &mut self,
        host: usize,
        line: &[&str],
        wanted: &[&str],
    ) -> Result<Finished, Stop> {
        let finished = self.run(host, line)?;
        match wanted.iter().find(|word| !finished.out.contains(**word)) {
            None => Ok(finished),
            Some(word) => Err(Stop::with(
                format!("the output has no {word:?}"),
                &[&finished],
            )),
        }
    }

    /// Runs a program again and again until its output has `wanted`.
    pub(crate) fn wait_for(
        &mut self,
        host: usize,
        line: &[&str],
        wanted: &str,
    ) -> Result<(), Stop> {
        self.wait_until(host, line, |output| output.contains(wanted))
    }

    /// Runs a program again and again until its output is as it should be.
    pub(crate) fn wait_until(
        &mut self,
        host: usize,
        line: &[&str],
        good: impl Fn(&str) -> bool,
    ) -> Result<(), Stop> {
        let deadline = std::time::Instant::now() + LIMIT;
        let name = self.label(line);
        loop {
            let finished = process::run(self.command(host, line)?, &self.dir, &name, LIMIT)?;
            if good(&finished.out) {
                return Ok(());
            }
            if std::time::Instant::now() > deadline {
                return Err(Stop::with("what is waited for does not come", &[&finished]));
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Runs a program of two ends (a server that listens on a TCP port, and a client); both must
    /// succeed.
    pub(crate) fn pair(
        &mut self,
        hosts: (usize, usize),
        line: &[&str],
        port: u16,
    ) -> Result<[Finished; 2], Stop> {
        self.pair_at(hosts, [line, line], port)
    }

    /// The same, with a line for the server and one for the client.
    pub(crate) fn pair_at(
        &mut self,
        hosts: (usize, usize),
        [ours, theirs]: [&[&str]; 2],
        port: u16,
    ) -> Result<[Finished; 2], Stop> {
        let number = port.to_string();
        let server = self.server(hosts.0, ours, port)?;
        let line = [theirs, &["-p", &number, "127.0.0.1"]].concat();
        let client = self.attempt(hosts.1, &line)?;
        let server = server.finish(LIMIT);
        match client.success() && server.success() {
            true => Ok([server, client]),
            false => Err(Stop::with("not both ends succeed", &[&server, &client])),
        }
    }

    /// Starts a program that listens on a TCP port.
    pub(crate) fn server(
        &mut self,
        host: usize,
        line: &[&str],
        port: u16,
    ) -> Result<Running, Stop> {
        let number = port.to_string();
        let mut server = self.spawn(host, &[line, &["-p", &number]].concat())?;
        match server.listens(port, LIMIT) {
            true => Ok(server),
            false => {
                let server = server.kill();
                Err(Stop::with("the server does not listen", &[&server]))
            }
        }
    }

    /// What a program's output is kept as.
    fn label(&mut self, line: &[&str]) -> String {
        self.count += 1;
        let name = Path::new(line[0]).file_name().unwrap_or_default();
        format!("{}-{}", self.count, name.display())
    }

    fn command(&self, host: usize, line: &[&str]) -> Result<Command, Stop> {
        let mut command = self.hosts[host].run(program(line[0])?);
        command.args(&line[1..]);
        Ok(command)
    }
}

/// The IP address of a host's first port, by the host's number from 1.
pub(crate) fn address(number: usize) -> String {
    address_at(number, 0)
}

/// The IP address of a host's port (from 0).
pub(crate) fn address_at(number: usize, port: usize) -> String {
    format!("10.9.{port}.{number}")
}

/// A host with a port for each cable.
fn host(programs: &Path, number: usize, cables: &[&str]) -> Result<Host, Stop> {
    let mut host = Host::new(programs, &format!("127.0.0.{number}"), None)?;
    let addresses: Vec<String> = (0..cables.len())
        .map(|port| address_at(number, port))
        .collect();
    let mut options = vec!["--link-layer", "infiniband"];
    options.extend(addresses.iter().flat_map(|address| ["--addr", address]));
    options.extend(cables.iter().flat_map(|cable| ["--cable", cable]));
    host.up_with(&options)?;
    Ok(host)
}

fn program(name: &str) -> Result<PathBuf, Stop> {
    packages::which(name).ok_or_else(|| Stop::fail(format!("{name} is not installed")))
}
