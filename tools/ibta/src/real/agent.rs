//! The tester's end of the connection to the agent: commands out, answers in, and every wait
//! bounded.
//!
//! An agent that has once not answered in time is not spoken to again, since its answer may still
//! come.

use super::stream::Stream;
use super::witness::{Wait, Witness};
use crate::protocol::{Command, Reply};
use anyhow::{Context, Result, anyhow, bail};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{self, Child, Stdio};
use std::time::{Duration, Instant};

/// How long an agent may take over a command, beside the waiting that the command asks for.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// The longest answer that is read, in bytes: memory, in text.
const MAX_ANSWER: usize = 64 << 20;

/// An agent that listens.
pub struct Agent {
    stream: Stream,
    name: String,
    process: Option<Spawned>,
    /// What was received and is not a whole answer yet.
    received: Vec<u8>,
    patience: Duration,
    lost: bool,
}

/// An agent that was started here, and what it says at standard error.
struct Spawned {
    child: Child,
    errors: File,
}

impl Agent {
    /// Starts an agent. `command` serves a tester at standard input and output.
    ///
    /// # Errors
    /// If there is no such program.
    pub fn spawn(mut command: process::Command) -> Result<Agent> {
        let (ours, its) = UnixStream::pair().context("making a pair of sockets")?;
        let errors = tempfile::tempfile().context("making a temporary file")?;
        let child = command
            .stdin(Stdio::from(OwnedFd::from(its.try_clone()?)))
            .stdout(Stdio::from(OwnedFd::from(its)))
            .stderr(Stdio::from(errors.try_clone()?))
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;

        Ok(Agent {
            name: format!("the agent (process {})", child.id()),
            stream: Stream::Local(ours),
            process: Some(Spawned { child, errors }),
            received: Vec::new(),
            patience: PATIENCE,
            lost: false,
        })
    }

    /// Connects to an agent that listens at an address.
    ///
    /// # Errors
    /// If nobody does.
    pub fn connect(address: SocketAddr) -> Result<Agent> {
        let name = format!("the agent at {address}");
        let stream = TcpStream::connect_timeout(&address, CONNECT)
            .with_context(|| format!("{name} cannot be reached"))?;
        stream.set_nodelay(true)?;
        Ok(Agent {
            stream: Stream::Remote(stream),
            name,
            process: None,
            received: Vec::new(),
            patience: PATIENCE,
            lost: false,
        })
    }

    /// The addresses of the two ends, if it is connected over a network: the tester's, the agent's.
    pub fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        match &self.stream {
            Stream::Local(_) => None,
            Stream::Remote(stream) => Some((stream.local_addr().ok()?, stream.peer_addr().ok()?)),
        }
    }

    /// Whether it can still be spoken to.
    pub fn is_there(&self) -> bool {
        !self.lost
    }

    /// Has a command carried out.
    ///
    /// # Errors
    /// If the agent has gone, or does not answer in time.
    pub fn call(&mut self, command: &Command) -> Result<Reply> {
        if self.lost {
            bail!("{} is not spoken to any more", self.name);
        }
        let answer = self.exchange(command);
        self.lost = answer.is_err();
        answer
    }

    /// Has a command carried out; one that waits, for as long as it says of time in which the
    /// machine runs.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_awake(&mut self, command: &Command, witness: &Witness) -> Result<Reply> {
        let wait = Wait::new(waits(command));
        let mut reply = self.call(command)?;
        while let Some(command) = rest(command, &reply, wait.left(witness)) {
            add(&mut reply, self.call(&command)?);
        }
        Ok(reply)
    }

    fn exchange(&mut self, command: &Command) -> Result<Reply> {
        let deadline = Instant::now() + self.patience + waits(command);
        let mut line = serde_json::to_vec(command)?;
        line.push(b'\n');
        if let Err(error) = self.stream.write(&line, deadline) {
            return Err(self.gone(error, "takes no commands"));
        }
        match self.read_line(deadline) {
            Ok(line) => serde_json::from_slice(&line)
                .with_context(|| format!("{} answered what is no answer", self.name)),
            Err(error) => Err(self.gone(error, "does not answer")),
        }
    }

    fn read_line(&mut self, deadline: Instant) -> std::io::Result<Vec<u8>> {
        let mut buffer = [0; 1 << 16];
        let mut looked = 0;
        loop {
            let unread = &mut self.received;
            if let Some(end) = unread[looked..].iter().position(|byte| *byte == b'\n') {
                let rest = unread.split_off(looked + end + 1);
                return Ok(std::mem::replace(unread, rest));
            }

            looked = unread.len();
            if looked > MAX_ANSWER {
                return Err(ErrorKind::FileTooLarge.into());
            }

            let len = self.stream.read(&mut buffer, deadline)?;
            unread.extend_from_slice(&buffer[..len]);
        }
    }

    /// What a broken connection means, for people.
    fn gone(&mut self, error: std::io::Error, how: &str) -> anyhow::Error {
        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
            let name = &self.name;
            return anyhow!("{name} {how}: nothing for {} s", self.patience.as_secs());
        }

        let Some(spawned) = &mut self.process else {
            return anyhow!("{} has gone: {error}", self.name);
        };

        // It closed its end, so it is about to end.
        let ended = wait(&mut spawned.child, Duration::from_secs(2));
        let mut said = Vec::new();
        let _ = spawned.errors.rewind();
        let _ = (&mut spawned.errors).take(1 << 16).read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        let said = said.trim().trim_start_matches("ferroce-ibta: ").to_owned();
        match (said.is_empty(), ended) {
            (false, _) => anyhow!(said),
            (true, Some(status)) => anyhow!("{} has ended: {status}", self.name),
            (true, None) => anyhow!("{} has gone: {error}", self.name),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let Some(spawned) = &mut self.process else {
            return;
        };
        // One that still listens ends by itself when its input closes, and gives the device back.
        if let (false, Stream::Local(stream)) = (self.lost, &self.stream) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            if wait(&mut spawned.child, Duration::from_secs(2)).is_some() {
                return;
            }
        }
        let _ = spawned.child.kill();
        let _ = spawned.child.wait();
    }
}

/// How long the agent waits for what it is asked for.
fn waits(command: &Command) -> Duration {
    match command {
        Command::Poll { within, .. } | Command::Events { within } => *within,
        _ => Duration::ZERO,
    }
}

/// What is to be asked again if so much of the wait is left: what has not come.
fn rest(command: &Command, reply: &Reply, left: Duration) -> Option<Command> {
    if left.is_zero() {
        return None;
    }

    match (command, reply) {
        (
            Command::Poll {
                qp, queue, at_most, ..
            },
            Reply::Completions { completions },
        ) if completions.len() < *at_most as usize => Some(Command::Poll {
            qp: *qp,
            queue: *queue,
            at_most: at_most - completions.len() as u32,
            within: left,
        }),
        (Command::Events { .. }, Reply::Events { events }) if events.is_empty() => {
            Some(Command::Events { within: left })
        }
        _ => None,
    }
}

/// What came when it was asked again. A refusal takes the place of everything.
fn add(reply: &mut Reply, more: Reply) {
    match (reply, more) {
        (Reply::Completions { completions }, Reply::Completions { completions: more }) => {
            completions.extend(more);
        }
        (reply, more) => *reply = more,
    }
}

/// Waits for a process to end; `None` if it has not by then.
pub(super) fn wait(child: &mut Child, within: Duration) -> Option<process::ExitStatus> {
    let deadline = Instant::now() + within;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Completion, Side};
    use socket2::{Domain, Socket, Type};

    fn shell(script: &str) -> Agent {
        let mut command = process::Command::new("sh");
        command.args(["-c", script]);
        let mut agent = Agent::spawn(command).unwrap();
        agent.patience = Duration::from_millis(300);
        agent
    }

    #[test]
    fn an_answer_is_read() {
        let mut agent =
            shell(r#"read a; echo '{"reply":"done"}'; read b; echo '{"reply":"srq","srq":3}'"#);
        assert_eq!(agent.call(&Command::Reset).unwrap(), Reply::Done);
        assert_eq!(
            agent.call(&Command::Reset).unwrap(),
            Reply::Srq { srq: 3, number: 0 }
        );
    }

    #[test]
    fn what_has_not_come_is_asked_for_again() {
        let within = Duration::from_secs(1);
        let poll = |at_most, within| Command::Poll {
            qp: 7,
            queue: Side::Send,
            at_most,
            within,
        };

        let one = || Reply::Completions {
            completions: vec![Completion::default()],
        };
        let left = Duration::from_millis(50);
        assert_eq!(
            rest(&poll(3, within), &one(), left),
            Some(poll(2, left)),
            "two of three have not come"
        );

        assert_eq!(rest(&poll(3, within), &one(), Duration::ZERO), None);
        assert_eq!(rest(&poll(1, within), &one(), left), None);
        let events = Command::Events { within };
        let none = Reply::Events { events: vec![] };
        let again = Some(Command::Events { within: left });
        assert_eq!(rest(&events, &none, left), again);
        assert_eq!(rest(&Command::Reset, &Reply::Done, left), None);
        let mut both = one();
        add(&mut both, one());
        assert!(matches!(both, Reply::Completions { completions } if completions.len() == 2));
    }

    #[test]
    fn one_that_does_not_answer_is_given_up() {
        let mut agent = shell("sleep 60");
        let began = Instant::now();
        let error = agent.call(&Command::Reset).unwrap_err().to_string();
        assert!(error.contains("does not answer"), "{error}");
        assert!(!agent.is_there() && agent.call(&Command::Reset).is_err());
        drop(agent);
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn one_that_takes_nothing_is_given_up() {
        let mut agent = shell("sleep 60");
        let command = Command::WriteMemory {
            addr: 0,
            data: vec![0; 4 << 20],
        };
        let error = agent.call(&command).unwrap_err().to_string();
        assert!(error.contains("takes no commands"), "{error}");
    }

    #[test]
    fn one_that_ends_says_why() {
        let mut agent = shell("echo no such device >&2; exit 2");
        let error = agent.call(&Command::Reset).unwrap_err().to_string();
        assert_eq!(error, "no such device");
        let mut agent = shell("read a; exit 3");
        let error = agent.call(&Command::Reset).unwrap_err().to_string();
        assert!(
            error.contains("has ended") && error.contains('3'),
            "{error}"
        );
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let mut agent = shell("read a; echo hello");
        let error = agent.call(&Command::Reset).unwrap_err().to_string();
        assert!(error.contains("no answer"), "{error}");
    }

    #[test]
    fn nobody_is_at_an_address() {
        // Taken, so that nobody else gets it meanwhile, and nobody listens.
        let taken = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        taken.bind(&any.into()).unwrap();
        let address = taken.local_addr().unwrap().as_socket().unwrap();
        let error = Agent::connect(address).err().unwrap().to_string();
        assert!(error.contains("cannot be reached"), "{error}");
    }
}
