//! What makes a fault: the options of the command line, which are the keys of a scenario file, and
//! of `ferroce_dv_fault_add(3)`, too.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

use super::{
    Action, Damage, Delay, Direction, Errno, Expression, Fault, Nak, Often, QpNumber, Share, Span,
    Status, TextError, Verb, Whom,
};

/// The parts of a fault, as they are given.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "command-line", derive(clap::Args))]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Options {
    /// Packets are lost, a random share of them, as in 1%
    #[cfg_attr(
        feature = "command-line",
        arg(long, value_name = "SHARE", help_heading = "What goes wrong, one of")
    )]
    pub loss: Option<Share>,
    /// Packets that match the expression are lost
    #[cfg_attr(
        feature = "command-line",
        arg(long, value_name = "EXPR", help_heading = "What goes wrong, one of")
    )]
    pub drop: Option<Expression>,
    /// Packets come later, as in 1ms or 1ms±200us (or 1ms+-200us); those of a queue pair keep their
    /// order
    #[cfg_attr(
        feature = "command-line",
        arg(long, value_name = "TIME", help_heading = "What goes wrong, one of")
    )]
    pub delay: Option<Delay>,
    /// Packets come twice
    #[cfg_attr(
        feature = "command-line",
        arg(long, help_heading = "What goes wrong, one of")
    )]
    pub duplicate: bool,
    /// Packets are overtaken by the next one of their queue pair
    #[cfg_attr(
        feature = "command-line",
        arg(long, help_heading = "What goes wrong, one of")
    )]
    pub reorder: bool,
    /// A bit of packets is turned over: behind the ICRC, so that they are dropped as damaged, or
    /// in the payload before it, so that the program gets wrong data
    #[cfg_attr(feature = "command-line", arg(long, value_name = "WHERE", num_args = 0..=1, default_missing_value = "icrc", value_enum, help_heading = "What goes wrong, one of"))]
    pub corrupt: Option<Where>,
    /// Requests that take a receive request are answered with an RNR NAK
    #[cfg_attr(
        feature = "command-line",
        arg(long, help_heading = "What goes wrong, one of")
    )]
    pub rnr: bool,
    /// Requests are answered with a NAK: psn, invalid-request, remote-access, remote-operation
    #[cfg_attr(
        feature = "command-line",
        arg(long, value_name = "CODE", help_heading = "What goes wrong, one of")
    )]
    pub nak: Option<Nak>,
    /// A send request (with --in a receive request) that has succeeded completes with this status,
    /// as retry-exc, and its queue pair fails
    #[cfg_attr(
        feature = "command-line",
        arg(long, value_name = "STATUS", help_heading = "What goes wrong, one of")
    )]
    pub wc_error: Option<Status>,
    /// A verb fails, as create_qp, with ENOMEM or another errno
    #[cfg_attr(
        feature = "command-line",
        arg(
            long,
            value_name = "VERB[=ERRNO]",
            help_heading = "What goes wrong, one of"
        )
    )]
    pub alloc_fail: Option<AllocFail>,
    /// Connections of rdma_cm are ended once, now
    #[cfg_attr(
        feature = "command-line",
        arg(long, help_heading = "What goes wrong, one of")
    )]
    pub disconnect: bool,
    /// The port is down
    #[cfg_attr(feature = "command-line", arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "1", help_heading = "What goes wrong, one of"))]
    pub port_down: Option<u8>,
    /// An entry of the GID table is gone
    #[cfg_attr(feature = "command-line", arg(long, value_name = "INDEX", num_args = 0..=1, default_missing_value = "0", help_heading = "What goes wrong, one of"))]
    pub gid_remove: Option<u16>,
    /// Requests for a connection of rdma_cm are refused with this reason, as 28
    #[cfg_attr(
        feature = "command-line",
        arg(long, value_name = "REASON", help_heading = "What goes wrong, one of")
    )]
    pub cm_reject: Option<u16>,

    /// The queue pair of this number; 1: messages of connection management
    #[cfg_attr(
        feature = "command-line",
        arg(long, value_name = "QPN", help_heading = "For whom")
    )]
    pub qp: Option<QpNumber>,
    /// Queue pairs that are connected to the one of this number
    #[cfg_attr(
        feature = "command-line",
        arg(long, value_name = "QPN", help_heading = "For whom")
    )]
    pub peer_qp: Option<QpNumber>,
    /// Programs of this name
    #[cfg_attr(
        feature = "command-line",
        arg(long, value_name = "NAME", help_heading = "For whom")
    )]
    pub program: Option<String>,
    /// The process
    #[cfg_attr(
        feature = "command-line",
        arg(long, value_name = "PID", help_heading = "For whom")
    )]
    pub pid: Option<u32>,
    /// Packets that come, not those that leave
    #[cfg_attr(feature = "command-line", arg(long = "in", help_heading = "For whom"))]
    #[serde(rename = "in")]
    pub incoming: bool,
    /// Packets that match the expression
    #[cfg_attr(
        feature = "command-line",
        arg(long = "match", value_name = "EXPR", help_heading = "For whom")
    )]
    #[serde(rename = "match")]
    pub packets: Option<Expression>,

    /// A random share, as in 1%
    #[cfg_attr(
        feature = "command-line",
        arg(long, value_name = "SHARE", help_heading = "How often and how long")
    )]
    pub rate: Option<Share>,
    /// Only the Nth packet (or what it is about) of each queue pair, which is lost if nothing else
    /// is said
    #[cfg_attr(
        feature = "command-line",
        arg(
            long,
            value_name = "N",
            conflicts_with = "every",
            help_heading = "How often and how long"
        )
    )]
    pub nth: Option<u64>,
    /// Each Nth, likewise
    #[cfg_attr(
        feature = "command-line",
        arg(long, value_name = "N", help_heading = "How often and how long")
    )]
    pub every: Option<u64>,
    /// So often and no more, for each queue pair
    #[cfg_attr(
        feature = "command-line",
        arg(long, value_name = "N", help_heading = "How often and how long")
    )]
    pub count: Option<u64>,
    /// For so long, as in 10s [default: until it is cleared]
    #[cfg_attr(
        feature = "command-line",
        arg(
            long = "for",
            value_name = "TIME",
            help_heading = "How often and how long"
        )
    )]
    #[serde(rename = "for")]
    pub lasts: Option<Span>,
    /// What chance follows from [default: another one each time]
    #[cfg_attr(
        feature = "command-line",
        arg(long, value_name = "N", help_heading = "How often and how long")
    )]
    pub seed: Option<u64>,
}

/// Where a packet is changed.
#[derive(Clone, Copy, Debug, Deserialize)]
#[cfg_attr(feature = "command-line", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// Behind the ICRC: the receiver drops it
    Icrc,
    /// Before the ICRC: nobody notices
    Payload,
}

/// A verb and what it fails with.
#[derive(Clone, Copy, Debug)]
pub struct AllocFail {
    verb: Verb,
    errno: Errno,
}

impl FromStr for AllocFail {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        Ok(match text.split_once('=') {
            Some((verb, errno)) => Self {
                verb: verb.parse()?,
                errno: errno.parse()?,
            },
            None => Self {
                verb: text.parse()?,
                errno: Errno::NOMEM,
            },
        })
    }
}

impl<'de> Deserialize<'de> for AllocFail {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl Options {
    /// The fault that they make, or what is wrong with them. `seed` is for one that has none.
    pub fn fault(&self, seed: u64) -> Result<Fault, String> {
        let action = self.action()?;
        let (rate, packets) = match action {
            Action::Loss => (
                one("--loss", self.loss, "--rate", self.rate)?,
                one("--drop", self.drop.clone(), "--match", self.packets.clone())?,
            ),
            _ => (self.rate, self.packets.clone()),
        };

        let fault = Fault {
            action,
            whom: Whom {
                qp: self.qp,
                peer_qp: self.peer_qp,
                program: self.program.clone(),
                pid: self.pid,
                direction: match self.incoming {
                    true => Direction::In,
                    false => Direction::Out,
                },
                packets,
            },
            often: Often {
                rate: rate.unwrap_or_default(),
                nth: self.nth,
                every: self.every,
                count: self.count,
            },
            lasts: self.lasts,
            seed: self.seed.unwrap_or(seed),
        };
        fault.check().map_err(|unfit| unfit.to_string())?;
        Ok(fault)
    }

    /// What goes wrong.
    fn action(&self) -> Result<Action, String> {
        let damage = |at| match at {
            Where::Icrc => Damage::Icrc,
            Where::Payload => Damage::Payload,
        };
        let lost = self.loss.is_some() || self.drop.is_some();
        let given = [
            lost.then_some(Action::Loss),
            self.delay.map(|by| Action::Delay { by }),
            self.duplicate.then_some(Action::Duplicate),
            self.reorder.then_some(Action::Reorder),
            self.corrupt
                .map(|at| Action::Corrupt { damage: damage(at) }),
            self.rnr.then_some(Action::Rnr),
            self.nak.map(|code| Action::Nak { code }),
            self.wc_error.map(|status| Action::WcError { status }),
            self.alloc_fail
                .map(|AllocFail { verb, errno }| Action::AllocFail { verb, errno }),
            self.disconnect.then_some(Action::Disconnect),
            self.port_down.map(|port| Action::PortDown { port }),
            self.gid_remove.map(|index| Action::GidRemove { index }),
            self.cm_reject.map(|reason| Action::CmReject { reason }),
        ];

        let mut given = given.into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(action), None) => Ok(action),
            (Some(first), Some(second)) => Err(format!(
                "{} and {} are two faults: add one after the other",
                first.option(),
                second.option()
            )),
            (None, _) if self.nth.is_some() || self.every.is_some() => Ok(Action::Loss),
            (None, _) => Err(
                "what is to go wrong? --loss, --drop, --delay, --duplicate, --reorder, --corrupt, --rnr, --nak, \
                 --wc-error, --alloc-fail, --disconnect, --port-down, --gid-remove or --cm-reject"
                    .to_owned(),
            ),
        }
    }
}

/// One of two options that say the same.
fn one<T>(
    name: &str,
    value: Option<T>,
    other: &str,
    second: Option<T>,
) -> Result<Option<T>, String> {
    match (value, second) {
        (Some(_), Some(_)) => Err(format!("{name} and {other} say the same: give one of them")),
        (value, second) => Ok(value.or(second)),
    }
}
