//! Whether the parts of a fault go together, in words for who has given them.

use super::{Action, Damage, Direction, Expression, Fault, QpNumber, Share, Target};
use crate::protocol::MAX_NAME;

/// Why a fault makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Two parts do not go together.
    #[error("{option} means nothing to {action}, {why}")]
    Means {
        /// The part.
        option: &'static str,
        /// The fault's.
        action: &'static str,
        /// What the fault is about.
        why: &'static str,
    },
    /// A number is out of its range.
    #[error("{option} counts from 1")]
    Zero {
        /// Of what.
        option: &'static str,
    },
    /// Two parts contradict each other.
    #[error("{first} and {second} contradict each other: give one of them")]
    Contradict {
        /// The one.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// Queue pair 0 is the subnet manager's and the switches', and spared.
    #[error(
        "{option} is 1 to 0xffffff: no program has queue pair 0, whose packets, of subnet management, meet no \
         faults"
    )]
    Zeroth {
        /// Whose number it is.
        option: &'static str,
    },
    /// A name is too long, or there is none.
    #[error("a program's name has 1 to {MAX_NAME} bytes")]
    Name,
}

impl Fault {
    /// Whether its parts go together.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), Unfit> {
        let Fault {
            whom, often, lasts, ..
        } = self;
        let target = self.action.target();
        let of_qp = matches!(
            target,
            Target::Packets | Target::Requests | Target::Completions
        );
        let of_packets = matches!(target, Target::Packets | Target::Requests);
        let of_port = target == Target::Port;
        let at_once = self.action == Action::Disconnect;

        let parts = [
            ("--qp", whom.qp.is_some(), of_qp),
            ("--peer-qp", whom.peer_qp.is_some(), of_qp),
            ("--match", whom.packets.is_some(), of_packets),
            ("--in", whom.direction == Direction::In, of_qp),
            ("--program", whom.program.is_some(), !of_port),
            ("--pid", whom.pid.is_some(), !of_port),
            ("--rate", often.rate != Share::ALL, !of_port && !at_once),
            ("--nth", often.nth.is_some(), !of_port && !at_once),
            ("--every", often.every.is_some(), !of_port && !at_once),
            ("--count", often.count.is_some(), !of_port && !at_once),
            ("--for", lasts.is_some(), !at_once),
        ];
        let why = match target {
            Target::Connections if at_once => "which ends connections once, now",
            Target::Connections => "which is about requests for connections",
            Target::Port => "which is about the port",
            Target::Verbs => "which is about calls of a verb",
            _ => "which is about completions",
        };
        if let Some((option, ..)) = parts.iter().find(|(_, given, fits)| *given && !fits) {
            let action = self.action.option();
            return Err(Unfit::Means {
                option,
                action,
                why,
            });
        }

        self.check_messages()?;

        let counts = [
            ("--nth", often.nth),
            ("--every", often.every),
            ("--count", often.count),
        ];
        if let Some((option, _)) = counts.iter().find(|(_, n)| *n == Some(0)) {
            return Err(Unfit::Zero { option });
        }
        // The Nth alone, and each Nth: met by packets that are both, which nobody means.
        if often.nth.is_some() && often.every.is_some() {
            let (first, second) = ("--nth", "--every");
            return Err(Unfit::Contradict { first, second });
        }
        let numbers = [("--qp", whom.qp), ("--peer-qp", whom.peer_qp)];
        if let Some((option, _)) = numbers.iter().find(|(_, qp)| *qp == Some(QpNumber(0))) {
            return Err(Unfit::Zeroth { option });
        }
        match &whom.program {
            Some(name) if name.is_empty() || name.len() > MAX_NAME => Err(Unfit::Name),
            _ => Ok(()),
        }
    }

    /// Messages of QP1 are the daemon's, and meet no faults but those that ask for them.
    fn check_messages(&self) -> Result<(), Unfit> {
        let Fault { action, whom, .. } = self;
        let unfit = |option, why| {
            let action = action.option();
            Err(Unfit::Means {
                option,
                action,
                why,
            })
        };
        if !self.is_of_messages() {
            let asks = whom
                .packets
                .as_ref()
                .is_some_and(Expression::is_of_messages);
            return match asks {
                true => unfit("cm", "unless `--qp 1` says that it is about messages"),
                false => Ok(()),
            };
        }

        let icrc = Action::Corrupt {
            damage: Damage::Icrc,
        };
        if action.target() != Target::Packets {
            return unfit(
                "--qp 1",
                "as that sends and receives datagrams of the daemon's",
            );
        }
        if *action == icrc {
            return unfit("--qp 1", "whose damaged packets are lost: `--loss`");
        }
        if whom.program.is_some() || whom.pid.is_some() {
            return unfit("--program", "as QP1 is for all programs");
        }
        Ok(())
    }
}
