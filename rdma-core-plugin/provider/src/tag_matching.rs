//! Shared receive queues that match tags, and `ibv_post_srq_ops(3)`: operations on their tagged
//! buffers.

use crate::allocators::Resource;
use crate::context::engine;
use crate::cq::Cq;
use crate::guard::{Errno, explain};
use crate::live;
use crate::memory::Pd;
use crate::place::Place;
use crate::requests;
use crate::srq::Srq;
use crate::wait;
use ferroce_cabi::pabi::verbs_srq;
use ferroce_cabi::*;
use ferroce_engine::{Sge, SrqInit, TagOp, TagWork, TmInit};
use libc::c_int;

/// Creates a shared receive queue that matches tags: `ibv_create_srq_ex(3)` for `IBV_SRQT_TM`. It
/// fills in the numbers that were granted, and all of the C structure.
///
/// # Safety
/// A context of ours, and a domain and a queue of its, or null.
pub(crate) unsafe fn create(
    context: *mut ibv_context,
    ex: &mut ibv_srq_init_attr_ex,
) -> Result<*mut ibv_srq, Errno> {
    let needed =
        IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;

    // SAFETY: as the caller promises.
    let (domain, caps) = unsafe { (Pd::of(ex.pd)?, engine(context).hca().device_attr().tm) };
    if ex.comp_mask != needed || ex.cq.is_null() || ex.tm_cap.max_ops > caps.max_ops {
        return Err(Errno(libc::EINVAL));
    }

    let place = Place::<Srq>::new(domain.allocators(), Resource::Srq)?;
    let engine = domain
        .engine
        .create_srq(SrqInit {
            max_wr: ex.attr.max_wr,
            max_sge: ex.attr.max_sge,
            cookie: place.address(),
            tm: Some(TmInit {
                // SAFETY: as the caller promises.
                cq: unsafe { Cq::live(ex.cq) }?.engine.clone(),
                max_num_tags: ex.tm_cap.max_num_tags,
            }),
            ..SrqInit::default()
        })
        .map_err(|e| explain("ibv_create_srq_ex", e))?;

    let actual = engine.query();
    (ex.attr.max_wr, ex.attr.max_sge) = (actual.max_wr, actual.max_sge);

    // SAFETY: all bits zero is a valid `verbs_srq`: integers and pointers.
    let mut verbs: verbs_srq = unsafe { std::mem::zeroed() };
    verbs.srq.context = context;
    verbs.srq.srq_context = ex.srq_context;
    verbs.srq.pd = ex.pd;
    verbs.srq.handle = engine.handle();
    verbs.srq_type = IBV_SRQT_TM;
    verbs.cq = ex.cq;
    verbs.srq_num = engine.number();
    let srq: *mut ibv_srq = place.write(Srq::new(verbs, engine)).cast();

    // SAFETY: in its final place and not in use yet.
    unsafe {
        wait::prepare(&raw mut (*srq).mutex, &raw mut (*srq).cond);
        Ok(live::enter(srq))
    }
}

/// Carries out the operations of a list; on an error `bad` names the first that was not.
pub(crate) unsafe extern "C" fn post_srq_ops(
    srq: *mut ibv_srq,
    ops: *mut ibv_ops_wr,
    bad: *mut *mut ibv_ops_wr,
) -> c_int {
    // SAFETY: a queue of ours.
    let object = unsafe { Srq::of(srq) };
    let mut at = ops;
    let result = object.health.run(|| {
        object.check_handle()?;
        // SAFETY: the caller's list, of which no one else has a reference meanwhile.
        while let Some(wr) = unsafe { at.as_mut() } {
            let mut copy = Vec::new();
            // SAFETY: the caller's operation.
            let op = unsafe { operation(wr, &mut copy) }?;
            let handle = object.engine.tag_op(&op)?;
            if wr.opcode == ops::TAG_ADD {
                wr.handle = handle;
            }
            at = wr.next;
        }
        Ok(0)
    });

    if result != 0 && !bad.is_null() {
        // SAFETY: the caller's pointer.
        unsafe { bad.write(at) };
    }

    result
}

/// # Safety
/// The list of a buffer that is added has as many elements as the operation says.
unsafe fn operation<'a>(wr: &'a ibv_ops_wr, copy: &'a mut Vec<Sge>) -> Result<TagOp<'a>, Errno> {
    let has = |flag| wr.flags & flag != 0;
    if wr.flags & !(IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC) != 0 {
        return Err(Errno(libc::EINVAL));
    }

    let what = match wr.opcode {
        ops::TAG_ADD => TagWork::Add {
            recv_wr_id: wr.add.recv_wr_id,
            // SAFETY: as the caller promises; the engine compares the number with its limit.
            sges: unsafe {
                let count = usize::try_from(wr.add.num_sge).map_err(|_| Errno(libc::EINVAL))?;
                requests::sges(wr.add.sg_list, count, copy)
            }?,
            tag: wr.add.tag,
            mask: wr.add.mask,
        },
        ops::TAG_DEL => TagWork::Remove(wr.handle),
        ops::TAG_SYNC => TagWork::Sync,
        _ => return Err(Errno(libc::EINVAL)),
    };

    // To tell the number is all that a SYNC does.
    let tells = has(IBV_OPS_TM_SYNC) || wr.opcode == ops::TAG_SYNC;
    Ok(TagOp {
        wr_id: wr.wr_id,
        signaled: has(IBV_OPS_SIGNALED),
        handled: tells.then_some(wr.unexpected_cnt),
        what,
    })
}
