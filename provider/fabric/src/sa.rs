//! Asking the subnet administrator: questions are repeated until they are answered or it is too
//! late. The answer to GetTable comes in RMPP segments, which are acknowledged here. Where the
//! administrator is and what is asked for, the host says; so it does who else may speak for it.

use std::collections::HashMap;
use std::time::Duration;

use ferroce_wire::mad::Mad;
use ferroce_wire::sa::{self, DATA_LEN, SaMad, method};

use crate::cm::Time;
use crate::rmpp::{self, Receiver};

/// How long to wait for an answer before asking again.
const PERIOD: Duration = Duration::from_millis(500);
/// The most questions at a time.
const MOST: usize = 1 << 16;
/// The administrator has no time now: the status that every class has for it.
const BUSY: u16 = 1;
/// Method or attribute are unknown: what every port answers in whose place no administrator does.
const NOBODY: u16 = 0x000c;
/// No record fits.
const NO_RECORDS: u16 = 0x0300;

/// A question.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// By which port, from 1.
    pub port: u8,
    /// Method.
    pub method: u8,
    /// Attribute.
    pub attribute: u16,
    /// Which components of the record count.
    pub mask: u64,
    /// The record.
    pub data: Record,
    /// Ask again when there is no such record: there may be one by and by.
    pub patient: bool,
}

/// Why a question has no good answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody answered in time.
    TimedOut,
    /// There is no such record.
    NoRecord,
    /// The administrator refused, with this status.
    Refused(u16),
}

/// A record as it lies in a MAD, with zeros behind it.
pub type Record = [u8; DATA_LEN];

/// What became of a question. To GetTable the records are one or more, else one.
pub type Answer = Result<Vec<Record>, Failure>;

/// What is due at some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// What to send once more, with the ports.
    pub again: Vec<(u8, Mad)>,
    /// The questions that are given up.
    pub over: Vec<(u32, Answer)>,
}

#[derive(Debug)]
struct Pending {
    question: Question,
    again: Time,
    until: Time,
    /// The administrator has said that there is no such record.
    none: bool,
    /// What has come of a table.
    receiver: Receiver,
}

/// The questions of one node.
#[derive(Debug)]
pub struct SaClient {
    /// Upper half of the transaction IDs.
    mark: u32,
    last: u32,
    pending: HashMap<u32, Pending>,
}

impl SaClient {
    /// A client whose transaction IDs have `mark` as their upper half.
    pub fn new(mark: u32) -> Self {
        Self {
            mark,
            last: 0,
            pending: HashMap::new(),
        }
    }

    /// Asks, for as long as `patience`. Returns the question's number and its MAD; `None`: there
    /// are too many.
    pub fn ask(&mut self, now: Time, question: Question, patience: Duration) -> Option<(u32, Mad)> {
        if self.pending.len() >= MOST {
            return None;
        }

        loop {
            self.last = self.last.wrapping_add(1);
            if !self.pending.contains_key(&self.last) {
                break;
            }
        }

        let until = now + patience;
        let entry = Pending {
            question,
            again: (now + PERIOD).min(until),
            until,
            none: false,
            receiver: Receiver::default(),
        };
        self.pending.insert(self.last, entry);
        Some((self.last, self.mad(self.last, &question)))
    }

    /// Nobody waits for the answer any more.
    pub fn forget(&mut self, number: u32) {
        self.pending.remove(&number);
    }

    /// Whether a MAD that came to a port is the answer to a question of ours. The host has seen to
    /// it that it is the administrator's.
    pub fn is_ours(&self, port: u8, mad: &Mad) -> bool {
        self.find(port, mad).is_some()
    }

    fn find(&self, port: u8, mad: &Mad) -> Option<(u32, SaMad)> {
        let answer = SaMad::parse_answer(mad)?;
        let number = answer.tid as u32;
        let pending = self.pending.get(&number)?;
        let fits = (answer.tid >> 32) as u32 == self.mark
            && pending.question.port == port
            && pending.question.attribute == answer.attribute;
        fits.then_some((number, answer))
    }

    /// Takes an answer, or a segment of one; what acknowledges it is put into `acks`, with the
    /// port. `None`: it is none, not all of it, or one that is not final.
    pub fn receive(
        &mut self,
        port: u8,
        mad: &Mad,
        acks: &mut Vec<(u8, Mad)>,
    ) -> Option<(u32, Answer)> {
        let (number, answer) = self.find(port, mad)?;
        let pending = self.pending.get_mut(&number)?;
        let is_table = pending.question.method == method::GET_TABLE;
        let records = if is_table && rmpp::is_active(mad) {
            if rmpp::kind(mad) != rmpp::Kind::Data {
                return None;
            }
            let taken = pending.receiver.take(mad);
            acks.extend(taken.answer.map(|ack| (port, ack)));
            sa::table(&taken.end?.ok()?)
        } else {
            vec![answer.data]
        };

        let none = answer.status == NO_RECORDS || answer.status == 0 && records.is_empty();
        let answer = match answer.status {
            _ if none && pending.question.patient => {
                pending.none = true;
                pending.receiver = Receiver::default();
                return None;
            }
            _ if none => Err(Failure::NoRecord),
            0 => Ok(records),
            // There may be one by and by.
            BUSY | NOBODY => return None,
            status => Err(Failure::Refused(status)),
        };

        self.pending.remove(&number);
        Some((number, answer))
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn next_timeout(&self) -> Option<Time> {
        self.pending.values().map(|pending| pending.again).min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) -> Due {
        let (mut again, mut over) = (Vec::new(), Vec::new());
        for (number, pending) in &mut self.pending {
            if pending.until <= now {
                let failure = match pending.none {
                    true => Failure::NoRecord,
                    false => Failure::TimedOut,
                };
                over.push((*number, Err(failure)));
            } else if pending.again <= now {
                pending.again = (now + PERIOD).min(pending.until);
                // The answer to it begins with the first segment.
                pending.receiver = Receiver::default();
                again.push((*number, pending.question));
            }
        }

        for (number, _) in &over {
            self.pending.remove(number);
        }
        let again = again
            .iter()
            .map(|(number, question)| (question.port, self.mad(*number, question)));
        Due {
            again: again.collect(),
            over,
        }
    }

    fn mad(&self, number: u32, question: &Question) -> Mad {
        SaMad {
            method: question.method,
            status: 0,
            tid: u64::from(self.mark) << 32 | u64::from(number),
            attribute: question.attribute,
            mask: question.mask,
            data: question.data,
        }
        .emit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_wire::sa::attribute;

    const SECOND: Duration = Duration::from_secs(1);

    fn question(patient: bool) -> Question {
        Question {
            port: 1,
            method: method::GET,
            attribute: attribute::PATH_RECORD,
            mask: 0,
            data: [7; DATA_LEN],
            patient,
        }
    }

    fn answered(mad: &Mad, status: u16) -> Mad {
        let mut mad = *mad;
        mad[3] |= method::RESPONSE;
        mad[4..6].copy_from_slice(&status.to_be_bytes());
        mad
    }

    #[test]
    fn a_question_is_repeated_until_it_is_answered() {
        let (mut client, mut acks) = (SaClient::new(9), Vec::new());
        let (number, mad) = client.ask(Time::ZERO, question(false), 2 * SECOND).unwrap();
        assert_eq!(client.next_timeout(), Some(Time::ZERO + PERIOD));
        let due = client.handle_timeout(Time::ZERO + PERIOD);
        assert_eq!((due.again, due.over), (vec![(1, mad)], vec![]));
        // Nobody's answer, another port's, and one that is none.
        assert_eq!(client.receive(2, &answered(&mad, 0), &mut acks), None);
        assert_eq!(client.receive(1, &mad, &mut acks), None);
        assert_eq!(client.receive(1, &answered(&mad, BUSY), &mut acks), None);
        assert_eq!(client.receive(1, &answered(&mad, NOBODY), &mut acks), None);
        let answer = client.receive(1, &answered(&mad, 0), &mut acks);
        assert_eq!(answer, Some((number, Ok(vec![[7; DATA_LEN]]))));
        assert_eq!(client.receive(1, &answered(&mad, 0), &mut acks), None);
        assert_eq!(client.next_timeout(), None);
    }

    #[test]
    fn what_is_not_answered_is_given_up() {
        let (mut client, mut acks) = (SaClient::new(9), Vec::new());
        let (silent, _) = client.ask(Time::ZERO, question(true), SECOND).unwrap();
        let (absent, mad) = client.ask(Time::ZERO, question(true), SECOND).unwrap();
        assert_eq!(
            client.receive(1, &answered(&mad, NO_RECORDS), &mut acks),
            None
        );
        let Due { again, mut over } = client.handle_timeout(Time::ZERO + SECOND);
        over.sort_by_key(|(number, _)| *number);
        assert!(again.is_empty());
        assert_eq!(
            over,
            [
                (silent, Err(Failure::TimedOut)),
                (absent, Err(Failure::NoRecord))
            ]
        );

        let (refused, mad) = client.ask(Time::ZERO, question(false), SECOND).unwrap();
        let answer = client.receive(1, &answered(&mad, 0x0200), &mut acks);
        assert_eq!(answer, Some((refused, Err(Failure::Refused(0x0200)))));
    }

    #[test]
    fn a_table_comes_in_segments() {
        let (mut client, mut acks) = (SaClient::new(9), Vec::new());
        let table = Question {
            method: method::GET_TABLE,
            ..question(true)
        };
        let (number, mad) = client.ask(Time::ZERO, table, 2 * SECOND).unwrap();
        let answer = |records: &[u8]| {
            let mut message = answered(&mad, 0)[..sa::DATA].to_vec();
            message[45] = 22;
            for fill in records {
                message.extend([*fill; 176]);
            }
            rmpp::Sender::new(message).unwrap()
        };

        // No record yet: of no length, and as a status.
        let empty = answer(&[]).next().unwrap();
        assert_eq!(client.receive(1, &empty, &mut acks), None);
        let none = answered(&mad, NO_RECORDS);
        assert_eq!(client.receive(1, &none, &mut acks), None);

        let mut sender = answer(&[1, 2, 3]);
        let mut got = None;
        acks.clear();
        while got.is_none() {
            let segment = sender.next().unwrap();
            got = client.receive(1, &segment, &mut acks);
            for (port, ack) in acks.drain(..) {
                assert_eq!(port, 1);
                sender.answered(&ack);
            }
        }
        let (answered, records) = got.unwrap();
        let records = records.unwrap();
        assert_eq!((answered, records.len()), (number, 3));
        assert_eq!(records[2][..176], [3; 176]);
    }
}
