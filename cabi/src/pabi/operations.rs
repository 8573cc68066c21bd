//! The operations of a provider that this project knows the types of, by name.
//!
//! In what order a libibverbs wants them, and which it has, is [`super::Layout`]'s to say.

use crate::Op;
use crate::attr::*;
use crate::device::*;
use crate::domain::*;
use crate::object::*;
use crate::pabi::verbs_mr;
use crate::sge::ibv_sge;
use crate::tag_matching::ibv_ops_wr;
use crate::wr::*;
use libc::{c_int, c_uint, c_void, size_t};

/// Defines [`Operations`] with a field for each line.
macro_rules! operations {
    ($($name:ident: $signature:ty,)*) => {
        /// What a provider offers of `struct verbs_context_ops`. What is left `None` keeps
        /// libibverbs' default, which fails with `EOPNOTSUPP` and calls no kernel.
        #[allow(missing_docs)]
        pub struct Operations {
            $(pub $name: Option<$signature>,)*
        }

        impl Operations {
            /// The names of all fields.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// The function that is offered for an operation, which may be one that has no field.
            pub fn slot(&self, name: &str) -> Op {
                match name {
                    // SAFETY: from an optional function pointer to another; nobody calls it by this
                    // type.
                    $(stringify!($name) => unsafe {
                        std::mem::transmute::<Option<$signature>, Op>(self.$name)
                    },)*
                    _ => None,
                }
            }

            /// The same table with other functions in the place of those that are offered, for
            /// tests of who reaches which; what is `None` stays so.
            ///
            /// # Safety
            /// Nobody calls a replacement by the type of an operation that is not its own.
            pub unsafe fn map(&self, replacement: impl Fn(&str) -> Op) -> Self {
                Operations {
                    // SAFETY: from an optional function pointer to another, which the caller
                    // answers for.
                    $($name: self.$name.and_then(|_| unsafe {
                        std::mem::transmute::<Op, Option<$signature>>(replacement(stringify!($name)))
                    }),)*
                }
            }
        }
    };
}

operations! {
    advise_mr: unsafe extern "C" fn(*mut ibv_pd, c_uint, u32, *mut ibv_sge, u32) -> c_int,
    alloc_dm: unsafe extern "C" fn(*mut ibv_context, *mut ibv_alloc_dm_attr) -> *mut ibv_dm,
    alloc_mw: unsafe extern "C" fn(*mut ibv_pd, c_uint) -> *mut ibv_mw,
    alloc_null_mr: unsafe extern "C" fn(*mut ibv_pd) -> *mut ibv_mr,
    alloc_parent_domain: unsafe extern "C" fn(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd,
    alloc_pd: unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_pd,
    alloc_td: unsafe extern "C" fn(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td,
    async_event: unsafe extern "C" fn(*mut ibv_context, *mut ibv_async_event),
    attach_mcast: unsafe extern "C" fn(*mut ibv_qp, *const ibv_gid, u16) -> c_int,
    bind_mw: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int,
    close_xrcd: unsafe extern "C" fn(*mut ibv_xrcd) -> c_int,
    cq_event: unsafe extern "C" fn(*mut ibv_cq),
    create_ah: unsafe extern "C" fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah,
    create_cq: unsafe extern "C" fn(*mut ibv_context, c_int, *mut ibv_comp_channel, c_int) -> *mut ibv_cq,
    create_cq_ex: unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex,
    create_qp: unsafe extern "C" fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp,
    create_qp_ex: unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp,
    create_srq: unsafe extern "C" fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq,
    create_srq_ex: unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq,
    dealloc_mw: unsafe extern "C" fn(*mut ibv_mw) -> c_int,
    dealloc_pd: unsafe extern "C" fn(*mut ibv_pd) -> c_int,
    dealloc_td: unsafe extern "C" fn(*mut ibv_td) -> c_int,
    dereg_mr: unsafe extern "C" fn(*mut verbs_mr) -> c_int,
    destroy_ah: unsafe extern "C" fn(*mut ibv_ah) -> c_int,
    destroy_cq: unsafe extern "C" fn(*mut ibv_cq) -> c_int,
    destroy_qp: unsafe extern "C" fn(*mut ibv_qp) -> c_int,
    destroy_srq: unsafe extern "C" fn(*mut ibv_srq) -> c_int,
    detach_mcast: unsafe extern "C" fn(*mut ibv_qp, *const ibv_gid, u16) -> c_int,
    free_context: unsafe extern "C" fn(*mut ibv_context),
    free_dm: unsafe extern "C" fn(*mut ibv_dm) -> c_int,
    get_srq_num: unsafe extern "C" fn(*mut ibv_srq, *mut u32) -> c_int,
    import_dm: unsafe extern "C" fn(*mut ibv_context, u32) -> *mut ibv_dm,
    import_mr: unsafe extern "C" fn(*mut ibv_pd, u32) -> *mut ibv_mr,
    import_pd: unsafe extern "C" fn(*mut ibv_context, u32) -> *mut ibv_pd,
    modify_cq: unsafe extern "C" fn(*mut ibv_cq, *mut ibv_modify_cq_attr) -> c_int,
    modify_qp: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int,
    modify_qp_rate_limit: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_rate_limit_attr) -> c_int,
    modify_srq: unsafe extern "C" fn(*mut ibv_srq, *mut ibv_srq_attr, c_int) -> c_int,
    open_qp: unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_open_attr) -> *mut ibv_qp,
    open_xrcd: unsafe extern "C" fn(*mut ibv_context, *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd,
    poll_cq: unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int,
    post_recv: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
    post_send: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
    post_srq_ops: unsafe extern "C" fn(*mut ibv_srq, *mut ibv_ops_wr, *mut *mut ibv_ops_wr) -> c_int,
    post_srq_recv: unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
    query_device_ex: unsafe extern "C" fn(*mut ibv_context, *const ibv_query_device_ex_input, *mut ibv_device_attr_ex, size_t) -> c_int,
    query_ece: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_ece) -> c_int,
    query_port: unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int,
    query_port_speed: unsafe extern "C" fn(*mut ibv_context, u32, *mut u64) -> c_int,
    query_qp: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int,
    query_qp_data_in_order: unsafe extern "C" fn(*mut ibv_qp, c_uint, u32) -> c_int,
    query_rt_values: unsafe extern "C" fn(*mut ibv_context, *mut ibv_values_ex) -> c_int,
    query_srq: unsafe extern "C" fn(*mut ibv_srq, *mut ibv_srq_attr) -> c_int,
    reg_dm_mr: unsafe extern "C" fn(*mut ibv_pd, *mut ibv_dm, u64, size_t, c_uint) -> *mut ibv_mr,
    reg_dmabuf_mr: unsafe extern "C" fn(*mut ibv_pd, u64, size_t, u64, c_int, c_int) -> *mut ibv_mr,
    reg_mr: unsafe extern "C" fn(*mut ibv_pd, *mut c_void, size_t, u64, c_int) -> *mut ibv_mr,
    reg_mr_ex: unsafe extern "C" fn(*mut ibv_pd, *mut ibv_mr_init_attr) -> *mut ibv_mr,
    req_notify_cq: unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int,
    rereg_mr: unsafe extern "C" fn(*mut verbs_mr, c_int, *mut ibv_pd, *mut c_void, size_t, c_int) -> c_int,
    resize_cq: unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int,
    set_ece: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_ece) -> c_int,
    unimport_dm: unsafe extern "C" fn(*mut ibv_dm),
    unimport_mr: unsafe extern "C" fn(*mut ibv_mr),
    unimport_pd: unsafe extern "C" fn(*mut ibv_pd),
}
