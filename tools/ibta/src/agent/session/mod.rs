//! What the tester asks for, done on the device: commands in, answers out. What a command names is
//! looked up among the session's own objects, and nowhere else.

mod memory;
mod requests;

use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use ferroce_cabi::ibv_srq_attr;
use ferroce_ibta::protocol::{self, Command, CreateQp, Reply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::convert;
use super::device::Device;
use super::issm;
use super::library::Verb;
use super::named::{Named, unknown};
use super::objects::{Ah, Cq, Pd, Qp, QpParts, Srq};
use super::xrc::Xrcd;

/// Completions of a shared receive queue's requests that have room.
const SHARED: u32 = 1024;

/// The objects of one tester. They go when it goes, or on [`Command::Reset`].
pub(super) struct Session {
    name: String,
    device: Rc<Device>,
    objects: Named,
}

impl Session {
    /// On a device, which may have other users.
    pub(super) fn new(name: &str, device: &Rc<Device>) -> Result<Session> {
        Ok(Session {
            name: name.to_owned(),
            device: device.clone(),
            objects: Named::new(device)?,
        })
    }

    /// Carries a command out.
    pub(super) fn carry_out(&mut self, command: Command) -> Reply {
        self.verb(command).unwrap_or_else(|error| Reply::Errno {
            code: error.errno,
            what: error.call.to_owned(),
        })
    }

    fn verb(&mut self, command: Command) -> Verb<Reply> {
        let objects = &mut self.objects;
        match command {
            Command::Reset => {
                *objects = Named::new(&self.device)?;
                while self.device.event().is_some() {}
                Ok(Reply::Done)
            }
            Command::Device => Ok(Reply::Device(convert::device(
                &self.name,
                &self.device.query()?,
            ))),
            Command::QueryPort { port } => {
                Ok(Reply::Port(convert::port(&self.device.query_port(port)?)))
            }
            Command::QueryPkey { port, index } => Ok(Reply::Pkey {
                pkey: self.device.query_pkey(port, index)?,
            }),
            Command::QueryGid { port, index } => Ok(convert::gid(&self.device.gid(port, index)?)),
            Command::IsSm { port, on } => self.is_sm(port, on),
            Command::CreateQp(what) => self.create_qp(&what),
            Command::ModifyQp { qp, attributes } => {
                let qp = objects.qp(qp, "ibv_modify_qp")?;
                let (attr, mask) = convert::to_attr(&attributes);
                qp.modify(attr, mask)?;
                Ok(Reply::Done)
            }
            Command::QueryQp { qp } => {
                let qp = objects.qp(qp, "ibv_query_qp")?;
                let mask = convert::mask_of(qp.parts.service);
                Ok(Reply::QpAttributes(convert::from_attr(
                    &qp.query(mask)?,
                    mask,
                )))
            }
            Command::DestroyQp { qp } => {
                let gone = objects.qps.remove(&qp);
                gone.map(|_| Reply::Done)
                    .ok_or_else(|| unknown("ibv_destroy_qp"))
            }
            Command::OpenXrcd => self.open_xrcd(),
            Command::CreateSrq {
                max_wr,
                max_sge,
                apart,
                xrcd,
            } => {
                let attr = ibv_srq_attr {
                    max_wr,
                    max_sge,
                    srq_limit: 0,
                };
                self.create_srq(attr, apart, xrcd)
            }
            Command::DestroySrq { srq } => {
                let gone = objects.srqs.remove(&srq);
                gone.map(|_| Reply::Done)
                    .ok_or_else(|| unknown("ibv_destroy_srq"))
            }
            Command::Register { len, access, srq } => self.register(len, access, srq),
            Command::Deregister { lkey } => {
                objects.registered(lkey, "ibv_dereg_mr")?.deregister()?;
                Ok(Reply::Done)
            }
            Command::WriteMemory { addr, data } => self.write_memory(addr, &data),
            Command::ReadMemory { addr, len } => self.read_memory(addr, len),
            Command::AllocateWindow { kind } => self.allocate_window(kind),
            Command::CreateAh { av } => {
                let made = Ah::new(&objects.pd, convert::to_ah_attr(&av))?;
                let ah = objects.handle();
                objects.handles.insert(ah, made);
                Ok(Reply::AddressHandle { ah })
            }
            Command::PostSend { qp, request } => self.post_send(qp, &request),
            Command::PostRecv { queue, wr_id, sges } => self.post_recv(queue, wr_id, &sges),
            Command::Poll {
                qp,
                queue,
                at_most,
                within,
            } => self.poll(qp, queue, at_most, within),
            Command::Events { within } => Ok(self.events(within)),
        }
    }

    /// Opens the port's `issm` node, or closes it.
    fn is_sm(&mut self, port: u8, on: bool) -> Verb<Reply> {
        let managers = &mut self.objects.managers;
        managers.remove(&port);
        if on {
            managers.insert(port, issm::open(&self.name, port)?);
        }
        Ok(Reply::Done)
    }

    fn create_qp(&mut self, what: &CreateQp) -> Verb<Reply> {
        let objects = &mut self.objects;
        let srq = match what.srq {
            None => None,
            Some(srq) => Some(objects.srq(srq, "ibv_create_qp")?.clone()),
        };

        let xrcd = match what.xrcd {
            None => None,
            Some(xrcd) => Some(objects.xrcd(xrcd, "ibv_create_qp_ex")?.clone()),
        };

        // Requests complete once, and a flushed queue holds as many as it has room for. Those of a
        // shared queue are not known.
        let received = match srq {
            Some(_) => SHARED,
            None => what.max_recv_wr,
        };

        let new = |entries: u32| Cq::new(&self.device, entries.max(1));
        let (send, recv) = match &xrcd {
            Some(xrcd) => (xrcd.cq.clone(), xrcd.cq.clone()),
            None => (new(what.max_send_wr)?, new(received)?),
        };

        let parts = QpParts {
            service: convert::service(what.service),
            send,
            recv,
            srq,
            xrcd,
            cap: convert::cap(what),
            all_signaled: what.sq_sig_all,
        };

        let made = Qp::new(&objects.pd, parts)?;
        let qp = made.number();
        objects.qps.insert(qp, made);
        Ok(Reply::Qp { qp })
    }

    fn open_xrcd(&mut self) -> Verb<Reply> {
        let made = Xrcd::new(&self.device, SHARED)?;
        let xrcd = self.objects.handle();
        self.objects.xrcds.insert(xrcd, made);
        Ok(Reply::Xrcd { xrcd })
    }

    /// Creates a shared receive queue, `apart` in a protection domain of its own.
    fn create_srq(&mut self, attr: ibv_srq_attr, apart: bool, xrcd: Option<u32>) -> Verb<Reply> {
        let objects = &mut self.objects;
        let pd = match apart {
            true => Pd::new(&objects.pd.device)?,
            false => objects.pd.clone(),
        };

        let made = match xrcd {
            Some(xrcd) => objects.xrcd(xrcd, "ibv_create_srq_ex")?.srq(&pd, attr)?,
            None => Srq::new(&pd, attr)?,
        };

        let number = made.xrc.as_ref().map_or(0, |(_, number)| *number);
        let srq = objects.handle();
        objects.srqs.insert(srq, made);
        Ok(Reply::Srq { srq, number })
    }

    fn events(&self, within: Duration) -> Reply {
        let mut waiting = [PollFd::from_borrowed_fd(
            self.device.events_fd(),
            PollFlags::IN,
        )];

        let timeout = Timespec::try_from(within).ok();

        // What the wait came to is seen by looking.
        let _ = poll(&mut waiting, timeout.as_ref());
        let mut events = Vec::new();
        while let Some((event, element)) = self.device.event() {
            events.push(protocol::AsyncEvent {
                event,
                element: self.objects.element(event, element),
            });
        }

        Reply::Events { events }
    }
}
