//! `ibv_post_send(3)` and `ibv_post_recv(3)`: linked lists of C requests, without allocation.

use crate::ah;
use crate::guard::{Errno, explain};
use crate::mw;
use crate::qp::Qp;
use crate::requests::{INLINE_MAX, gather, receive_list, sges};
use ferroce_cabi::*;
use ferroce_engine::{Dest, SendData, SendFlags, SendOp, SendPoster, SendRequest, Sge};
use libc::c_int;
use std::mem::MaybeUninit;

/// The operation of a C request.
///
/// # Safety
/// A bind names a window and a region of ours, or null.
unsafe fn operation(wr: &ibv_send_wr) -> Result<SendOp, Errno> {
    // SAFETY: every bit pattern is a valid value of these plain integers; the opcode says which was
    // meant.
    let (rdma, atomic) = unsafe { (&wr.wr.rdma, &wr.wr.atomic) };
    let imm = wr.imm_or_rkey.to_ne_bytes();
    Ok(match wr.opcode {
        wr_opcode::SEND => SendOp::Send,
        wr_opcode::SEND_WITH_IMM => SendOp::SendWithImm(imm),
        wr_opcode::SEND_WITH_INV => SendOp::SendWithInv(wr.imm_or_rkey),
        wr_opcode::RDMA_WRITE => SendOp::Write {
            va: rdma.remote_addr,
            rkey: rdma.rkey,
        },
        wr_opcode::RDMA_WRITE_WITH_IMM => SendOp::WriteWithImm {
            va: rdma.remote_addr,
            rkey: rdma.rkey,
            imm,
        },
        wr_opcode::RDMA_READ => SendOp::Read {
            va: rdma.remote_addr,
            rkey: rdma.rkey,
        },
        wr_opcode::ATOMIC_CMP_AND_SWP => SendOp::CompareSwap {
            va: atomic.remote_addr,
            rkey: atomic.rkey,
            compare: atomic.compare_add,
            swap: atomic.swap,
        },
        wr_opcode::ATOMIC_FETCH_AND_ADD => SendOp::FetchAdd {
            va: atomic.remote_addr,
            rkey: atomic.rkey,
            add: atomic.compare_add,
        },
        wr_opcode::ATOMIC_WRITE => SendOp::AtomicWrite {
            va: rdma.remote_addr,
            rkey: rdma.rkey,
        },
        wr_opcode::LOCAL_INV => SendOp::LocalInv(wr.imm_or_rkey),
        wr_opcode::BIND_MW => {
            let bind = &wr.bind_mw;
            // SAFETY: as the caller promises.
            unsafe { mw::bind_type_2(bind.mw, bind.rkey, &bind.bind_info) }?
        }
        _ => return Err(Errno(libc::EINVAL)),
    })
}

/// Where a request goes.
///
/// # Safety
/// A request for this queue pair, whose address handle, if it takes one, is null or ours.
#[inline]
unsafe fn destination(qp: &Qp, wr: &ibv_send_wr) -> Result<Dest, Errno> {
    Ok(match qp.verbs.qp_ex.qp_base.qp_type {
        qp_type::UD => {
            // SAFETY: as the caller promises; every bit pattern is a valid value of the integers.
            unsafe { ah::destination(wr.wr.ud.ah, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey) }?
        }
        qp_type::XRC_SEND => Dest::XrcSrq(wr.xrc_remote_srqn),
        _ => Dest::Connected,
    })
}

/// Posts a list from `at` on, which is the request that failed then, if one has.
///
/// # Safety
/// A list of requests for this queue pair, which ends in null.
#[inline]
unsafe fn post_list(
    qp: &Qp,
    queue: &mut SendPoster<'_>,
    at: &mut *mut ibv_send_wr,
) -> Result<(), Errno> {
    // SAFETY: the caller's list, which ends in null.
    while let Some(wr) = unsafe { at.as_ref() } {
        let count = usize::try_from(wr.num_sge).unwrap_or(usize::MAX);
        if count > qp.max_send_sge {
            return Err(Errno(libc::EINVAL));
        }

        let mut copy = Vec::new();
        // SAFETY: the caller's list of that many elements.
        let list = unsafe { sges(wr.sg_list, count, &mut copy) }?;

        // SAFETY: the caller's request.
        let op = unsafe { operation(wr) }?;
        let flags = SendFlags::from_bits_truncate(wr.send_flags);
        let mut buffer = [const { MaybeUninit::uninit() }; INLINE_MAX];
        let data = if flags.contains(SendFlags::INLINE) {
            // SAFETY: the consumer vouches for inline memory.
            SendData::Inline(unsafe { gather(list, qp.max_inline, &mut buffer) }?)
        } else {
            SendData::Sges(list)
        };

        let request = SendRequest {
            wr_id: wr.wr_id,
            op,
            flags,
            data,
            // SAFETY: the caller's request.
            dest: unsafe { destination(qp, wr) }?,
        };
        queue
            .post(&request)
            .map_err(|e| explain("a send request", e))?;

        *at = wr.next;
    }

    Ok(())
}

pub(crate) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: a queue pair of ours.
    let qp = unsafe { Qp::of(qp) };
    let mut at = wr;
    let result = qp.health.run(|| {
        qp.check_handle()?;
        let mut queue = qp.engine.send_queue();
        // SAFETY: the caller's list.
        let posted = unsafe { post_list(qp, &mut queue, &mut at) };
        // Those before one that fails are sent.
        queue.doorbell();
        posted?;
        Ok(0)
    });

    if result != 0 && !bad_wr.is_null() {
        // SAFETY: the caller's pointer to the request that failed.
        unsafe { bad_wr.write(at) };
    }

    result
}

pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a queue pair of ours.
    let qp = unsafe { Qp::of(qp) };
    // SAFETY: the caller's list.
    unsafe {
        receive_list(&qp.health, wr, bad_wr, || {
            qp.check_handle()?;
            let mut queue = qp.engine.recv_queue();
            Ok(move |id, sges: &[Sge]| queue.post(id, sges))
        })
    }
}
