//! The table of operations, which has all verbs in one place: nothing that an object is made of
//! asks for it.

use crate::libibverbs::{self, Library};
use crate::{
    ah, context, cq, cq_ex, dm, memory, mr, mw, parent_domain, post, qp, qp_create, srq,
    srq_create, tag_matching, thread_domain, unoffered, xrc,
};
use ferroce_cabi::pabi::Operations;
use ferroce_cabi::verbs_context;

/// What libibverbs or its defaults do not do for us. What is missing here fails with `EOPNOTSUPP`
/// by libibverbs' own defaults.
pub(crate) static OPS: Operations = Operations {
    advise_mr: Some(mr::advise_mr),
    alloc_dm: Some(dm::alloc_dm),
    alloc_mw: Some(mw::alloc_mw),
    alloc_null_mr: Some(mr::alloc_null_mr),
    alloc_parent_domain: Some(parent_domain::alloc_parent_domain),
    alloc_pd: Some(memory::alloc_pd),
    alloc_td: Some(thread_domain::alloc_td),
    async_event: Some(context::async_event),
    attach_mcast: Some(qp::attach_mcast),
    bind_mw: Some(mw::bind_mw),
    close_xrcd: Some(xrc::close_xrcd),
    cq_event: Some(cq::cq_event),
    create_ah: Some(ah::create_ah),
    create_cq: Some(cq::create_cq),
    create_cq_ex: Some(cq_ex::create_cq_ex),
    create_qp: Some(qp_create::create_qp),
    create_qp_ex: Some(qp_create::create_qp_ex),
    create_srq: Some(srq_create::create_srq),
    create_srq_ex: Some(srq_create::create_srq_ex),
    dealloc_mw: Some(mw::dealloc_mw),
    dealloc_pd: Some(memory::dealloc_pd),
    dealloc_td: Some(thread_domain::dealloc_td),
    dereg_mr: Some(mr::dereg_mr),
    destroy_ah: Some(ah::destroy_ah),
    destroy_cq: Some(cq::destroy_cq),
    destroy_qp: Some(qp::destroy_qp),
    destroy_srq: Some(srq::destroy_srq),
    detach_mcast: Some(qp::detach_mcast),
    free_context: Some(context::free_context),
    free_dm: Some(dm::free_dm),
    get_srq_num: Some(srq::get_srq_num),
    import_dm: Some(dm::import_dm),
    import_mr: Some(mr::import_mr),
    import_pd: Some(memory::import_pd),
    modify_cq: Some(cq::modify_cq),
    modify_qp: Some(qp::modify_qp),
    modify_qp_rate_limit: Some(unoffered::modify_qp_rate_limit),
    modify_srq: Some(srq::modify_srq),
    open_qp: Some(qp_create::open_qp),
    open_xrcd: Some(xrc::open_xrcd),
    poll_cq: Some(cq::poll_cq),
    post_recv: Some(post::post_recv),
    post_send: Some(post::post_send),
    post_srq_ops: Some(tag_matching::post_srq_ops),
    post_srq_recv: Some(srq::post_srq_recv),
    query_device_ex: Some(context::query_device_ex),
    query_ece: Some(unoffered::query_ece),
    query_port: Some(context::query_port),
    query_port_speed: Some(context::query_port_speed),
    query_qp: Some(qp::query_qp),
    query_qp_data_in_order: Some(qp::query_qp_data_in_order),
    query_rt_values: Some(context::query_rt_values),
    query_srq: Some(srq::query_srq),
    reg_dm_mr: Some(mr::reg_dm_mr),
    reg_dmabuf_mr: Some(mr::reg_dmabuf_mr),
    reg_mr: Some(mr::reg_mr),
    reg_mr_ex: Some(mr::reg_mr_ex),
    req_notify_cq: Some(cq::req_notify_cq),
    rereg_mr: Some(mr::rereg_mr),
    resize_cq: Some(cq::resize_cq),
    set_ece: Some(unoffered::set_ece),
    unimport_dm: Some(dm::unimport_dm),
    unimport_mr: Some(mr::unimport_mr),
    unimport_pd: Some(memory::unimport_pd),
};

/// Gives libibverbs our operations; false if it took them for others.
///
/// # Safety
/// A context that libibverbs has filled in as its layout says.
pub(crate) unsafe fn offer(library: &Library, verbs: *mut verbs_context) -> bool {
    let table = library.served.layout.table(&OPS);
    // SAFETY: as the caller promises; the table has the length and order of this library's.
    unsafe {
        (library.set_ops)(verbs.byte_sub(library.context_head()), table.as_ptr());
        libibverbs::is_in_order(&*verbs, &OPS)
    }
}
