//! The screen, in a terminal of tmux's: what is to be seen is what its user would see.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use serde_json::Value;

use super::{rnr, sample};
use crate::groups::instrument::LIMIT;
use crate::harness::case::{Ending, Stop};
use crate::harness::process;
use crate::lab::host::Host;
use crate::lab::{Lab, Place};

/// A terminal whose shell has run the command, and says when that has ended.
struct Terminal {
    socket: PathBuf,
    dir: PathBuf,
}

impl Terminal {
    /// Runs a command of this host's in a terminal of that size.
    fn new(host: &Host, dir: &Path, words: &[&str], size: (u32, u32)) -> Result<Terminal, Stop> {
        Terminal::of_script(host, dir, words, size, |command| {
            format!(
                "stty -a | grep -o '[-]*icanon'; {command}; echo ended with $?; \
                 stty -a | grep -o '[-]*icanon'; read wait"
            )
        })
    }

    /// Runs a command that may be stopped: then the shell says so, waits for the Enter key, and has
    /// it go on.
    fn with_jobs(host: &Host, dir: &Path, words: &[&str]) -> Result<Terminal, Stop> {
        Terminal::of_script(host, dir, words, (80, 24), |command| {
            format!(
                "set -m; ulimit -c 0; {command}; echo stopped with $?; \
                 stty -a | grep -o '[-]*icanon'; read go; fg; echo ended with $?; \
                 stty -a | grep -o '[-]*icanon'; read wait"
            )
        })
    }

    /// Runs a command behind these words of its shell's.
    fn after(host: &Host, dir: &Path, before: &str, words: &[&str]) -> Result<Terminal, Stop> {
        Terminal::of_script(host, dir, words, (80, 24), |command| {
            format!("{before} {command}; read wait")
        })
    }

    /// Has a shell execute what is made of a command of this host's.
    fn of_script(
        host: &Host,
        dir: &Path,
        words: &[&str],
        size: (u32, u32),
        script: impl FnOnce(&str) -> String,
    ) -> Result<Terminal, Stop> {
        let terminal = Terminal {
            socket: dir.join("tmux"),
            dir: dir.to_owned(),
        };
        let mut command = host.ferroce();
        command.args(words);
        let line = script(&process::line_of(&command));
        let (width, height) = (size.0.to_string(), size.1.to_string());
        let size = ["-x", &width, "-y", &height];
        let new = [&["new-session", "-d"][..], &size, &["sh", "-c", &line]].concat();
        terminal.tmux(&new)?;
        Ok(terminal)
    }

    /// The number of the process that its shell has started.
    fn command(&self) -> Result<i32, Stop> {
        let pane = self.tmux(&["list-panes", "-F", "#{pane_pid}"])?;
        child_of(pane.trim())
    }

    fn tmux(&self, words: &[&str]) -> Result<String, Stop> {
        let mut command = Command::new("tmux");
        command
            .args(["-u", "-f", "/dev/null", "-S"])
            .arg(&self.socket);
        command.args(words).env("TERM", "xterm-256color");
        let finished = process::run(command, &self.dir, "tmux", LIMIT)?;
        match finished.success() {
            true => Ok(finished.out),
            false => Err(Stop::with("tmux fails", &[&finished])),
        }
    }

    fn press(&self, keys: &[&str]) -> Ending {
        self.tmux(&[&["send-keys"], keys].concat()).map(drop)
    }

    /// The screen, once it is as it should be.
    fn shows(&self, what: &str, holds: impl Fn(&str) -> bool) -> Result<String, Stop> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let screen = self.tmux(&["capture-pane", "-p"])?;
            if holds(&screen) {
                return Ok(screen);
            }
            if Instant::now() >= deadline {
                return Err(Stop::fail(format!("{what} is not to be seen:\n{screen}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The server of this socket, which was started for it, and what runs in it.
        let _ = self.tmux(&["kill-server"]);
    }
}

/// The line of a queue pair.
fn line_of<'a>(screen: &'a str, number: &str) -> Option<(usize, &'a str)> {
    let mut lines = screen.lines().enumerate();
    lines.find(|(_, line)| line.contains(number) && line.contains("RTS"))
}

/// Tables, sorting, a filter, details, another size, and the terminal as it was afterwards.
pub(super) fn on_a_terminal(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let site = lab.site(Place::OneDaemon)?;
    let host = site.server();
    let (running, tell, numbers) = rnr(host, &dir, 7)?;
    let mut numbers = numbers.map(|number| format!("0x{number:06x}"));
    let details = format!("{}, RC, RTS", numbers[0]);
    numbers.sort();
    let [low, high] = &numbers;

    let terminal = Terminal::new(host, &dir, &["top", "--interval", "100ms"], (80, 24))?;
    let both = |screen: &str| {
        line_of(screen, low).is_some_and(|(_, line)| line.contains(&host.address))
            && line_of(screen, high).is_some()
            && screen.contains("rnr")
            && screen.contains("no-receive")
    };
    terminal.shows("both queue pairs, marked", both)?;

    // By the third column, the number, and then the other way round.
    terminal.press(&["s", "s", "s"])?;
    let order = |screen: &str| Some((line_of(screen, low)?.0, line_of(screen, high)?.0));
    terminal.shows("the lower number on top", |screen| {
        screen.contains("QP^") && order(screen).is_some_and(|(low, high)| low < high)
    })?;
    terminal.press(&["r"])?;
    terminal.shows("the higher number on top", |screen| {
        screen.contains("QPv") && order(screen).is_some_and(|(low, high)| low > high)
    })?;

    terminal.press(&["/"])?;
    terminal.press(&["-l", "no-receive"])?;
    terminal.press(&["Enter"])?;
    let filtered = |screen: &str| {
        screen.contains("filter: no-receive")
            && line_of(screen, low).is_some() != line_of(screen, high).is_some()
    };
    terminal.shows("the receiver alone", filtered)?;
    terminal.press(&["Escape"])?;
    terminal.shows("both again", both)?;
    terminal.press(&["/"])?;
    terminal.press(&["-l", "rnr"])?;
    terminal.press(&["Enter", "Enter"])?;
    terminal.shows("details of the sender", |screen| {
        screen.contains(&details) && screen.contains("no receive request posted (RNR)")
    })?;

    terminal.tmux(&["resize-window", "-x", "160", "-y", "50"])?;
    terminal.shows("all of the details", |screen| {
        screen.contains(&details) && screen.contains("rnr_retry 7, min_rnr_timer 18")
    })?;
    terminal.press(&["Escape"])?;
    // The filter's line is below the details, too; and two of these keys that a terminal sends at
    // once are read as one.
    terminal.shows("the sender alone", |screen| {
        screen.contains("filter: rnr") && !screen.contains(&details)
    })?;
    terminal.press(&["Escape"])?;
    terminal.shows("more columns", |screen| {
        both(screen) && screen.contains("PEER QP") && screen.lines().any(|line| line.len() > 80)
    })?;
    terminal.press(&["4"])?;
    terminal.shows("the region", |screen| {
        screen.contains("BYTES") && screen.contains("4096")
    })?;

    terminal.press(&["q"])?;
    restored(&terminal, "ended with 0")?;
    drop(tell);
    drop(running);
    Ok(())
}

/// The terminal is as it was: on its own screen, with lines and echo. Where it was resized
/// meanwhile tmux leaves something of the other screen beyond the size that its own had.
fn restored(terminal: &Terminal, ending: &str) -> Ending {
    let back = |screen: &str| {
        let with_lines = screen.lines().filter(|line| line.trim() == "icanon");
        with_lines.count() == 2
            && screen.contains(&format!("{ending}\nicanon"))
            && !screen.contains("q quit")
    };
    terminal.shows("the terminal as it was", back).map(drop)
}

/// A signal ends it, and the terminal is as it was; also where the daemon has gone meanwhile, which
/// the screen says.
pub(super) fn ended(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.6", None)?;
    host.up()?;
    let terminal = Terminal::new(&host, &dir, &["top", "--interval", "100ms"], (80, 24))?;
    terminal.shows("an empty table", |screen| screen.contains("None."))?;
    let empty = sample(&host, &dir)?;
    if empty["queue_pairs"] != Value::Array(Vec::new()) {
        return Err(Stop::fail(format!("queue pairs of nobody: {empty}")));
    }

    host.down()?;
    terminal.shows("that there is no daemon", |screen| {
        screen.contains("no ferroced answers")
    })?;
    tell(&terminal, Signal::TERM)?;
    restored(&terminal, "ended with 143")
}

/// Ctrl-Z and SIGTSTP stop it with the terminal as it was, and SIGQUIT leaves it so, too.
pub(super) fn suspended(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.6", None)?;
    host.up()?;
    for by_key in [true, false] {
        // A server of tmux's that ends is still known by its socket for a moment.
        let dir = dir.join(if by_key { "key" } else { "signal" });
        std::fs::create_dir_all(&dir).context("a directory")?;
        let top = ["top", "--interval", "100ms"];
        let terminal = Terminal::with_jobs(&host, &dir, &top)?;
        let shown = |screen: &str| screen.contains("None.") && screen.contains("q quit");
        terminal.shows("an empty table", shown)?;

        match by_key {
            true => terminal.press(&["C-z"])?,
            false => tell(&terminal, Signal::TSTP)?,
        }
        terminal.shows("the shell, with lines", |screen| {
            screen.contains("stopped with 148\nicanon") && !screen.contains("q quit")
        })?;
        terminal.press(&["Enter"])?;
        terminal.shows("the table again", shown)?;
        // Keys come one by one.
        terminal.press(&["h"])?;
        terminal.shows("the keys", |screen| screen.contains("sort by the next"))?;

        tell(&terminal, Signal::QUIT)?;
        terminal.shows("the terminal as it was", |screen| {
            screen.contains("ended with 131\nicanon") && !screen.contains("sort by")
        })?;
    }
    Ok(())
}

/// It ends with its terminal, also where no signal says that this has gone.
pub(super) fn closed(lab: &mut Lab) -> Ending {
    let dir = lab.case_dir()?;
    let mut host = Host::new(lab.programs(), "127.0.0.6", None)?;
    host.up()?;
    for (name, before) in [("told", ""), ("deaf", "trap '' HUP;"), ("apart", "setsid")] {
        let dir = dir.join(name);
        std::fs::create_dir_all(&dir).context("a directory")?;
        let terminal = Terminal::after(&host, &dir, before, &["top", "--interval", "100ms"])?;
        terminal.shows("an empty table", |screen| screen.contains("None."))?;
        let it = open_process(terminal.command()?)?;
        terminal.tmux(&["kill-server"])?;
        let mut look = [PollFd::new(&it, PollFlags::IN)];
        let limit = Timespec::try_from(LIMIT).context("a limit")?;
        if poll(&mut look, Some(&limit)).context("waiting for its end")? == 0 {
            let _ = rustix::process::pidfd_send_signal(&it, Signal::KILL);
            return Err(Stop::fail("it goes on without its terminal"));
        }
    }
    Ok(())
}

fn open_process(number: i32) -> Result<OwnedFd, Stop> {
    let pid = Pid::from_raw(number).context("no process")?;
    Ok(pidfd_open(pid, PidfdFlags::empty()).context("the process")?)
}

/// Sends a signal to the command.
fn tell(terminal: &Terminal, signal: Signal) -> Ending {
    let pid = Pid::from_raw(terminal.command()?).context("no process")?;
    rustix::process::kill_process(pid, signal).context("a signal")?;
    Ok(())
}

/// The one child of a process.
fn child_of(pid: &str) -> Result<i32, Stop> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.context("the shell's children")?;
    let child = children.trim().parse();
    child.map_err(|_| Stop::fail(format!("not one child: {children:?}")))
}
