//! What programs post at the simulated device's queue pairs.

use super::{Device, refuse};
use crate::protocol::{RecvQueue, Reply, SendRequest, Sge, send_flags};
use crate::sim::attributes::{self as convert, EFAULT, EINVAL};
use ferroce_transport::{Datagram, Dest, QpType, RecvWqe, SendData, SendFlags, SendOp};

impl Device {
    pub(super) fn post_send(&mut self, qp: u32, request: &SendRequest) -> Reply {
        const WHAT: &str = "ibv_post_send";

        let (Some(pair), Some(op)) = (self.pairs.get(&qp), convert::operation(request)) else {
            return refuse(EINVAL, WHAT);
        };

        let dest = match request.to {
            Some(to) if pair.service == QpType::Ud => {
                if to.ah as usize >= self.handles.len() {
                    return refuse(EINVAL, WHAT);
                }
                Dest::Datagram(Datagram {
                    ah: to.ah,
                    cookie: 0,
                    qpn: to.qp,
                    qkey: to.qkey,
                })
            }
            _ => Dest::Connected,
        };

        let sges = convert::sges(&request.sges);
        let inline = request.flags & send_flags::INLINE != 0;
        let mut ranges = request.sges.iter();
        if inline && !ranges.all(|sge| self.is_memory(sge.addr, sge.len as usize)) {
            return refuse(EFAULT, WHAT);
        }
        let Some(pair) = self.pairs.get_mut(&qp) else {
            return refuse(EINVAL, WHAT);
        };

        let bytes = match inline {
            true => self.memory.borrow().gather(&sges),
            false => Vec::new(),
        };

        let data = match inline {
            true => SendData::Inline(&bytes),
            false => SendData::Sges(&sges),
        };

        let local = matches!(op, SendOp::LocalInv(_) | SendOp::BindMw(_));
        let posted = pair.qp.post_send(&ferroce_transport::SendRequest {
            wr_id: request.wr_id,
            op,
            flags: SendFlags::from_bits_truncate(request.flags),
            data: if local { SendData::Sges(&[]) } else { data },
            dest,
        });

        match posted {
            Ok(()) => Reply::Done,
            Err(error) => refuse(convert::errno(error), &format!("{WHAT}: {error}")),
        }
    }

    pub(super) fn post_recv(&mut self, queue: RecvQueue, wr_id: u64, sges: &[Sge]) -> Reply {
        let sges = convert::sges(sges);
        match queue {
            RecvQueue::Qp(qp) => {
                let Some(pair) = self.pairs.get_mut(&qp) else {
                    return refuse(EINVAL, "ibv_post_recv");
                };
                match pair.qp.post_recv(wr_id, &sges) {
                    Ok(()) => Reply::Done,
                    Err(error) => refuse(convert::errno(error), &format!("ibv_post_recv: {error}")),
                }
            }
            RecvQueue::Srq(srq) => self.srqs.post(
                srq,
                RecvWqe {
                    wr_id,
                    sges: sges.into_iter().collect(),
                    skip: 0,
                },
            ),
        }
    }
}
