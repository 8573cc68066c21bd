//! The program `ferroced`: command line, log, background, signals. The daemon is in the library.

use std::fs;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;

use clap::builder::RangedU64ValueParser;
use clap::{CommandFactory, Parser};
use ferroce_control::{CongestionControl, RuntimeDir, children, udp};
use ferroce_fabric::link::Cable;
use ferroced::config::{AddrSpec, LinkLayer, MAX_STRETCH, RECEIVE_BUFFERS};
use ferroced::log::Log;
use ferroced::signals::Signals;
use ferroced::switch::{Switch, SwitchSettings};
use ferroced::{Config, Daemon, DaemonError, Settings, inherited, limits};
use rustix::fs::OFlags;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// What a daemon in the background says on its standard output when it serves.
const READY: &str = "ready";

/// The ferroce daemon: an RDMA device in software.
///
/// It owns the device's addresses and UDP port 4791 on them, deals out queue pair numbers to
/// programs, and keeps the files in which rdma-core finds the device. `ferroce up` and
/// `ferroce run` start it; run it by hand with --foreground under a service manager.
///
/// Settings that are not given are taken from the TOML file of --config, else from
/// $XDG_CONFIG_HOME/ferroce/ferroce.toml, else from /etc/ferroce/ferroce.toml: addr (a list),
/// netdev, link_layer, cable (a list), name, idle_exit, receive_buffer, stretch_timeouts,
/// congestion, group, log.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    /// Where programs find the daemon [default: $FERROCE_RUNTIME_DIR, else $XDG_RUNTIME_DIR/ferroce
    /// if that is the user's own, else /run/ferroce for root and /tmp/ferroce-UID for others]
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,

    /// An address to serve, IPv4 or IPv6; may be repeated. Addresses that are given are fixed
    /// [default: those of --netdev]. Of InfiniBand ports the first is the first cable's, and so on,
    /// by which rdma_cm finds the port; the host need not have it [default: none]
    #[arg(long, value_name = "IP")]
    addr: Vec<AddrSpec>,

    /// The interface whose addresses to serve, as they come and go, and whose link is the port's
    /// [default: none, and an address of the loopback interface: 127.0.0.1, or the first of
    /// 127.47.91.1 to 254 whose port 4791 is free]
    #[arg(long, value_name = "IF")]
    netdev: Option<String>,

    /// What the ports are: RoCEv2 at an interface's addresses, or InfiniBand over cables [default:
    /// ethernet]
    #[arg(long, value_enum)]
    link_layer: Option<LinkLayer>,

    /// The cable of an InfiniBand port: our UDP endpoint and the one at the other end, as in
    /// 127.0.0.1:7101=127.0.0.2:7101; one for each port
    #[arg(long, value_name = "LOCAL=REMOTE")]
    cable: Vec<Cable>,

    /// Be an InfiniBand switch with so many ports, and no device. Stays in the foreground
    #[arg(long, value_name = "PORTS", value_parser = clap::value_parser!(u8).range(1..=254), conflicts_with_all = ["addr", "netdev", "link_layer", "idle_exit", "stretch_timeouts", "congestion", "group"])]
    switch: Option<u8>,

    /// The device's name [default: ferroce0]
    #[arg(long)]
    name: Option<String>,

    /// A TOML file with settings, used instead of the usual ones
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Leave after so many seconds without programs; 0: stay. `ferroce status`, `top`, `metrics`
    /// and `wait` are none [default: stay]
    #[arg(long, value_name = "SECS")]
    idle_exit: Option<u64>,

    /// Receive buffer to ask for, of each socket, 4096 to 1073741823 [default: 8388608]
    #[arg(long, value_name = "BYTES", value_parser = RangedU64ValueParser::<usize>::new().range(RECEIVE_BUFFERS))]
    receive_buffer: Option<usize>,

    /// Wait N times as long as programs and peers ask for before a packet or a message of
    /// connection management counts as lost, 1 to 10000: for programs that somebody stops, as a
    /// debugger does [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_STRETCH)))]
    stretch_timeouts: Option<u32>,

    /// How programs answer when the network is full: by a window that losses and longer round trips
    /// shrink (`aimd`), or by a rate, too, which marks of ECN bring down (`dcqcn`) [default: aimd]
    #[arg(long, value_enum)]
    congestion: Option<CongestionControl>,

    /// Let the members of a group use the device, or `everyone`: each his own programs' part of it
    /// alone. For a device of the machine's, which root has in a directory that all can enter: see
    /// `ferroce system` [default: only this user and root]
    #[arg(long, value_name = "NAME")]
    group: Option<String>,

    /// What to log, such as `debug` or `ferroced=trace` [default: $FERROCE_LOG, else info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,

    /// Stay in the foreground and log to standard error
    #[arg(long)]
    foreground: bool,

    /// Internal: this is the background process; say on standard output when it is ready.
    #[arg(long, hide = true)]
    detached: bool,

    /// Internal: say which file the settings are taken from, or what is wrong with it, and leave.
    #[arg(long, hide = true)]
    check: bool,

    /// Internal: write manual page and completions below a directory, for who packages them.
    #[arg(long, hide = true, value_name = "DIR", exclusive = true)]
    manual: Option<PathBuf>,
}

impl Arguments {
    /// The settings that are given.
    fn settings(&self) -> Config {
        Config {
            addr: self.addr.clone(),
            netdev: self.netdev.clone(),
            link_layer: self.link_layer,
            cable: self.cable.clone(),
            name: self.name.clone(),
            idle_exit: self.idle_exit,
            receive_buffer: self.receive_buffer,
            stretch_timeouts: self.stretch_timeouts,
            congestion: self.congestion,
            group: self.group.clone(),
            log: self.log.clone(),
        }
    }

    /// What a switch of so many ports is to be.
    fn switch_settings(&self, ports: u8) -> SwitchSettings {
        let name = self.name.as_deref().unwrap_or("ferroce switch");
        SwitchSettings {
            ports,
            cables: self.cable.clone(),
            name: name.to_owned(),
            receive_buffer: self.receive_buffer.unwrap_or(udp::RECEIVE_BUFFER),
        }
    }

    /// Whether it makes sense by itself: no file is to be blamed for what does not.
    fn check(&self) -> Result<(), DaemonError> {
        if let Some(filter) = &self.log {
            log_filter(filter)?;
        }
        match self.switch {
            Some(ports) => self.switch_settings(ports).check(),
            None => Settings::try_from(self.settings()).map(drop),
        }
    }
}

/// Programs of the system, in the manual.
const SECTION: u8 = 8;

fn main() -> ExitCode {
    children::are_waited_for();
    let arguments = Arguments::parse();
    if let Err(error) = arguments.check() {
        let kind = clap::error::ErrorKind::ValueValidation;
        Arguments::command().error(kind, error).exit();
    }
    let dir = RuntimeDir::resolve(arguments.runtime_dir.as_deref());
    let result = if let Some(dir) = arguments.manual {
        ferroce_manual::write(Arguments::command(), SECTION, &dir)
            .map_err(|e| format!("{}: {e}", dir.display()))
    } else if arguments.check {
        check_file(&arguments)
    } else if let Some(ports) = arguments.switch {
        switch(&arguments, ports)
    } else if arguments.foreground || arguments.detached {
        serve(&arguments, dir)
    } else {
        detach(&dir)
    };

    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("ferroced: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Starts this program again in the background and waits until it serves or has failed.
fn detach(dir: &RuntimeDir) -> Result<(), String> {
    // Held until the other has taken it, or has failed.
    let premises = dir.prepare().map_err(|e| e.to_string())?;
    let program = std::env::current_exe().map_err(|e| format!("finding this program: {e}"))?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let log = premises
        .open("ferroced.log", flags)
        .map_err(|e| format!("{}: {e}", dir.log().display()))?;
    inherited::keep_none().map_err(|e| format!("/proc/self/fd: {e}"))?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(|e| format!("starting the background process: {e}"))?;

    let mut words = String::new();
    if let Some(output) = child.stdout.take() {
        let _ = BufReader::new(output).read_line(&mut words);
    }

    match words.trim() {
        READY => return Ok(()),
        "" => {
            let log = dir.log();
            let how = child
                .wait()
                .map_or_else(|e| e.to_string(), |status| status.to_string());
            return Err(format!("the daemon failed ({how}); see {}", log.display()));
        }
        _ => {}
    }

    let _ = child.wait();
    Err(words.trim().to_owned())
}

fn serve(arguments: &Arguments, dir: RuntimeDir) -> Result<(), String> {
    let detached = arguments.detached;
    let started = start(arguments, dir);
    let (daemon, signals) = match started {
        Ok(started) => started,
        Err(error) => {
            let words = format!("{error}{}", limits::hint(&error));
            if detached {
                tell(&words);
            }
            return Err(words);
        }
    };

    if detached {
        tell(READY);
    }

    // A service manager that waits for it is told, too.
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        tracing::warn!(%error, "the service manager is not told");
    }

    daemon.run(Some(&signals)).map_err(|e| {
        tracing::error!(error = %e, "stopped");
        e.to_string()
    })
}

/// Runs a switch until a signal comes.
fn switch(arguments: &Arguments, ports: u8) -> Result<(), String> {
    let run = || -> Result<(), DaemonError> {
        start_log(arguments.log.as_deref(), None)?;
        limits::raise();
        let signals = Signals::block()?;
        let switch = Switch::start(arguments.switch_settings(ports))?;
        switch.run(&signals)
    };
    run().map_err(|e| e.to_string())
}

fn start(arguments: &Arguments, dir: RuntimeDir) -> Result<(Daemon, Signals), DaemonError> {
    let under = Config::find(arguments.config.as_deref())?;
    let config = arguments.settings().over(under);

    rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o077));
    let file = arguments.detached.then(|| dir.log());
    start_log(config.log.as_deref(), file)?;
    let settings = Settings::try_from(config)?;

    // Before the daemon holds anything that a signal would leave behind.
    let signals = Signals::block()?;
    limits::raise();
    if arguments.detached {
        // Fails only for the leader of a process group, which is detached enough.
        let _ = rustix::process::setsid();
        let _ = rustix::process::chdir("/");
    }

    Ok((Daemon::start(dir, settings)?, signals))
}

fn log_filter(text: &str) -> Result<EnvFilter, DaemonError> {
    let wrong = |why| DaemonError::Setting(format!("log filter `{text}`: {why}"));
    EnvFilter::try_new(text).map_err(wrong)
}

/// For `ferroce doctor`: whether a daemon would take the settings of the file, and of which.
fn check_file(arguments: &Arguments) -> Result<(), String> {
    let explicit = arguments.config.as_deref();
    let Some(path) = Config::file(explicit) else {
        println!("no file: all as by default");
        return Ok(());
    };

    let in_file = |error: DaemonError| {
        let (error, file) = (error.to_string(), path.display().to_string());
        match error.starts_with(&file) {
            true => error,
            false => format!("{file}: {error}"),
        }
    };
    let config = Config::read(&path).map_err(in_file)?;
    config
        .log
        .as_deref()
        .map(log_filter)
        .transpose()
        .map_err(in_file)?;
    Settings::try_from(config).map_err(in_file)?;
    println!("{}", path.display());
    Ok(())
}

/// Logs to a file that is kept short, or else to standard error.
fn start_log(filter: Option<&str>, file: Option<PathBuf>) -> Result<(), DaemonError> {
    let from_environment = std::env::var("FERROCE_LOG").ok();
    let filter = filter.or(from_environment.as_deref()).unwrap_or("info");
    let filter = log_filter(filter)?;
    let (writer, terminal) = match file {
        Some(path) => match Log::open(path.clone()) {
            Ok(log) => (BoxMakeWriter::new(Mutex::new(log)), false),
            Err(source) => return Err(DaemonError::File { path, source }),
        },
        None => (
            BoxMakeWriter::new(std::io::stderr),
            std::io::stderr().is_terminal(),
        ),
    };

    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(terminal)
        .with_writer(writer)
        .init();

    Ok(())
}

/// Says a word to who waits for this process in the background, and closes its standard output.
fn tell(words: &str) {
    let mut output = std::io::stdout();
    let _ = writeln!(output, "{}", words.replace('\n', " "));
    let _ = output.flush();
    if let Ok(null) = fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}
