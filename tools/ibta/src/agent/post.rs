//! Requests posted to queues: from plain values to the structures of `<infiniband/verbs.h>`.

use std::ptr;
use std::rc::Rc;

use ferroce_cabi::{
    IBV_MW_TYPE_1, ibv_mw_bind, ibv_mw_bind_info, ibv_recv_wr, ibv_send_wr, ibv_send_wr_atomic,
    ibv_send_wr_bind_mw, ibv_send_wr_op, ibv_send_wr_rdma, ibv_send_wr_ud, ibv_sge,
};
use libc::c_int;

use super::library::{Verb, VerbsError};
use super::objects::{Ah, Mw, Qp, Srq, unsupported};
use super::region::Region;

/// Where the data of a send request goes to or comes from.
pub(super) enum Target {
    /// RDMA WRITE, RDMA READ; SEND looks at neither.
    Memory { address: u64, rkey: u32 },
    /// ATOMIC operations.
    Atomic {
        address: u64,
        rkey: u32,
        compare_add: u64,
        swap: u64,
    },
    /// A datagram.
    Datagram { ah: Rc<Ah>, qpn: u32, qkey: u32 },
}

/// A window and what it is to be bound to.
pub(super) struct Bind {
    pub(super) window: Rc<Mw>,
    pub(super) region: Rc<Region>,
    pub(super) address: u64,
    pub(super) len: u64,
    pub(super) access: u32,
    /// The R_Key that a window of type 2 is to have.
    pub(super) rkey: u32,
}

/// A send request.
pub(super) struct Send {
    pub(super) wr_id: u64,
    /// `enum ibv_wr_opcode`.
    pub(super) opcode: u32,
    /// `enum ibv_send_flags`.
    pub(super) flags: u32,
    /// With `IBV_SEND_INLINE` they must lie in memory of this process.
    pub(super) sges: Vec<ibv_sge>,
    /// Immediate data as it is to stand in memory, or the R_Key to invalidate.
    pub(super) imm_or_rkey: u32,
    pub(super) target: Target,
    pub(super) bind: Option<Bind>,
}

impl Send {
    fn target(&self) -> ibv_send_wr_op {
        match &self.target {
            Target::Memory { address, rkey } => ibv_send_wr_op {
                rdma: ibv_send_wr_rdma {
                    remote_addr: *address,
                    rkey: *rkey,
                },
            },
            Target::Datagram { ah, qpn, qkey } => ibv_send_wr_op {
                ud: ibv_send_wr_ud {
                    ah: ah.raw.as_ptr(),
                    remote_qpn: *qpn,
                    remote_qkey: *qkey,
                },
            },
            Target::Atomic {
                address,
                rkey,
                compare_add,
                swap,
            } => ibv_send_wr_op {
                atomic: ibv_send_wr_atomic {
                    remote_addr: *address,
                    compare_add: *compare_add,
                    swap: *swap,
                    rkey: *rkey,
                },
            },
        }
    }

    fn bind(&self) -> ibv_send_wr_bind_mw {
        let bind = self.bind.as_ref();
        ibv_send_wr_bind_mw {
            mw: bind.map_or(ptr::null_mut(), |bind| bind.window.raw.as_ptr()),
            rkey: bind.map_or(0, |bind| bind.rkey),
            bind_info: bind_info(bind),
        }
    }
}

fn bind_info(bind: Option<&Bind>) -> ibv_mw_bind_info {
    ibv_mw_bind_info {
        mr: bind.map_or(ptr::null_mut(), |bind| bind.region.raw()),
        addr: bind.map_or(0, |bind| bind.address),
        length: bind.map_or(0, |bind| bind.len),
        mw_access_flags: bind.map_or(0, |bind| bind.access),
    }
}

impl Qp {
    /// `ibv_post_send(3)` of one request.
    pub(super) fn post_send(&self, request: &mut Send) -> Verb {
        let Some(post) = self.pd.device.operations().post_send else {
            return Err(unsupported("ibv_post_send"));
        };
        if let Target::Datagram { ah, .. } = &request.target {
            self.keep(ah);
        }

        let mut raw = ibv_send_wr {
            wr_id: request.wr_id,
            next: ptr::null_mut(),
            sg_list: request.sges.as_mut_ptr(),
            num_sge: request.sges.len() as c_int,
            opcode: request.opcode,
            send_flags: request.flags,
            imm_or_rkey: request.imm_or_rkey,
            wr: request.target(),
            xrc_remote_srqn: 0,
            bind_mw: request.bind(),
        };

        let mut bad = ptr::null_mut();

        // SAFETY: a live queue pair and live objects; gather entries are looked up by key, and
        // those of inline requests are the caller's to vouch for, as the field says.
        VerbsError::check("ibv_post_send", unsafe {
            post(self.raw.as_ptr(), &mut raw, &mut bad)
        })
    }

    /// `ibv_bind_mw(3)`: binds a window of type 1.
    pub(super) fn bind(&self, wr_id: u64, flags: u32, bind: &Bind) -> Verb {
        let Some(bind_mw) = self.pd.device.operations().bind_mw else {
            return Err(unsupported("ibv_bind_mw"));
        };

        // SAFETY: made by the library; the type never changes.
        if unsafe { (*bind.window.raw.as_ptr()).r#type } != IBV_MW_TYPE_1 {
            return Err(VerbsError {
                call: "ibv_bind_mw",
                errno: libc::EINVAL,
            });
        }

        let mut what = ibv_mw_bind {
            wr_id,
            send_flags: flags,
            bind_info: bind_info(Some(bind)),
        };

        // SAFETY: live objects.
        VerbsError::check("ibv_bind_mw", unsafe {
            bind_mw(self.raw.as_ptr(), bind.window.raw.as_ptr(), &mut what)
        })
    }

    /// `ibv_post_recv(3)` of one request.
    pub(super) fn post_recv(&self, wr_id: u64, sges: &mut [ibv_sge]) -> Verb {
        let Some(post) = self.pd.device.operations().post_recv else {
            return Err(unsupported("ibv_post_recv"));
        };
        let mut request = receive(wr_id, sges);
        let mut bad = ptr::null_mut();
        // SAFETY: a live queue pair; scatter entries are looked up by key.
        VerbsError::check("ibv_post_recv", unsafe {
            post(self.raw.as_ptr(), &mut request, &mut bad)
        })
    }
}

impl Srq {
    /// `ibv_post_srq_recv(3)` of one request.
    pub(super) fn post_recv(&self, wr_id: u64, sges: &mut [ibv_sge]) -> Verb {
        let Some(post) = self.pd.device.operations().post_srq_recv else {
            return Err(unsupported("ibv_post_srq_recv"));
        };
        let mut request = receive(wr_id, sges);
        let mut bad = ptr::null_mut();
        // SAFETY: a live queue; scatter entries are looked up by key.
        VerbsError::check("ibv_post_srq_recv", unsafe {
            post(self.raw.as_ptr(), &mut request, &mut bad)
        })
    }
}

fn receive(wr_id: u64, sges: &mut [ibv_sge]) -> ibv_recv_wr {
    ibv_recv_wr {
        wr_id,
        next: ptr::null_mut(),
        sg_list: sges.as_mut_ptr(),
        num_sge: sges.len() as c_int,
    }
}
