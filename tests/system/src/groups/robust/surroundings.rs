//! Group `robust`, continued: daemons and programs in unusual surroundings.

use std::net::UdpSocket;
use std::time::Duration;

use crate::harness::case::expect;
use crate::harness::case::{Case, Ending, Parts, Stop};
use crate::harness::process;
use crate::lab::host::Host;
use crate::lab::{Lab, Place};
use crate::programs::cprogram;
use crate::programs::perftest::{MULTICAST, Pair, odd};

const LIMIT: Duration = Duration::from_secs(60);
/// Seconds of a transfer that goes on beside something else.
const STREAMS: &str = "4";

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.push(Case::new(
        "robust/second daemon on the same directory",
        second_daemon,
    ));

    cases.push(Case::new("robust/port 4791 taken", port_taken));
    cases.push(Case::new("robust/no io_uring, by switch", |lab| {
        without_io_uring(lab, false)
    }));
    cases.push(Case::new("robust/no io_uring, by seccomp", |lab| {
        without_io_uring(lab, true)
    }));
    cases.push(Case::new(
        "robust/multicast, a receive buffer as by default",
        small_buffer,
    ));
    cases.push(Case::new(
        "robust/daemon killed and started again",
        daemon_killed,
    ));

    cases.push(Case::many("robust/daemon out of descriptors", |lab| {
        out_of_descriptors(lab)
    }));
    cases.push(Case::new(
        "robust/ferroce run starts the daemon",
        run_starts_daemon,
    ));

    cases.push(Case::new(
        "robust/a shell that evaluates ferroce env",
        shell_with_env,
    ));

    cases.push(Case::new("robust/installed below a prefix", installed));
    cases
}

/// A second daemon on a directory in use is refused with a clear message and leaves the first
/// alone.
fn second_daemon(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    let mut command = host.plain(host.programs().join("ferroced"));
    command.arg("--runtime-dir").arg(host.runtime_dir()).args([
        "--addr",
        "127.0.0.2",
        "--foreground",
    ]);

    let finished = process::run(command, &dir, "second", Duration::from_secs(10))?;
    let refused = finished
        .status
        .is_some_and(|status| status.code().is_some_and(|code| code != 0));
    if !refused || finished.err.trim().is_empty() {
        return Err(Stop::with(
            "a second daemon on the same directory is not refused with a message",
            &[&finished],
        ));
    }

    host.status().map(|_| ()).map_err(|error| {
        Stop::with(
            format!("the first daemon suffered: {error:#}"),
            &[&finished],
        )
    })
}

/// Where another program has the port, the daemon says so.
fn port_taken(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let _taken = UdpSocket::bind(("127.0.0.3", crate::attack::pcap::ROCE_V2))
        .map_err(anyhow::Error::from)?;
    let host = Host::new(lab.programs(), "127.0.0.3", None)?;
    let mut command = host.ferroce();
    command.args(["up", "--addr", "127.0.0.3"]);
    let finished = process::run(command, &dir, "up", Duration::from_secs(20))?;
    let clear = finished.err.contains("4791") && finished.err.contains("127.0.0.3");
    if finished.success() || finished.status.is_none() || !clear {
        return Err(Stop::with(
            "no clear message that port 4791 of 127.0.0.3 is taken",
            &[&finished],
        ));
    }

    Ok(())
}

/// Without io_uring everything works over plain system calls. A process says so where it is asked
/// for what goes on, as the client is here, and else nothing.
fn without_io_uring(lab: &mut Lab, seccomp: bool) -> Ending {
    let dir = lab.case_dir()?;
    let wrapper = if seccomp {
        Some(cprogram::compile_plain("no_io_uring", &[] as &[&str])?)
    } else {
        None
    };

    let ports = [lab.port(), lab.port()];
    let site = lab.site(Place::Sockets)?;
    let host = site.server();
    for (tool, port) in ["ib_write_bw", "ib_send_lat"].into_iter().zip(ports) {
        let command = || {
            let mut command = match &wrapper {
                Some(wrapper) => {
                    let mut command = host.run(wrapper);
                    command.arg(tool);
                    command
                }
                None => {
                    let mut command = host.run(tool);
                    command.env("FERROCE_IO_URING", "off");
                    command
                }
            };
            command.args(["-F", "-n", "500", "-p", &port.to_string()]);
            command
        };

        let mut server = process::spawn(command(), &dir, "server")?;
        if !server.listens(port, LIMIT) {
            return Err(Stop::with(
                "the server does not come to listen",
                &[&server.finish(Duration::ZERO)],
            ));
        }

        let mut client = command();
        client
            .arg(&host.address)
            .env("FERROCE_LOG", "ferroce_engine::progress=info");
        let client = process::run(client, &dir, "client", LIMIT)?;
        let server = server.finish_after(&client, LIMIT);
        let evidence = [&client, &server];
        for (finished, lines) in [(&client, 1), (&server, 0)] {
            let said = finished
                .err
                .lines()
                .filter(|line| line.contains("io_uring"))
                .count();

            let other = finished
                .err
                .lines()
                .find(|line| !line.contains("io_uring") && odd(line).is_some());

            if !finished.success() {
                return Err(Stop::with(finished.ending(), &evidence));
            }

            if said != lines || other.is_some() {
                return Err(Stop::with(
                    format!("says {said} times that io_uring is missing, not {lines}"),
                    &evidence,
                ));
            }
        }
    }

    Ok(())
}

/// Datagrams to a group are not lost on the way to a process of this machine, whose socket holds no
/// more than Linux grants where nobody has raised `net.core.rmem_max`: senders wait for it.
fn small_buffer(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?.without_loopback();
    let config = dir.join("ferroce.toml");
    std::fs::write(&config, "receive_buffer = 212992\n").map_err(anyhow::Error::from)?;
    let config = config.display().to_string();
    host.up_with(&["--addr", "127.0.0.1", "--config", &config])?;
    expect(host.status()?["device"]["rcvbuf"] == 425_984, || {
        format!("not as large as that: {:?}", host.status())
    })?;
    for _ in 0..3 {
        // No more than the server has posted requests for: else it may drop them itself.
        let line = format!("ib_send_bw -F -n 500 -r 512 {MULTICAST}");
        let pair = Pair::of(&line, lab.port(), LIMIT);
        pair.run(&host, &host, &dir)?.clean()?;
    }
    Ok(())
}

/// A daemon that dies leaves nothing behind that keeps the next one from starting.
fn daemon_killed(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let port = lab.port();
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    let start = || -> Result<process::Running, Stop> {
        let mut command = host.plain(host.programs().join("ferroced"));
        command.arg("--runtime-dir").arg(host.runtime_dir()).args([
            "--addr",
            "127.0.0.1",
            "--foreground",
        ]);
        let mut daemon = process::spawn(command, &dir, "ferroced")?;
        if !daemon.wait_until(Duration::from_secs(10), |_| host.status().is_ok()) {
            return Err(Stop::with(
                "ferroced does not come up",
                &[&daemon.finish(Duration::ZERO)],
            ));
        }
        Ok(daemon)
    };

    start()?.kill();
    let second = start()?;
    let options = ["-F", "-n", "500"].map(str::to_owned).to_vec();
    let pair = Pair {
        tool: "ib_send_bw".to_owned(),
        options,
        port,
        limit: LIMIT,
    };
    let ending = pair.run(&host, &host, &dir)?.clean();
    host.down()?;
    let second = second.finish(Duration::from_secs(10));
    ending?;
    if second.success() {
        Ok(())
    } else {
        Err(Stop::with(
            "ferroce down does not end the daemon well",
            &[&second],
        ))
    }
}

/// A daemon that gets no descriptors refuses what needs one, lets a transfer go on, and recovers:
/// see `tests/verbs/cm_shortage.c`.
fn out_of_descriptors(lab: &mut Lab) -> Parts {
    lab.vacate();
    let (dir, port) = (lab.case_dir()?, lab.port());
    let (stream, shortage) = (
        cprogram::compile("stream")?,
        cprogram::compile("cm_shortage")?,
    );

    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    host.up()?;
    let mut command = host.run(&stream);
    command.args(["server", &port.to_string()]);
    let mut server = process::spawn(command, &dir, "server")?;
    if !server.listens(port, LIMIT) {
        let server = server.finish(Duration::ZERO);
        return Err(Stop::with("the server does not come to listen", &[&server]));
    }

    let mut command = host.run(&stream);
    command.args(["client", &port.to_string(), &host.address, STREAMS]);
    let mut client = process::spawn(command, &dir, "client")?;
    if !client.wait_until(LIMIT, |client| client.output().contains("streaming")) {
        let evidence = [client.finish(Duration::ZERO), server.finish(Duration::ZERO)];
        let [client, server] = &evidence;
        return Err(Stop::with("the transfer does not start", &[client, server]));
    }

    let mut command = host.run(&shortage);
    command.env("DAEMON", host.status()?["pid"].to_string());
    let finished = process::run(command, &dir, "shortage", LIMIT)?;
    let mut endings = cprogram::endings(&finished);
    let transfer = [client.finish(LIMIT), server.finish(LIMIT)];
    let disturbed = transfer
        .iter()
        .find(|end| !end.success() || odd(&end.err).is_some());
    let transfer = match disturbed {
        Some(end) => Err(Stop::with("the transfer was disturbed", &[end])),
        None => Ok(()),
    };
    endings.push(("a transfer goes on".to_owned(), transfer));
    host.down()?;
    Ok(endings)
}

/// With no daemon there, `ferroce run` starts one; `ferroce down` ends it.
fn run_starts_daemon(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    let mut command = host.run("ibv_devinfo");
    command.args(["-d", "ferroce0"]);
    let finished = process::run(command, &dir, "run", LIMIT)?;
    if !finished.success() || !finished.out.contains("PORT_ACTIVE") || odd(&finished.err).is_some()
    {
        return Err(Stop::with(
            "ibv_devinfo does not find an active ferroce0",
            &[&finished],
        ));
    }

    host.down()?;
    expect(host.status().is_err(), || {
        "the daemon still answers after ferroce down".to_owned()
    })
}

/// What a shell starts that has evaluated `ferroce env` finds the device, until it has evaluated
/// what undoes it, and whatever daemon comes after the first; the daemon stays meanwhile.
fn shell_with_env(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.1", None)?;
    let line = r#"
        eval "$("$0" --runtime-dir "$1" env)" || exit 3
        ibv_devinfo -d ferroce0 || exit 4
        "$0" down && "$0" up --addr 127.0.0.1 || exit 8
        ibv_devinfo -d ferroce0 || exit 9
        eval "$("$0" env --unset)" || exit 5
        ibv_devinfo -d ferroce0 >&2 && exit 6
        exit 7"#;

    let mut command = host.plain("sh");
    command
        .args(["-c", line])
        .arg(host.programs().join("ferroce"))
        .arg(host.runtime_dir());

    let finished = process::run(command, &dir, "shell", LIMIT)?;
    let code = finished.status.and_then(|status| status.code());
    if code != Some(7) || !finished.out.contains("PORT_ACTIVE") {
        return Err(Stop::with(
            "ibv_devinfo does not find ferroce0 where it should, or finds it where it should not",
            &[&finished],
        ));
    }

    host.down()?;
    Ok(())
}

/// What `cargo xtask install` puts below a prefix works from there.
fn installed(lab: &mut Lab) -> Ending {
    lab.vacate();
    let dir = lab.case_dir()?;
    let prefix = tempfile::tempdir().map_err(anyhow::Error::from)?;
    crate::install::copy(lab.programs(), prefix.path())?;
    let mut host = Host::new(&prefix.path().join("bin"), "127.0.0.1", None)?;
    host.up()?;
    let options = ["-F", "-n", "500"].map(str::to_owned).to_vec();
    let port = lab.port();
    let pair = Pair {
        tool: "ib_write_bw".to_owned(),
        options,
        port,
        limit: LIMIT,
    };
    let ending = pair.run(&host, &host, &dir)?.clean();
    host.down()?;
    ending
}
