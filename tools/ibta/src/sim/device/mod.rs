//! The simulated device: verbs objects over the real transport state machine, and a port that takes
//! packets as the engine's does.
//!
//! It has no clock of its own: the rig hands it the time. What reaches a queue pair must be a
//! packet with a right ICRC, for its number and its partition; from there on all is the
//! transport's.

mod requests;

use super::attributes::{self as convert, EFAULT, EINVAL, EOPNOTSUPP};
use super::faults::PlaceHook;
use super::host::{self, DeviceHost};
use super::srq::Srqs;
use crate::protocol::{
    AddressVector, AsyncEvent, Command, Completion, CreateQp, DeviceInfo, PortState, QpAttributes,
    Region, Reply, Side,
};
use ferroce_sim::Rng;
use ferroce_sim::memory::{BASE, Memory};
use ferroce_sim::wire::{SimSink, flow, open};
use ferroce_transport::{Access, Qp, QpCap, QpConfig, QpType, Time, TransmitOpts};
use ferroce_wire::pkey;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Path MTU of the simulated wire.
pub(super) const MTU: u32 = 4096;
/// The only P_Key of the simulated port, unless it is given another.
const PKEY: u16 = 0xffff;
const FIRST_QPN: u32 = 0x00_0d17;
/// Which end of the simulator's wire is the device; the tester is the other.
pub(super) const DEVICE: usize = 0;
pub(super) const TESTER: usize = 1;

/// A queue pair and its completion queues.
struct Pair {
    qp: Qp,
    service: QpType,
    host: DeviceHost,
    sends: VecDeque<Completion>,
    receives: VecDeque<Completion>,
}

/// The device.
pub(super) struct Device {
    memory: Rc<RefCell<Memory>>,
    place: Rc<RefCell<Option<PlaceHook>>>,
    p_key: u16,
    rng: Rng,
    pairs: BTreeMap<u32, Pair>,
    next_qpn: u32,
    srqs: Srqs,
    handles: Vec<AddressVector>,
    next_window: u32,
    events: VecDeque<AsyncEvent>,
    sink: SimSink,
}

type Refusal = Reply;

pub(super) fn refuse(code: i32, what: &str) -> Refusal {
    Reply::Errno {
        code,
        what: what.to_owned(),
    }
}

impl Device {
    /// A device, with another P_Key than the usual one if one is given.
    pub(super) fn new(place: Option<PlaceHook>, p_key: Option<u16>) -> Device {
        let memory = Rc::new(RefCell::new(Memory::default()));
        Device {
            sink: SimSink::new(DEVICE, memory.clone()),
            memory,
            place: Rc::new(RefCell::new(place)),
            p_key: p_key.unwrap_or(PKEY),
            rng: Rng::new(1),
            pairs: BTreeMap::new(),
            next_qpn: FIRST_QPN,
            srqs: Srqs::default(),
            handles: Vec::new(),
            next_window: 1,
            events: VecDeque::new(),
        }
    }

    /// A datagram came off the wire.
    pub(super) fn receive(&mut self, now: Time, datagram: &[u8]) {
        let Some(packet) = open(&flow(TESTER), datagram) else {
            return;
        };

        let key = packet.bth.pkey;
        let same_partition = pkey::matches(self.p_key, key);
        let Some(pair) = self.pairs.get_mut(&packet.bth.dest_qp) else {
            return;
        };
        if !same_partition {
            return;
        }

        if pair.service == QpType::Ud {
            pair.qp
                .receive_datagram(now, &packet, &[0; 40], &mut pair.host);
        } else {
            pair.qp.receive(now, &packet, &mut pair.host);
        }
    }

    /// Everything that is to be sent now.
    pub(super) fn transmit(&mut self, now: Time) -> Vec<Vec<u8>> {
        let opts = TransmitOpts {
            window: 1 << 20,
            budget: 1 << 20,
            flush_acks: true,
            fill: false,
            stretch: 0,
        };
        for pair in self.pairs.values_mut() {
            while pair.qp.transmit(now, opts, &mut pair.host, &mut self.sink) {}
        }
        std::mem::take(&mut self.sink.out)
    }

    /// When the next timer is due.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.pairs
            .values()
            .filter_map(|pair| pair.qp.next_timeout())
            .min()
    }

    /// Timers that are due act.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        for pair in self.pairs.values_mut() {
            if pair.qp.next_timeout().is_some_and(|at| at <= now) {
                pair.qp.handle_timeout(now, &mut pair.host);
            }
        }
    }

    /// Takes what queue pairs have completed and told since, through a hook.
    pub(super) fn collect(&mut self, mut hook: impl FnMut(Side, Completion) -> Vec<Completion>) {
        for (&qpn, pair) in &mut self.pairs {
            for done in pair.host.sends.drain(..) {
                pair.sends
                    .extend(hook(Side::Send, convert::completion(qpn, &done)));
            }
            for done in pair.host.receives.drain(..) {
                pair.receives
                    .extend(hook(Side::Recv, convert::completion(qpn, &done)));
            }
            let events = pair.host.events.drain(..).map(|event| AsyncEvent {
                event: event as u32,
                element: qpn,
            });
            self.events.extend(events);
        }
    }

    /// Completions that wait in a queue; `None` if there is no such queue pair.
    pub(super) fn queue(&mut self, qp: u32, side: Side) -> Option<&mut VecDeque<Completion>> {
        let pair = self.pairs.get_mut(&qp)?;
        Some(match side {
            Side::Send => &mut pair.sends,
            Side::Recv => &mut pair.receives,
        })
    }

    /// Events that wait.
    pub(super) fn events(&mut self) -> &mut VecDeque<AsyncEvent> {
        &mut self.events
    }

    /// Carries a command out, save those that wait.
    pub(super) fn command(&mut self, now: Time, command: Command) -> Reply {
        match command {
            Command::Reset => {
                let place = self.place.borrow_mut().take();
                *self = Device::new(place, Some(self.p_key));
                Reply::Done
            }
            Command::Device => Reply::Device(DeviceInfo {
                name: "simulated".to_owned(),
                ports: 1,
                max_qp_rd_atom: ferroce_transport::MAX_RD_ATOMIC.into(),
                max_qp_init_rd_atom: ferroce_transport::MAX_RD_ATOMIC.into(),
                atomics: true,
                auto_path_mig: false,
                xrc: true,
                ..DeviceInfo::default()
            }),
            Command::QueryPort { port: 1 } => Reply::Port(PortState {
                state: 4,
                active_mtu: MTU,
                gid_tbl_len: 1,
                pkey_tbl_len: 1,
                ethernet: true,
                ..PortState::default()
            }),
            Command::QueryPkey { port: 1, index: 0 } => Reply::Pkey { pkey: self.p_key },
            Command::CreateQp(create) => self.create_qp(&create),
            Command::ModifyQp { qp, attributes } => self.modify_qp(now, qp, &attributes),
            Command::QueryQp { qp } => match self.pairs.get(&qp) {
                Some(pair) => Reply::QpAttributes(convert::all_attributes(&pair.qp.query())),
                None => refuse(EINVAL, "ibv_query_qp"),
            },
            Command::DestroyQp { qp } => match self.pairs.remove(&qp) {
                Some(_) => Reply::Done,
                None => refuse(EINVAL, "ibv_destroy_qp"),
            },
            Command::OpenXrcd => self.srqs.open_xrcd(),
            Command::CreateSrq {
                max_wr,
                apart,
                xrcd,
                ..
            } => {
                let mut memory = self.memory.borrow_mut();
                self.srqs.create(max_wr, apart, xrcd, &mut memory)
            }
            Command::DestroySrq { srq } => self.srqs.destroy(srq),
            Command::Register { len, access, srq } => self.register(len, access, srq),
            Command::Deregister { lkey } => match self.memory.borrow_mut().invalidate(lkey) {
                Ok(()) => Reply::Done,
                Err(_) => refuse(EINVAL, "ibv_dereg_mr"),
            },
            Command::WriteMemory { addr, data } => match self.is_memory(addr, data.len()) {
                true => {
                    self.memory.borrow_mut().put(addr, &data);
                    Reply::Done
                }
                false => refuse(EFAULT, "writing memory"),
            },
            Command::ReadMemory { addr, len } => match self.is_memory(addr, len as usize) {
                true => Reply::Bytes {
                    data: self.memory.borrow().at(addr, len as usize).to_vec(),
                },
                false => refuse(EFAULT, "reading memory"),
            },
            Command::AllocateWindow { .. } => {
                self.next_window += 1;
                Reply::Window {
                    window: self.next_window,
                    rkey: self.next_window << 8,
                }
            }
            Command::CreateAh { av } => {
                self.handles.push(av);
                Reply::AddressHandle {
                    ah: self.handles.len() as u32 - 1,
                }
            }
            Command::PostSend { qp, request } => self.post_send(qp, &request),
            Command::PostRecv { queue, wr_id, sges } => self.post_recv(queue, wr_id, &sges),
            Command::IsSm { .. } => refuse(EOPNOTSUPP, "issm"),
            Command::QueryPort { .. } | Command::QueryPkey { .. } | Command::QueryGid { .. } => {
                refuse(EINVAL, "query of a port")
            }
            Command::Poll { .. } | Command::Events { .. } => refuse(EINVAL, "waiting"),
        }
    }

    fn is_memory(&self, addr: u64, len: usize) -> bool {
        let bytes = self.memory.borrow().bytes.len() as u64;
        addr.checked_sub(BASE)
            .and_then(|at| at.checked_add(len as u64))
            .is_some_and(|end| end <= bytes)
    }

    fn register(&mut self, len: u32, access: u32, srq: Option<u32>) -> Reply {
        let pd = match srq.map(|srq| self.srqs.get(srq)) {
            Some(Some(srq)) => srq.pd,
            Some(None) => return refuse(EINVAL, "ibv_reg_mr"),
            None => 0,
        };

        let mut memory = self.memory.borrow_mut();
        memory.pd = pd;
        let access = Access::from_bits_truncate(access);
        let buffer = memory.alloc(len, access, &mut self.rng);
        memory.put(buffer.va, &vec![0; len as usize]);
        Reply::Region(Region {
            addr: buffer.va,
            len,
            lkey: buffer.key,
            rkey: buffer.key,
        })
    }

    fn create_qp(&mut self, create: &CreateQp) -> Reply {
        let service = convert::service(create.service);
        let srq = match create.srq {
            Some(srq) => match self.srqs.get(srq) {
                Some(srq) => Some(srq),
                None => return refuse(EINVAL, "ibv_create_qp"),
            },
            None => None,
        };

        let xrc = match create.xrcd.map(|xrcd| self.srqs.xrcd(xrcd)) {
            Some(None) => return refuse(EINVAL, "ibv_create_qp_ex"),
            xrc => xrc.flatten().cloned(),
        };
        if xrc.is_some() != (service == QpType::XrcRecv) {
            return refuse(EINVAL, "ibv_create_qp_ex");
        }

        let qpn = self.next_qpn;
        self.next_qpn += 1;
        let qp = Qp::new(QpConfig {
            qpn,
            qp_type: service,
            cap: QpCap {
                max_send_wr: create.max_send_wr,
                max_recv_wr: create.max_recv_wr,
                max_send_sge: create.max_send_sge,
                max_recv_sge: create.max_recv_sge,
                max_inline_data: create.max_inline_data,
            },
            sq_sig_all: create.sq_sig_all,
            srq: srq.is_some(),
            mtu: MTU,
            stretch: 1,
            seed: 5,
            selective: None,
            introduced: false,
        });

        let pair = Pair {
            qp,
            service,
            host: host::new(
                self.memory.clone(),
                self.place.clone(),
                srq.map(|srq| (srq.requests.clone(), srq.pd)),
                xrc,
            ),
            sends: VecDeque::new(),
            receives: VecDeque::new(),
        };

        self.pairs.insert(qpn, pair);
        Reply::Qp { qp: qpn }
    }

    fn modify_qp(&mut self, now: Time, qp: u32, attributes: &QpAttributes) -> Reply {
        const WHAT: &str = "ibv_modify_qp";
        let (Some(pair), Some((attr, mask))) =
            (self.pairs.get_mut(&qp), convert::attributes(attributes))
        else {
            return refuse(EINVAL, WHAT);
        };
        match pair.qp.modify(&attr, mask, now, &mut pair.host) {
            Ok(()) => Reply::Done,
            Err(error) => refuse(EINVAL, &format!("{WHAT}: {error}")),
        }
    }
}
