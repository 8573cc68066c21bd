//! XRC domains, and what is made in them: shared receive queues and targets. Their functions are
//! among the later ones.

use std::ptr::NonNull;
use std::rc::Rc;

use ferroce_cabi::{
    IBV_QP_INIT_ATTR_XRCD, IBV_SRQ_INIT_ATTR_CQ, IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_TYPE,
    IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQT_XRC, IBV_XRCD_INIT_ATTR_FD, IBV_XRCD_INIT_ATTR_OFLAGS, ibv_qp,
    ibv_qp_init_attr_ex, ibv_srq_attr, ibv_srq_init_attr_ex, ibv_xrcd, ibv_xrcd_init_attr, qp_type,
};

use super::device::{Device, later};
use super::library::{Verb, VerbsError};
use super::objects::{Cq, Pd, Srq, created, unsupported};

/// An XRC domain that no other program knows, and the completion queue of its shared receive
/// queues.
pub(super) struct Xrcd {
    device: Rc<Device>,
    raw: NonNull<ibv_xrcd>,
    pub(super) cq: Rc<Cq>,
}

impl Xrcd {
    /// `ibv_open_xrcd(3)`, and a queue for so many completions.
    pub(super) fn new(device: &Rc<Device>, entries: u32) -> Verb<Rc<Xrcd>> {
        let call = "ibv_open_xrcd";
        let open = later!(device, open_xrcd).ok_or_else(|| unsupported(call))?;
        let cq = Cq::new(device, entries)?;
        let mut init = ibv_xrcd_init_attr {
            comp_mask: IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
            fd: -1,
            oflags: libc::O_CREAT,
        };

        // SAFETY: an open context.
        let raw = unsafe { open(device.context.as_ptr(), &mut init) };
        Ok(Rc::new(Xrcd {
            device: device.clone(),
            raw: created(call, raw)?,
            cq,
        }))
    }

    /// `ibv_create_srq_ex(3)` in this domain.
    pub(super) fn srq(self: &Rc<Self>, pd: &Rc<Pd>, attr: ibv_srq_attr) -> Verb<Rc<Srq>> {
        let call = "ibv_create_srq_ex";
        let create = later!(self.device, create_srq_ex).ok_or_else(|| unsupported(call))?;

        // SAFETY: integers, and pointers that may be null.
        let mut init: ibv_srq_init_attr_ex = unsafe { std::mem::zeroed() };
        init.attr = attr;
        init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE
            | IBV_SRQ_INIT_ATTR_PD
            | IBV_SRQ_INIT_ATTR_XRCD
            | IBV_SRQ_INIT_ATTR_CQ;

        init.srq_type = IBV_SRQT_XRC;
        init.pd = pd.raw.as_ptr();
        init.xrcd = self.raw.as_ptr();
        init.cq = self.cq.raw.as_ptr();

        // SAFETY: an open context; a live domain of either kind and a live queue, which the object
        // keeps alive.
        let raw = unsafe { create(self.device.context.as_ptr(), &mut init) };
        let mut srq = Srq {
            pd: pd.clone(),
            raw: created(call, raw)?,
            xrc: None,
        };

        let call = "ibv_get_srq_num";
        let number_of = later!(self.device, get_srq_num).ok_or_else(|| unsupported(call))?;
        let mut number = 0;

        // SAFETY: a live queue, and room for the number.
        VerbsError::check(call, unsafe { number_of(srq.raw.as_ptr(), &mut number) })?;
        srq.xrc = Some((self.clone(), number));
        Ok(Rc::new(srq))
    }

    /// `ibv_create_qp_ex(3)` of a target. The caller keeps the domain for as long.
    pub(super) fn target(&self) -> Verb<NonNull<ibv_qp>> {
        let call = "ibv_create_qp_ex";
        let create = later!(self.device, create_qp_ex).ok_or_else(|| unsupported(call))?;
        // SAFETY: integers, and pointers that may be null.
        let mut init: ibv_qp_init_attr_ex = unsafe { std::mem::zeroed() };
        init.qp_type = qp_type::XRC_RECV;
        init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
        init.xrcd = self.raw.as_ptr();
        // SAFETY: an open context and a live domain.
        created(call, unsafe {
            create(self.device.context.as_ptr(), &mut init)
        })
    }
}

impl Drop for Xrcd {
    fn drop(&mut self) {
        if let Some(close) = later!(self.device, close_xrcd) {
            // SAFETY: made by the library, and all that was made in it is gone.
            unsafe { close(self.raw.as_ptr()) };
        }
    }
}
