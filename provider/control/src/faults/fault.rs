//! A fault: what goes wrong, for whom, how often and for how long.

use std::fmt;

use ferroce_wire::{Operation, Packet};
use serde::{Deserialize, Serialize};

use super::{Delay, Errno, Expression, Nak, QpNumber, Share, Span, Status, Verb};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum Action {
    /// Packets are lost.
    Loss,
    /// Packets come later. Those of one queue pair keep their order.
    Delay {
        /// By how much.
        by: Delay,
    },
    /// Packets come twice.
    Duplicate,
    /// Packets are overtaken by the next of their queue pair.
    Reorder,
    /// Packets are changed on the way.
    Corrupt {
        /// Where.
        damage: Damage,
    },
    /// Requests that need a receive request are answered with an RNR NAK.
    Rnr,
    /// Requests are answered with a NAK.
    Nak {
        /// Which.
        code: Nak,
    },
    /// A work request that has succeeded completes with an error, and its queue pair fails.
    WcError {
        /// The completion's status.
        status: Status,
    },
    /// A verb fails.
    AllocFail {
        /// Which.
        verb: Verb,
        /// What it fails with.
        errno: Errno,
    },
    /// Connections of the connection manager are ended, now.
    Disconnect,
    /// The port is down.
    PortDown {
        /// Its number.
        port: u8,
    },
    /// An address is gone from the GID table.
    GidRemove {
        /// Its index.
        index: u16,
    },
    /// Requests for a connection are refused.
    CmReject {
        /// The reason in the REJ.
        reason: u16,
    },
}

/// Where a packet is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Damage {
    /// Behind the ICRC, by which the receiver notices and drops it.
    #[default]
    Icrc,
    /// Before the ICRC: a bit of the payload, which no CRC tells. The program gets wrong data.
    Payload,
}

/// Which way packets go, seen from the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// They leave.
    #[default]
    Out,
    /// They come.
    In,
}

/// For whom. What is not given is any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whom {
    /// The queue pair.
    pub qp: Option<QpNumber>,
    /// The queue pair at the other end.
    pub peer_qp: Option<QpNumber>,
    /// The program, by the name that the kernel has of it.
    pub program: Option<String>,
    /// The process.
    pub pid: Option<u32>,
    /// Which way packets go; for [`Action::WcError`] whether it is sends or receives.
    pub direction: Direction,
    /// Which packets.
    pub packets: Option<Expression>,
}

/// How often, of what the fault is about; for each queue pair by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Often {
    /// A random share of them.
    pub rate: Share,
    /// Only the nth, counted from 1.
    pub nth: Option<u64>,
    /// Only each nth.
    pub every: Option<u64>,
    /// So many and no more.
    pub count: Option<u64>,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What goes wrong.
    pub action: Action,
    /// For whom.
    pub whom: Whom,
    /// How often.
    pub often: Often,
    /// For how long; `None`: until it is cleared.
    pub lasts: Option<Span>,
    /// What chance follows from.
    pub seed: u64,
}

/// Who carries a fault out, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Packets that leave or come.
    Packets,
    /// Requests that come.
    Requests,
    /// Completions of a queue pair.
    Completions,
    /// Calls of a verb.
    Verbs,
    /// The daemon: connections.
    Connections,
    /// The daemon: the port.
    Port,
}

impl Action {
    /// What it is about.
    pub fn target(&self) -> Target {
        match self {
            Action::Loss
            | Action::Delay { .. }
            | Action::Duplicate
            | Action::Reorder
            | Action::Corrupt { .. } => Target::Packets,
            Action::Rnr | Action::Nak { .. } => Target::Requests,
            Action::WcError { .. } => Target::Completions,
            Action::AllocFail { .. } => Target::Verbs,
            Action::Disconnect | Action::CmReject { .. } => Target::Connections,
            Action::PortDown { .. } | Action::GidRemove { .. } => Target::Port,
        }
    }

    /// Whether it can happen to a packet at all: an adapter answers a WRITE with no RNR NAK, and a
    /// packet without payload has none that could be wrong.
    pub fn fits(&self, packet: &Packet<'_>) -> bool {
        let info = packet.info;
        match self {
            Action::Corrupt {
                damage: Damage::Payload,
            } => !packet.payload.is_empty(),
            // Where the receive request is taken: by the first packet of a SEND, by the last of a
            // WRITE with immediate data.
            Action::Rnr => match info.operation {
                Operation::Send => info.begins(),
                _ => info.consumes_receive(),
            },
            Action::Nak {
                code: Nak::RemoteAccess,
            } => packet.ext.reth.is_some() || packet.ext.atomic.is_some(),
            Action::Nak { .. } => info.is_request(),
            _ => true,
        }
    }

    /// Its option on the command line.
    pub fn option(&self) -> &'static str {
        match self {
            Action::Loss => "--loss",
            Action::Delay { .. } => "--delay",
            Action::Duplicate => "--duplicate",
            Action::Reorder => "--reorder",
            Action::Corrupt { .. } => "--corrupt",
            Action::Rnr => "--rnr",
            Action::Nak { .. } => "--nak",
            Action::WcError { .. } => "--wc-error",
            Action::AllocFail { .. } => "--alloc-fail",
            Action::Disconnect => "--disconnect",
            Action::PortDown { .. } => "--port-down",
            Action::GidRemove { .. } => "--gid-remove",
            Action::CmReject { .. } => "--cm-reject",
        }
    }
}

impl fmt::Display for Action {
    /// As on the command line, without the dashes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.option().trim_start_matches('-');
        match self {
            Action::Delay { by } => write!(f, "{name} {by}"),
            Action::Corrupt {
                damage: Damage::Icrc,
            } => write!(f, "{name} icrc"),
            Action::Corrupt {
                damage: Damage::Payload,
            } => write!(f, "{name} payload"),
            Action::Nak { code } => write!(f, "{name} {code}"),
            Action::WcError { status } => write!(f, "{name} {status}"),
            Action::AllocFail { verb, errno } => write!(f, "{name} {verb}={errno}"),
            Action::PortDown { port } => write!(f, "{name} {port}"),
            Action::GidRemove { index } => write!(f, "{name} {index}"),
            Action::CmReject { reason } => write!(f, "{name} {reason}"),
            _ => f.write_str(name),
        }
    }
}

/// The queue pair of messages: those of connection management, of agents, of performance.
const QP1: QpNumber = QpNumber(ferroce_wire::mad::QP1);

impl Fault {
    /// Whether it is about messages of QP1, which the daemon sends and receives for all programs.
    pub fn is_of_messages(&self) -> bool {
        self.whom.qp == Some(QP1)
    }
}

/// How much the kernel keeps of a program's name (`TASK_COMM_LEN`), without the last NUL.
const COMM: usize = 15;

impl Whom {
    /// Whether it may be this program. A process of another namespace, which is not seen from the
    /// daemon's, has no number.
    pub fn includes(&self, program: &str, pid: u32) -> bool {
        let name = self.program.as_deref().is_none_or(|wanted| {
            // Cut in the middle of a character, what is left of that is shown as none.
            let kept = &wanted.as_bytes()[..wanted.len().min(COMM)];
            program == String::from_utf8_lossy(kept) || program == wanted
        });
        name && self.pid.is_none_or(|wanted| wanted == pid)
    }
}
