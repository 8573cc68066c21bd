//! What there is at one moment: the daemon says which programs there are, and each program's table
//! is read from memory that it shares. The daemon is asked for a table once and has nothing to do
//! with the numbers in it, however often these are looked at.

use std::collections::BTreeMap;
use std::time::SystemTime;

use ferroce_control::objects::{CqNumbers, Object, QpNumbers, QueuePair, Seen};
use ferroce_control::{Client, ClientStatus, ControlError, Errno, RuntimeDir, Status};
use rustix::time::{ClockId, clock_gettime};

use crate::error::Error;
use crate::ports::{self, Port};

/// All of it.
#[derive(Debug)]
pub(super) struct Sample {
    /// Nanoseconds of `CLOCK_MONOTONIC`, which the times in the numbers are of.
    pub now: u64,
    pub time: SystemTime,
    pub status: Status,
    pub programs: Vec<Program>,
    /// With the counters of each.
    pub ports: Vec<(Port, Vec<(String, u64)>)>,
}

/// A program that has the device open, with its objects.
#[derive(Debug)]
pub(super) struct Program {
    pub client: ClientStatus,
    pub slot: u8,
    pub queue_pairs: Vec<(QueuePair, QpNumbers)>,
    pub completion_queues: Vec<CompletionQueue>,
    pub regions: Vec<Region>,
}

/// A completion queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompletionQueue {
    /// Of its entry in the program's table.
    pub number: u32,
    pub capacity: u32,
    /// How many queues complete into it.
    pub users: u32,
    pub numbers: CqNumbers,
}

/// A memory region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub number: u32,
    pub domain: u32,
    pub len: u64,
}

/// Takes samples.
#[derive(Debug)]
pub(super) struct Sampler {
    dir: RuntimeDir,
    client: Option<Client>,
    /// Tables by slot, with the processes that they are of.
    tables: BTreeMap<u8, (u32, Seen)>,
}

impl Sampler {
    /// Asks the daemon of that runtime directory.
    pub(super) fn new(dir: &RuntimeDir) -> Sampler {
        Sampler {
            dir: dir.clone(),
            client: None,
            tables: BTreeMap::new(),
        }
    }

    /// What there is now. After an error the next one asks anew.
    pub(super) fn sample(&mut self) -> Result<Sample, Error> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => {
                self.tables.clear();
                Client::connect(&self.dir)?
            }
        };

        // What the daemon tells by itself is nothing to us.
        while client.try_event().is_some() {}
        let status = client.status()?;
        let mut programs = Vec::new();
        for told in &status.clients {
            let Some(slot) = told.slot else { continue };
            if let Some(table) = self.table(&mut client, slot, told.pid)? {
                programs.push(read(table, slot, told));
            }
        }

        let claimed = |slot: &u8| programs.iter().any(|program| program.slot == *slot);
        self.tables.retain(|slot, _| claimed(slot));

        let mut ports = ports::all(&self.dir, &status.device.name)?;
        ports.retain(|port| port.ours);
        let counted = |port: Port| {
            let counters = ports::counters(&self.dir, &port.device, port.number);
            (port, counters)
        };

        let ports = ports.into_iter().map(counted).collect();
        self.client = Some(client);
        Ok(Sample {
            now: now(),
            time: SystemTime::now(),
            status,
            programs,
            ports,
        })
    }

    /// The table of a slot's program; none of one that has just gone.
    fn table(&mut self, client: &mut Client, slot: u8, pid: u32) -> Result<Option<&Seen>, Error> {
        // A slot rests before it has another owner, so a process is never taken for the next.
        if self
            .tables
            .get(&slot)
            .is_none_or(|(known, _)| *known != pid)
        {
            match client.objects(slot) {
                Ok(table) => drop(self.tables.insert(slot, (pid, table))),
                Err(ControlError::Refused { errno, .. })
                    if errno == Errno::NOENT.raw_os_error() =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }

        Ok(self.tables.get(&slot).map(|(_, table)| table))
    }
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What a program's table says.
pub(super) fn read(table: &Seen, slot: u8, client: &ClientStatus) -> Program {
    let mut program = Program {
        client: client.clone(),
        slot,
        queue_pairs: Vec::new(),
        completion_queues: Vec::new(),
        regions: Vec::new(),
    };

    for (number, object) in table.objects() {
        match object {
            Object::Qp(qp) => {
                let numbers = table.numbers(qp.row);
                program.queue_pairs.push((qp, numbers));
            }
            Object::Cq { cqe, users, .. } => program.completion_queues.push(CompletionQueue {
                number,
                capacity: cqe,
                users,
                numbers: table.cq_numbers(number),
            }),
            Object::Mr { pd, len, .. } => program.regions.push(Region {
                number,
                domain: pd,
                len,
            }),
            Object::Context | Object::Pd { .. } | Object::Srq { .. } => {}
        }
    }

    program.queue_pairs.sort_by_key(|(qp, _)| qp.number);
    program
}
