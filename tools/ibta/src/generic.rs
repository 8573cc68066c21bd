//! Mutants that are for no test in particular: one member of every completion, or one field of
//! every packet, is another than it is.
//!
//! Each is tried on each test of the transport. Where it changes nothing, as there is no such
//! member or field in the test, it does not count; else the test must fail, or [`survivors`] says
//! why it passes.

pub mod answers;
mod components;
pub mod survivors;

use crate::catalog::{Body, Test};
use crate::execute::execute;
use crate::packet::TxPacket;
use crate::protocol::{Completion, Side};
use crate::run::Verdict;
use crate::sim::{Faults, SimBackend};
use components::{By, Component};
use ferroce_wire::Syndrome;
use std::cell::Cell;
use std::num::NonZero;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What of the device is changed. The answer is whether there was anything to change.
enum Change {
    /// Of completions on one side.
    Completion(fn(Side, &mut Completion) -> bool),
    /// Completions come so often.
    Repeated(usize),
    /// Of packets that the device sends.
    Packet(fn(&mut TxPacket) -> bool),
    /// Of every second packet that the device sends.
    Second(fn(&mut TxPacket)),
}

/// A mutant.
struct Generic {
    /// Name, `completion.qp_num+1`.
    name: &'static str,
    change: Change,
}

/// How a test ended on a generic mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// There was nothing to change.
    Untouched,
    /// The test failed.
    Caught,
    /// It did not.
    Survived,
}

impl Fate {
    /// Runs a test on a mutant, which says in `touched` whether there was anything to change.
    fn of(test: &Test, mutant: &mut SimBackend, touched: &Cell<bool>) -> Fate {
        let (result, _) = execute(test, mutant, Box::new(|_| {}));
        match (touched.get(), result.result) {
            (false, _) => Fate::Untouched,
            (true, Verdict::Fail) => Fate::Caught,
            (true, _) => Fate::Survived,
        }
    }
}

/// What became of a mutant.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The tests that failed on it.
    pub caught: Vec<String>,
    /// The tests in which it changed something, and that did not.
    pub survived: Vec<String>,
}

impl Row {
    fn new(name: &str) -> Row {
        Row {
            name: name.to_owned(),
            ..Row::default()
        }
    }

    fn add(&mut self, test: &str, fate: Fate) {
        match fate {
            Fate::Untouched => {}
            Fate::Caught => self.caught.push(test.to_owned()),
            Fate::Survived => self.survived.push(test.to_owned()),
        }
    }

    /// How many tests it changes something in.
    pub fn touched(&self) -> usize {
        self.caught.len() + self.survived.len()
    }
}

/// All mutants on those tests. It takes as many threads as there are processors.
pub fn matrix(tests: &[Test]) -> Vec<Row> {
    let components = components::all();
    let mut rows: Vec<Row> = ALL.iter().map(|mutant| Row::new(mutant.name)).collect();
    let changes = components
        .iter()
        .flat_map(|part| [(*part, By::One), (*part, By::Zero)]);
    let changes: Vec<_> = changes.collect();
    rows.extend(changes.iter().map(|(part, by)| Row::new(&part.name(*by))));

    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let mut fates: Vec<(usize, Vec<Fate>)> = std::thread::scope(|scope| {
        let worker = || {
            let mut done = Vec::new();
            loop {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                let Some(test) = tests.get(nth) else {
                    return done;
                };
                done.push((nth, fates(test, &components, &changes)));
            }
        };

        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let ended = workers.into_iter().map(|worker| worker.join());
        ended
            .flat_map(|done| done.expect("a test does not panic"))
            .collect()
    });

    fates.sort_by_key(|(nth, _)| *nth);
    for (nth, fates) in fates {
        for (row, fate) in rows.iter_mut().zip(fates) {
            row.add(&tests[nth].id, fate);
        }
    }

    // Of attributes that no device of the simulation has nothing is changed.
    rows.retain(|row| row.touched() > 0);
    rows
}

/// How a test ends on each mutant, those of the transport first.
fn fates(test: &Test, components: &[Component], changes: &[(Component, By)]) -> Vec<Fate> {
    match test.body {
        Body::Transport(_) => {
            let transport = ALL.iter().map(|mutant| mutant.tried_on(test));
            transport
                .chain(changes.iter().map(|_| Fate::Untouched))
                .collect()
        }
        Body::Mad(_) => {
            let found = Component::found_in(test, components);
            let management = changes.iter().map(|(part, by)| match found.contains(part) {
                true => part.tried_on(*by, test),
                false => Fate::Untouched,
            });
            ALL.iter()
                .map(|_| Fate::Untouched)
                .chain(management)
                .collect()
        }
    }
}

/// Changes a number if it is there.
fn next<T: Copy>(field: &mut Option<T>, change: impl FnOnce(T) -> T) -> bool {
    if let Some(value) = field {
        *value = change(*value);
    }
    field.is_some()
}

/// Sets a number to zero, if it is another.
fn zero<T: Default + PartialEq>(field: &mut T) -> bool {
    std::mem::take(field) != T::default()
}

fn low24(number: u32) -> u32 {
    number & 0xff_ffff
}

/// Success: the other members mean something.
fn good(done: &Completion) -> bool {
    done.status == 0
}

/// READ and atomics: what comes in has a length at the requester, too.
fn has_length(side: Side, done: &Completion) -> bool {
    good(done) && (side == Side::Recv || (2..=4).contains(&done.opcode))
}

fn is_request(packet: &TxPacket) -> bool {
    ferroce_wire::opcode::info(packet.bth.opcode).is_some_and(|info| info.is_request())
}

/// Changes the credits of an ACK that has some, or none; not where none are counted.
fn credits(packet: &mut TxPacket, change: fn(u8) -> u8) -> bool {
    let Some(Syndrome::Ack(code)) = packet.ext.aeth.map(ferroce_wire::Aeth::kind) else {
        return false;
    };
    let new = change(code.code());
    code.count().is_some()
        && new != code.code()
        && next(&mut packet.ext.aeth, |aeth| ferroce_wire::Aeth {
            syndrome: new,
            ..aeth
        })
}

/// Sets the lowest bit of a byte of the BTH.
fn reserved(packet: &mut TxPacket, at: usize) -> bool {
    let mut bytes = packet.covered();
    bytes[at] |= 1;
    packet.raw = Some(bytes);
    true
}

macro_rules! mutants {
    ($($kind:ident $name:literal: $change:expr;)*) => {
        &[$(Generic {
            name: $name,
            change: Change::$kind($change),
        }),*]
    };
}

/// All of them.
const ALL: &[Generic] = mutants! {
    Completion "completion.wr_id+1": |_, done| { done.wr_id += 1; true };
    Completion "completion.wr_id=0": |_, done| zero(&mut done.wr_id);
    Completion "completion.status+1": |_, done| { done.status += 1; true };
    Completion "completion.status=0": |_, done| zero(&mut done.status);
    Completion "completion.qp_num+1": |_, done| { done.qp += 1; true };
    Completion "completion.qp_num=0": |_, done| zero(&mut done.qp);
    Completion "completion.opcode+1": |_, done| { done.opcode += 1; good(done) };
    Completion "completion.opcode=0": |_, done| good(done) && zero(&mut done.opcode);
    Completion "completion.byte_len+1": |side, done| { done.byte_len += 1; has_length(side, done) };
    Completion "completion.byte_len=0": |side, done| has_length(side, done) && zero(&mut done.byte_len);
    Completion "completion.imm+1": |_, done| next(&mut done.imm, |imm| (u32::from_be_bytes(imm) + 1).to_be_bytes());
    Completion "completion.imm missing": |_, done| done.imm.take().is_some();
    Completion "completion.invalidated+1": |_, done| next(&mut done.invalidated, |key| key + 1);
    Completion "completion.invalidated missing": |_, done| done.invalidated.take().is_some();
    Repeated "completion missing": 0;
    Repeated "completion doubled": 2;
    Packet "bth.solicited": |packet| { packet.bth.solicited ^= true; true };
    Second "bth.migreq, every second packet": |packet| packet.bth.migreq ^= true;
    Packet "bth.tver+1": |packet| { packet.bth.tver += 1; true };
    Packet "bth.pkey+1": |packet| { packet.bth.pkey ^= 1; true };
    Packet "bth.pkey, membership": |packet| { packet.bth.pkey ^= 0x8000; true };
    Packet "bth.pkey=0": |packet| zero(&mut packet.bth.pkey);
    Packet "bth.fecn": |packet| { packet.bth.fecn ^= true; true };
    Packet "bth.becn": |packet| { packet.bth.becn ^= true; true };
    Packet "bth.dest_qp+1": |packet| { packet.bth.dest_qp = low24(packet.bth.dest_qp + 1); true };
    Packet "bth.dest_qp=0": |packet| zero(&mut packet.bth.dest_qp);
    Packet "bth.psn+1": |packet| { packet.bth.psn = low24(packet.bth.psn + 1); true };
    Packet "bth.psn=0": |packet| zero(&mut packet.bth.psn);
    Packet "bth.ack_req of a request": |packet| {
        let request = is_request(packet);
        packet.bth.ack_req ^= request;
        request
    };
    Packet "bth.ack_req of a response": |packet| { let response = !is_request(packet); packet.bth.ack_req ^= response; response };
    Packet "bth.pad+1": |packet| { packet.pad = Some(((packet.payload.len() as u8).wrapping_neg() % 4) ^ 1); true };
    Packet "bth.reserved, byte 4": |packet| reserved(packet, 4);
    Packet "bth.reserved, byte 8": |packet| reserved(packet, 8);
    Packet "reth.va+1": |packet| next(&mut packet.ext.reth, |reth| ferroce_wire::Reth { va: reth.va.wrapping_add(1), ..reth });
    Packet "reth.rkey+1": |packet| next(&mut packet.ext.reth, |reth| ferroce_wire::Reth { rkey: reth.rkey.wrapping_add(1), ..reth });
    Packet "reth.len+1": |packet| next(&mut packet.ext.reth, |reth| ferroce_wire::Reth { len: reth.len.wrapping_add(1), ..reth });
    Packet "aeth.syndrome": |packet| next(&mut packet.ext.aeth, |aeth| ferroce_wire::Aeth { syndrome: aeth.syndrome ^ 0x20, ..aeth });
    Packet "aeth.credits+1": |packet| credits(packet, |code| code + 1);
    Packet "aeth.credits=0": |packet| credits(packet, |_| 0);
    Packet "aeth.value of a NAK": |packet| {
        let nak = packet.ext.aeth.is_some_and(|aeth| !matches!(aeth.kind(), Syndrome::Ack(_)));
        nak && next(&mut packet.ext.aeth, |aeth| ferroce_wire::Aeth { syndrome: aeth.syndrome ^ 1, ..aeth })
    };
    Packet "aeth.msn+1": |packet| next(&mut packet.ext.aeth, |aeth| ferroce_wire::Aeth { msn: low24(aeth.msn + 1), ..aeth });
    Packet "aeth.msn=0": |packet| packet.ext.aeth.as_mut().is_some_and(|aeth| zero(&mut aeth.msn));
    Packet "atomic.va+1": |packet| next(&mut packet.ext.atomic, |atomic| ferroce_wire::AtomicEth { va: atomic.va.wrapping_add(1), ..atomic });
    Packet "atomic.rkey+1": |packet| next(&mut packet.ext.atomic, |atomic| ferroce_wire::AtomicEth { rkey: atomic.rkey.wrapping_add(1), ..atomic });
    Packet "atomic.swap_add+1": |packet| next(&mut packet.ext.atomic, |atomic| ferroce_wire::AtomicEth { swap_add: atomic.swap_add.wrapping_add(1), ..atomic });
    Packet "atomic.compare+1": |packet| packet.bth.opcode == ferroce_wire::opcode::RC_COMPARE_SWAP && next(&mut packet.ext.atomic, |atomic| ferroce_wire::AtomicEth { compare: atomic.compare.wrapping_add(1), ..atomic });
    Packet "atomic_ack+1": |packet| next(&mut packet.ext.atomic_ack, |value| value.wrapping_add(1));
    Packet "imm+1": |packet| next(&mut packet.ext.imm, |imm| u32::from_be_bytes(imm).wrapping_add(1).to_be_bytes());
    Packet "ieth+1": |packet| next(&mut packet.ext.ieth, |key| key.wrapping_add(1));
    Packet "deth.q_key+1": |packet| next(&mut packet.ext.deth, |deth| ferroce_wire::Deth { qkey: deth.qkey.wrapping_add(1), ..deth });
    Packet "deth.src_qp+1": |packet| next(&mut packet.ext.deth, |deth| ferroce_wire::Deth { src_qp: low24(deth.src_qp + 1), ..deth });
    Packet "payload, a bit": |packet| packet.payload.first_mut().is_some_and(|byte| { *byte ^= 1; true });
    Packet "payload, four bytes less": |packet| {
        let len = packet.payload.len();
        packet.payload.truncate(len.saturating_sub(4));
        len >= 4
    };
    Packet "icrc": |packet| { packet.icrc = crate::packet::Crc::Wrong; true };
};

impl Generic {
    fn faults(&'static self, touched: Rc<Cell<bool>>) -> Faults {
        let seen = move |something: bool| touched.set(touched.get() | something);
        match self.change {
            Change::Completion(change) => Faults::default().completion(move |side, mut done| {
                let before = done;
                match change(side, &mut done) {
                    true => seen(true),
                    false => done = before,
                }
                vec![done]
            }),
            Change::Repeated(times) => Faults::default().completion(move |_, done| {
                seen(true);
                vec![done; times]
            }),
            Change::Packet(change) => Faults::default().tx_edit(move |packet| {
                let before = packet.clone();
                match change(packet) {
                    true => seen(true),
                    false => *packet = before,
                }
            }),
            Change::Second(change) => {
                let mut second = false;
                Faults::default().tx_edit(move |packet| {
                    if second {
                        seen(true);
                        change(packet);
                    }
                    second = !second;
                })
            }
        }
    }

    /// A test of the transport on this mutant.
    fn tried_on(&'static self, test: &Test) -> Fate {
        let touched = Rc::new(Cell::new(false));
        let mut backend = SimBackend {
            faults: Some(self.faults(touched.clone())),
            ..SimBackend::default()
        };
        Fate::of(test, &mut backend, &touched)
    }
}
