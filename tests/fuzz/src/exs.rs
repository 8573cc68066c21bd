//! One end of an EXS connection whose peer says whatever it likes: it goes on or calls it a
//! violation, and what it then does stays within its own memory and the peer's slots.

use arbitrary::{Arbitrary, Unstructured};
use exs::proto::message::{HEADER, Header, Kind};
use exs::proto::{Action, Limits, Machine};

const SLOTS: u16 = 8;

pub(crate) const LIMITS: Limits = Limits {
    messages: false,
    peer_data: SLOTS,
    peer_control: SLOTS,
    own_data: SLOTS,
    own_control: SLOTS,
    payload: 4096,
    data_posts: 4,
    control_posts: 8,
    rdma_posts: 3,
    piece: 20_000,
    immediates: false,
};

#[derive(Arbitrary, Debug)]
enum Step {
    Send {
        length: u32,
        end: bool,
        exposable: bool,
    },
    Receive {
        length: u32,
        fill: bool,
        exposable: bool,
    },
    Message([u8; HEADER]),
    Sensible {
        kind: u8,
        flags: u8,
        credits: (u8, u8),
        length: u32,
        items: u8,
    },
    Completed,
    Finish,
    Stop,
    Gone,
    Immediate {
        written: bool,
        flags: u8,
        credits: (u8, u8),
        spare: bool,
        length: u32,
    },
}

/// What the driver has to know of the operations.
#[derive(Default)]
struct Driver {
    /// Lengths of all sends and all receives, and how many of them are over.
    sends: Vec<u64>,
    receives: Vec<u64>,
    sent: u64,
    received: u64,
    /// What each receive slot holds, in bytes, while the machine has it.
    slots: Vec<Option<u64>>,
    posted: usize,
}

impl Driver {
    fn act(&mut self, machine: &mut Machine) {
        while let Some(action) = machine.action() {
            match action {
                Action::Send {
                    header, payload, ..
                } => {
                    self.posted += 1;
                    if let Some((op, offset)) = payload {
                        self.inside(&self.sends, op, offset, header.length);
                    }
                }
                Action::Write {
                    op, offset, length, ..
                } => {
                    self.posted += 1;
                    self.inside(&self.sends, op, offset, length);
                }
                Action::Read {
                    op, offset, length, ..
                } => {
                    self.posted += 1;
                    self.inside(&self.receives, op, offset, length);
                }
                Action::Fetch { op, offset, length } => {
                    self.inside(&self.receives, op, offset, length);
                }
                Action::Copy {
                    op,
                    offset,
                    slot,
                    start,
                    length,
                } => {
                    self.inside(&self.receives, op, offset, length);
                    let there = self.slots[slot as usize].expect("the slot is the machine's");
                    assert!(start + length <= there);
                }
                Action::Repost { slot } => {
                    assert!(self.slots[slot as usize].take().is_some());
                }
                Action::Sent { op, length, .. } => {
                    assert_eq!(op, self.sent);
                    assert!(length <= self.sends[op as usize]);
                    self.sent += 1;
                }
                Action::Received { op, length, .. } => {
                    assert_eq!(op, self.received);
                    assert!(length <= self.receives[op as usize]);
                    self.received += 1;
                }
            }
        }
    }

    fn inside(&self, operations: &[u64], op: u64, offset: u64, length: u64) {
        assert!(offset + length <= operations[op as usize]);
    }

    /// Takes immediate data as the connection does, with the slot that they take.
    fn immediate(
        &mut self,
        machine: &mut Machine,
        kind: Kind,
        immediate: u32,
        length: u64,
    ) -> bool {
        let Some(slot) = self.slots.iter().position(Option::is_none) else {
            return true;
        };
        self.slots[slot] = Some(length);
        machine
            .immediate(slot as u32, kind, immediate, length)
            .is_ok()
    }

    /// Takes a message as the connection does: it needs a slot that is posted.
    fn message(&mut self, machine: &mut Machine, bytes: &[u8], taken: &mut bool) -> bool {
        let Some(header) = Header::parse(bytes) else {
            return true;
        };
        let Some(slot) = self.slots.iter().position(Option::is_none) else {
            return true;
        };
        self.slots[slot] = Some(bytes.len() as u64);
        let good = machine.message(slot as u32, &header).is_ok();
        *taken |= good;
        good
    }
}

/// One connection under any sequence of these. Returns whether a message of the peer's was taken.
pub fn run(input: &[u8]) -> bool {
    let mut input = Unstructured::new(input);
    let messages = input.arbitrary().unwrap_or(false);
    let immediates = input.arbitrary().unwrap_or(false);
    let limits = Limits {
        messages,
        immediates,
        ..LIMITS
    };
    drive(limits, input)
}

/// The same with the limits that follow from what the peer's hello said.
pub(crate) fn drive(limits: Limits, mut input: Unstructured<'_>) -> bool {
    let mut machine = Machine::new(limits);
    let mut taken = false;
    let mut driver = Driver {
        slots: vec![None; usize::from(2 * SLOTS)],
        ..Driver::default()
    };

    while let Ok(step) = input.arbitrary::<Step>() {
        if input.is_empty() || driver.sends.len() + driver.receives.len() > 256 {
            break;
        }

        let good = match step {
            Step::Send {
                length,
                end,
                exposable,
            } => {
                driver.sends.push((length % 100_000).into());
                machine.send((length % 100_000).into(), end, exposable);
                true
            }
            Step::Receive {
                length,
                fill,
                exposable,
            } => {
                driver.receives.push((length % 100_000).into());
                machine.receive((length % 100_000).into(), fill, exposable);
                true
            }
            Step::Immediate {
                written,
                flags,
                credits,
                spare,
                length,
            } => {
                let bits = u32::from(flags & 7)
                    | u32::from(credits.0) << 3
                    | u32::from(credits.1) << 17
                    | u32::from(spare) << 31;
                let kind = if written { Kind::Written } else { Kind::Data };
                let good = driver.immediate(&mut machine, kind, bits, length.into());
                taken |= good;
                good
            }
            Step::Message(bytes) => driver.message(&mut machine, &bytes, &mut taken),
            Step::Sensible {
                kind,
                flags,
                credits,
                length,
                items,
            } => {
                let bytes = sensible(kind, flags, credits, length, items);
                driver.message(&mut machine, &bytes, &mut taken)
            }
            Step::Completed => {
                if driver.posted > 0 {
                    driver.posted -= 1;
                    machine.completed();
                }
                true
            }
            Step::Finish => {
                machine.finish();
                true
            }
            Step::Stop => {
                machine.stop();
                true
            }
            Step::Gone => {
                driver.posted = 0;
                machine.gone();
                true
            }
        };

        driver.act(&mut machine);

        // A violation is the end of the connection.
        if !good {
            break;
        }
    }

    machine.gone();
    machine.stop();
    driver.act(&mut machine);
    assert_eq!(machine.sending(), 0);
    taken
}

/// A message that is likely to mean something, with its payload behind it.
fn sensible(kind: u8, flags: u8, credits: (u8, u8), length: u32, items: u8) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    let mut header = Header::new(Kind::Data);
    header.data_credit = credits.0.into();
    header.control_credit = credits.1.into();
    header.length = u64::from(length) % 50_000;
    header.address = 0x1000;
    header.key = 7;
    header.items = items.into();
    bytes.copy_from_slice(&header.encode());
    bytes[0] = kind % 10;
    bytes[1] = flags & 0xf;
    if bytes[0] == Kind::Data as u8 {
        let length = header.length % (LIMITS.payload + 1);
        bytes[8..16].copy_from_slice(&length.to_be_bytes());
        bytes.resize(HEADER + length as usize, 0);
    }

    bytes
}
