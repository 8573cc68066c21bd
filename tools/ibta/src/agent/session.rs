//! What the tester asks for, done on the device: commands in, answers out. What a command names is
//! looked up among the session's own objects, and nowhere else.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use ferroce_cabi::{ibv_sge, ibv_srq_attr, wr_opcode};
use ferroce_ibta::protocol::{
    self, Command, CreateQp, RecvQueue, Reply, SendRequest, Sge, Side, send_flags,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::convert;
use super::device::Device;
use super::issm;
use super::library::{Verb, VerbsError};
use super::named::{Named, unknown};
use super::objects::{Ah, Cq, Mw, Pd, Qp, QpParts, Srq};
use super::post::{Bind, Send, Target};
use super::region::Region;
use super::xrc::Xrcd;

/// Completions of a shared receive queue's requests that have room.
const SHARED: u32 = 1024;
/// The largest region, in bytes.
const MAX_REGION: u32 = 1 << 30;

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
            Command::IsSm { port, on } => {
                objects.managers.remove(&port);
                if on {
                    let file = issm::open(&self.name, port)?;
                    objects.managers.insert(port, file);
                }
                Ok(Reply::Done)
            }
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
            Command::OpenXrcd => {
                let made = Xrcd::new(&self.device, SHARED)?;
                let xrcd = objects.handle();
                objects.xrcds.insert(xrcd, made);
                Ok(Reply::Xrcd { xrcd })
            }
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
            Command::DestroySrq { srq } => {
                let gone = objects.srqs.remove(&srq);
                gone.map(|_| Reply::Done)
                    .ok_or_else(|| unknown("ibv_destroy_srq"))
            }
            Command::Register { len, access, srq } => {
                if len > MAX_REGION {
                    return Err(VerbsError {
                        call: "ibv_reg_mr",
                        errno: libc::ENOMEM,
                    });
                }

                let pd = match srq {
                    Some(srq) => &objects.srq(srq, "ibv_reg_mr")?.pd,
                    None => &objects.pd,
                };
                let region = Region::new(pd, len as usize, access as i32)?;
                let reply = protocol::Region {
                    addr: region.address(),
                    len,
                    lkey: region.lkey(),
                    rkey: region.rkey(),
                };

                objects.regions.push(region);
                Ok(Reply::Region(reply))
            }
            Command::Deregister { lkey } => {
                objects.registered(lkey, "ibv_dereg_mr")?.deregister()?;
                Ok(Reply::Done)
            }
            Command::WriteMemory { addr, data } => {
                let call = "writing memory";
                let region = objects.region(addr, data.len() as u64, call)?;
                let offset = (addr - region.address()) as usize;
                region.write(offset, &data).ok_or_else(|| unknown(call))?;
                Ok(Reply::Done)
            }
            Command::ReadMemory { addr, len } => {
                let call = "reading memory";
                let region = objects.region(addr, len.into(), call)?;
                let offset = (addr - region.address()) as usize;
                let data = region.read(offset, len as usize);
                Ok(Reply::Bytes {
                    data: data.ok_or_else(|| unknown(call))?,
                })
            }
            Command::AllocateWindow { kind } => {
                let made = Mw::new(&objects.pd, kind.into())?;
                let rkey = made.rkey();
                let window = objects.handle();
                objects.windows.insert(window, (made, kind));
                Ok(Reply::Window { window, rkey })
            }
            Command::CreateAh { av } => {
                let made = Ah::new(&objects.pd, convert::to_ah_attr(&av))?;
                let ah = objects.handle();
                objects.handles.insert(ah, made);
                Ok(Reply::AddressHandle { ah })
            }
            Command::PostSend { qp, request } => self.post_send(qp, &request),
            Command::PostRecv { queue, wr_id, sges } => {
                let mut sges = elements(&sges);
                match queue {
                    RecvQueue::Qp(qp) => {
                        let qp = objects.qp(qp, "ibv_post_recv")?;
                        qp.post_recv(wr_id, &mut sges)?;
                    }
                    RecvQueue::Srq(srq) => {
                        let srq = objects.srq(srq, "ibv_post_srq_recv")?;
                        srq.post_recv(wr_id, &mut sges)?;
                    }
                }
                Ok(Reply::Done)
            }
            Command::Poll {
                qp,
                queue,
                at_most,
                within,
            } => {
                let qp = objects.qp(qp, "ibv_poll_cq")?;
                let cq = match queue {
                    Side::Send => &qp.parts.send,
                    Side::Recv => &qp.parts.recv,
                };
                let found = cq.poll(at_most as usize, within)?;
                Ok(Reply::Completions {
                    completions: found.iter().map(convert::completion).collect(),
                })
            }
            Command::Events { within } => Ok(self.events(within)),
        }
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

    fn post_send(&mut self, qp: u32, request: &SendRequest) -> Verb<Reply> {
        let call = "ibv_post_send";
        let objects = &self.objects;
        let qp = objects.qp(qp, call)?;
        let inline = request.flags & send_flags::INLINE != 0;
        let ours = |sge: &Sge| objects.region(sge.addr, sge.len.into(), call).is_ok();
        if inline && !request.sges.iter().all(ours) {
            return Err(VerbsError {
                call,
                errno: libc::EFAULT,
            });
        }

        let target = match (request.to, request.opcode) {
            (Some(to), _) => {
                let ah = objects.handles.get(&to.ah).ok_or_else(|| unknown(call))?;
                Target::Datagram {
                    ah: ah.clone(),
                    qpn: to.qp,
                    qkey: to.qkey,
                }
            }
            (None, protocol::Opcode::CompareSwap | protocol::Opcode::FetchAdd) => Target::Atomic {
                address: request.remote_addr,
                rkey: request.rkey,
                compare_add: request.compare_add,
                swap: request.swap,
            },
            (None, _) => Target::Memory {
                address: request.remote_addr,
                rkey: request.rkey,
            },
        };

        let bind = match &request.bind {
            None => None,
            Some(bind) => Some(self.bind(bind)?),
        };

        let opcode = convert::opcode(request.opcode);
        if let Some((bind, 1)) = &bind {
            qp.bind(request.wr_id, request.flags, bind)?;
            return Ok(Reply::Done);
        }

        if opcode == wr_opcode::BIND_MW && bind.is_none() {
            return Err(unknown(call));
        }

        let imm_or_rkey = match opcode {
            wr_opcode::SEND_WITH_INV | wr_opcode::LOCAL_INV => request.invalidate,
            _ => u32::from_ne_bytes(request.imm),
        };

        qp.post_send(&mut Send {
            wr_id: request.wr_id,
            opcode,
            flags: request.flags,
            sges: elements(&request.sges),
            imm_or_rkey,
            target,
            bind: bind.map(|(bind, _)| bind),
        })?;

        Ok(Reply::Done)
    }

    /// A bind, and the kind of its window.
    fn bind(&self, bind: &protocol::Bind) -> Verb<(Bind, u8)> {
        let call = "ibv_bind_mw";
        let objects = &self.objects;
        let window = objects.windows.get(&bind.window);
        let (window, kind) = window.ok_or_else(|| unknown(call))?;
        let bind = Bind {
            window: window.clone(),
            region: objects.registered(bind.lkey, call)?.clone(),
            address: bind.addr,
            len: bind.len,
            access: bind.access,
            rkey: bind.rkey,
        };
        Ok((bind, *kind))
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

fn elements(sges: &[Sge]) -> Vec<ibv_sge> {
    let element = |sge: &Sge| ibv_sge {
        addr: sge.addr,
        length: sge.len,
        lkey: sge.lkey,
    };
    sges.iter().map(element).collect()
}
