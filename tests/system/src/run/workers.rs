//! Cases beside each other: processes of this program, each in a network namespace of its own with
//! a loopback device of its own, so that all may use the same addresses and ports; or one in the
//! machine's. The other side of what is said here is [`crate::run::worker`].

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::build;
use crate::harness::case::{Endings, Stop};
use crate::interrupt;
use crate::run::worker::{Ended, READY};

/// The processes.
pub(super) struct Workers {
    workers: Vec<Worker>,
    /// So many take what waits last, the others nothing else.
    computing: usize,
}

/// Whose network a process is in.
#[derive(Clone, Copy)]
pub(super) enum Network {
    Own,
    Machines,
}

/// Cases that follow each other in one process.
pub(super) struct Work {
    /// They wait more than they compute.
    pub waits: bool,
    /// The cases.
    pub names: Vec<String>,
}

impl Workers {
    /// Starts so many that compute, and so many that take only what waits.
    ///
    /// # Errors
    ///
    /// Where network namespaces are not allowed.
    pub(super) fn start(
        computing: usize,
        waiting: usize,
        network: Network,
        programs: &Path,
        logs: &Path,
    ) -> Result<Workers> {
        build::fetch();
        let workers = (1..=computing + waiting).map(|number| {
            let logs = logs.join(format!("worker-{number}"));
            Worker::start(programs, &logs, network)
        });
        Ok(Workers {
            workers: workers.collect::<Result<_>>()?,
            computing,
        })
    }

    /// Has the cases of these names run, each lot in one process, and tells how each ended as it
    /// does.
    pub(super) fn run(self, lots: Vec<Work>, mut ended: impl FnMut(&str, Ended)) {
        let lots = Mutex::new(lots);
        let next = |only_what_waits| {
            let mut lots = lots.lock().unwrap_or_else(PoisonError::into_inner);
            next_of(&mut lots, only_what_waits)
        };

        thread::scope(|scope| {
            let (report, reports) = mpsc::channel();
            let computing = self.computing;
            for (number, mut worker) in self.workers.into_iter().enumerate() {
                let report = report.clone();
                let next = &next;
                scope.spawn(move || {
                    while let Some(lot) = next(number >= computing) {
                        worker.run_each(lot.names, &report);
                    }
                });
            }

            drop(report);
            for (name, outcome) in reports {
                ended(&name, outcome);
            }
        });
    }
}

fn next_of(lots: &mut Vec<Work>, only_what_waits: bool) -> Option<Work> {
    let first = |waits| lots.iter().position(|lot| lot.waits == waits);
    let place = match only_what_waits {
        true => first(true),
        false => first(false).or_else(|| first(true)),
    };
    place.map(|place| lots.remove(place))
}

/// One process.
pub(super) struct Worker {
    program: Program,
    process: Process,
}

/// What starts another one, should a case end its process.
struct Program {
    programs: PathBuf,
    logs: PathBuf,
    network: Network,
}

struct Process {
    child: Child,
    /// Cases go in; its end ends the process.
    cases: Option<ChildStdin>,
    endings: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts one in the machine's network.
    pub(super) fn at_home(programs: &Path, logs: &Path) -> Result<Worker> {
        Worker::start(programs, &logs.join("worker-apart"), Network::Machines)
    }

    fn start(programs: &Path, logs: &Path, network: Network) -> Result<Worker> {
        let program = Program {
            programs: programs.to_owned(),
            logs: logs.to_owned(),
            network,
        };
        let process = program.start()?;
        Ok(Worker { program, process })
    }

    /// Has the cases of these names run, one after the other, while the caller goes on, who hears
    /// of each how it ended.
    pub(super) fn run_meanwhile(mut self, names: Vec<String>) -> Receiver<(String, Ended)> {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || self.run_each(names, &tell));
        told
    }

    /// Has them run until nobody listens any more, or nobody wants to.
    fn run_each(&mut self, names: Vec<String>, tell: &Sender<(String, Ended)>) {
        for name in names {
            if interrupt::has_come() {
                return;
            }
            let ended = self.run(&name);
            if tell.send((name, ended)).is_err() {
                return;
            }
        }
    }

    fn run(&mut self, name: &str) -> Ended {
        self.process.run(name).unwrap_or_else(|error| {
            let again = self.program.start();
            let mut what = format!("the process that ran it is gone: {error:#}");
            match again {
                Ok(process) => self.process = process,
                Err(error) => what += &format!("; no other can be started: {error:#}"),
            }
            Ended {
                endings: Endings::One(Err(Stop::fail(what))),
                took: Duration::ZERO,
                logs: self.program.logs.clone(),
            }
        })
    }
}

impl Program {
    fn start(&self) -> Result<Process> {
        let program = std::env::current_exe().context("the path of this program")?;
        let mut command = match self.network {
            Network::Machines => Command::new(program),
            Network::Own => {
                let mut command = in_a_namespace();
                command.arg(program);
                command
            }
        };
        command.arg("worker").args([&self.programs, &self.logs]);

        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a process for cases")?;
        let endings = child.stdout.take().context("no standard output")?;
        let mut process = Process {
            cases: child.stdin.take(),
            endings: BufReader::new(endings),
            child,
        };

        match process.answer() {
            Ok(word) if word.trim() == READY => Ok(process),
            _ => bail!("network namespaces are not allowed here"),
        }
    }
}

impl Process {
    fn run(&mut self, name: &str) -> Result<Ended> {
        let cases = self.cases.as_mut().context("no standard input")?;
        writeln!(cases, "{name}").context("naming a case")?;
        let answer = self.answer()?;
        serde_json::from_str(&answer).with_context(|| answer.clone())
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.endings.read_line(&mut line).context("its answer")? {
            0 => bail!("{}", self.child.wait().context("its end")?),
            _ => Ok(line),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It stops its daemons and goes.
        drop(self.cases.take());
        let _ = self.child.wait();
    }
}

/// A command that runs the program appended to it in a network namespace with a loopback device
/// that is up, as the same user.
fn in_a_namespace() -> Command {
    let mut command = Command::new("unshare");
    let (user, group) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );

    match user {
        0 => command.args(["-n", "sh", "-c", r#"ip link set lo up && exec "$@""#, "sh"]),
        // Root of a user namespace brings the device up and becomes the user again, who has no more
        // rights than before.
        _ => command
            .args(["-Urn", "sh", "-c"])
            .arg(format!(
                r#"ip link set lo up && exec unshare -U --map-user={user} --map-group={group} "$@""#
            ))
            .arg("sh"),
    };

    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that answers as this script does.
    fn process(script: &str) -> Process {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Process {
            cases: child.stdin.take(),
            endings: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    #[test]
    fn what_waits_is_beside_what_computes() {
        let lot = |waits, name: &str| Work {
            waits,
            names: vec![name.to_owned()],
        };

        let mut lots = vec![
            lot(true, "cm"),
            lot(false, "verbs"),
            lot(true, "exs"),
            lot(false, "memcheck"),
        ];
        let mut next = |only_what_waits| Some(next_of(&mut lots, only_what_waits)?.names.remove(0));
        assert_eq!(next(false).as_deref(), Some("verbs"));
        assert_eq!(next(true).as_deref(), Some("cm"));
        assert_eq!(next(false).as_deref(), Some("memcheck"));
        assert_eq!(next(false).as_deref(), Some("exs"));
        assert_eq!(next(false), None);
        assert_eq!(next(true), None);
    }

    #[test]
    fn a_case_whose_process_dies_has_failed() {
        let ended = process("read name; exit 7").run("unit/x");
        assert_eq!(ended.err().unwrap().to_string(), "exit status: 7");
    }

    #[test]
    fn what_a_case_says_arrives_whole() {
        let failure = Stop::fail("two\nlines, \"quoted\"");
        let ended = Ended {
            endings: Endings::Many(vec![
                ("a".to_owned(), Ok(())),
                ("b".to_owned(), Err(failure)),
            ]),
            took: Duration::from_millis(1500),
            logs: PathBuf::from("logs/0007"),
        };

        let line = serde_json::to_string(&ended).unwrap();
        let mut process = process(&format!(
            r"read name; printf '%s\n' {}",
            crate::harness::process::quoted(&line)
        ));
        let said = process.run("unit/x").unwrap();
        assert_eq!((said.took, &said.logs), (ended.took, &ended.logs));
        let Endings::Many(parts) = said.endings else {
            panic!("one ending");
        };

        assert!(matches!(&parts[0], (name, Ok(())) if name == "a"));
        let Err(Stop::Fail(failure)) = &parts[1].1 else {
            panic!("no failure");
        };

        assert_eq!(failure.what, "two\nlines, \"quoted\"");
    }
}
