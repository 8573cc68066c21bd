//! The context: opening and closing it, the table of operations, and the queries about device and port.

use crate::convert;
use crate::guard::{self, Errno};
use crate::libibverbs::{self, Library, library};
use crate::{
    ah, cq, cq_ex, dm, import, memory, mr, mw, parent_domain, post, qp, srq, tag_matching,
    unoffered, xrc,
};
use ferroce_cabi::pabi::{CONTEXT_HEAD_MAX, Operations};
use ferroce_cabi::*;
use ferroce_engine::{Context as EngineContext, Hca, RuntimeDir};
use libc::{c_int, c_void, size_t};
use std::mem::{offset_of, size_of};
use std::os::fd::RawFd;
use std::sync::{Arc, OnceLock};

/// Our part follows libibverbs' own; the whole is libibverbs' memory (`malloc`).
#[repr(C)]
pub struct Context {
    /// Where the `verbs_context` of later versions begins, which grows at its head.
    head: [Op; CONTEXT_HEAD_MAX],
    verbs: verbs_context,
    engine: Arc<EngineContext>,
    /// So that a `verbs_context` that is longer than expected is within the memory too, and can be refused.
    room: [Op; 32],
}

/// What libibverbs or its defaults do not do for us. What is missing here fails with `EOPNOTSUPP` by libibverbs' own defaults.
pub static OPS: Operations = Operations {
    advise_mr: Some(mr::advise_mr),
    alloc_dm: Some(dm::alloc_dm),
    alloc_mw: Some(mw::alloc_mw),
    alloc_null_mr: Some(mr::alloc_null_mr),
    alloc_parent_domain: Some(parent_domain::alloc_parent_domain),
    alloc_pd: Some(memory::alloc_pd),
    alloc_td: Some(parent_domain::alloc_td),
    attach_mcast: Some(qp::attach_mcast),
    bind_mw: Some(mw::bind_mw),
    close_xrcd: Some(xrc::close_xrcd),
    create_ah: Some(ah::create_ah),
    create_cq: Some(cq::create_cq),
    create_cq_ex: Some(cq_ex::create_cq_ex),
    create_qp: Some(qp::create_qp),
    create_qp_ex: Some(qp::create_qp_ex),
    create_srq: Some(srq::create_srq),
    create_srq_ex: Some(srq::create_srq_ex),
    dealloc_mw: Some(mw::dealloc_mw),
    dealloc_pd: Some(memory::dealloc_pd),
    dealloc_td: Some(parent_domain::dealloc_td),
    dereg_mr: Some(mr::dereg_mr),
    destroy_ah: Some(ah::destroy_ah),
    destroy_cq: Some(cq::destroy_cq),
    destroy_qp: Some(qp::destroy_qp),
    destroy_srq: Some(srq::destroy_srq),
    detach_mcast: Some(qp::detach_mcast),
    free_context: Some(free_context),
    free_dm: Some(dm::free_dm),
    get_srq_num: Some(srq::get_srq_num),
    import_dm: Some(dm::import_dm),
    import_mr: Some(mr::import_mr),
    import_pd: Some(memory::import_pd),
    modify_cq: Some(cq::modify_cq),
    modify_qp: Some(qp::modify_qp),
    modify_qp_rate_limit: Some(unoffered::modify_qp_rate_limit),
    modify_srq: Some(srq::modify_srq),
    open_qp: Some(xrc::open_qp),
    open_xrcd: Some(xrc::open_xrcd),
    poll_cq: Some(cq::poll_cq),
    post_recv: Some(post::post_recv),
    post_send: Some(post::post_send),
    post_srq_ops: Some(tag_matching::post_srq_ops),
    post_srq_recv: Some(srq::post_srq_recv),
    query_device_ex: Some(query_device_ex),
    query_ece: Some(unoffered::query_ece),
    query_port: Some(query_port),
    query_port_speed: Some(query_port_speed),
    query_qp: Some(qp::query_qp),
    query_qp_data_in_order: Some(qp::query_qp_data_in_order),
    query_rt_values: Some(query_rt_values),
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
    ..Operations::empty()
};

/// The engine's context behind a C one.
///
/// # Safety
/// `context` is one of ours and open.
pub unsafe fn engine<'a>(context: *mut ibv_context) -> &'a Arc<EngineContext> {
    let offset = offset_of!(Context, verbs) + offset_of!(verbs_context, context);
    // SAFETY: every context that reaches this provider was made by `alloc_context`, which put it at this offset.
    unsafe { &(*context.byte_sub(offset).cast::<Context>()).engine }
}

/// Opens the device. Takes over `cmd_fd`, also when it fails.
pub unsafe extern "C" fn alloc_context(
    device: *mut ibv_device,
    cmd_fd: c_int,
    _private: *mut c_void,
) -> *mut verbs_context {
    let mut cmd_fd = OwnedCommandFd(cmd_fd);
    guard::run(|| {
        let open = || EngineContext::open(Hca::open(&RuntimeDir::resolve(None))?);
        let engine = open().map_err(|error| {
            // The one failure that a user must be told about in words: no daemon, port taken, no free slot.
            eprintln!("ferroce: cannot open the device: {error}");
            Errno::from(error)
        })?;
        let async_fd = duplicate(engine.async_fd())?;
        // With the descriptor there, libibverbs does not ask the kernel for one.
        // SAFETY: a device of libibverbs.
        unsafe { make(device, cmd_fd.take(), engine, async_fd) }.inspect_err(|_| {
            // SAFETY: our own duplicate.
            unsafe { libc::close(async_fd) };
        })
    })
}

/// Makes the C object of a context, and answers where libibverbs' part begins. Takes over `cmd_fd`, also when it fails, and
/// `async_fd`, the descriptor of asynchronous events or -1, unless it fails.
///
/// # Safety
/// `device` is libibverbs'.
pub unsafe fn make(
    device: *mut ibv_device,
    cmd_fd: c_int,
    engine: Arc<EngineContext>,
    async_fd: c_int,
) -> Result<*mut verbs_context, Errno> {
    let mut cmd_fd = OwnedCommandFd(cmd_fd);
    let library = library().ok_or(Errno(libc::ENOSYS))?;
    let command = cmd_fd.0;
    let start = offset_of!(Context, verbs) - library.context_head();
    // SAFETY: a device of libibverbs; the offset is that of its `verbs_context` in `Context`.
    let context: *mut Context = unsafe {
        let offset = std::ptr::without_provenance_mut(start);
        (library.init_and_alloc_context)(device, cmd_fd.take(), size_of::<Context>(), offset, 0)
    }
    .cast();
    if context.is_null() {
        return Err(guard::errno());
    }
    // SAFETY: fresh memory of that size, of which libibverbs has filled in its `verbs_context`, wherever that ends.
    unsafe {
        let verbs = context.byte_add(start).cast::<verbs_context>();
        if !libibverbs::is_as_expected(library, &(*context).verbs, device)
            || !offer(library, context)
        {
            (library.uninit_context)(verbs);
            libc::free(context.cast());
            eprintln!(
                "ferroce: cannot open the device: this libibverbs is a variant of {} that is not known",
                library.served.layout
            );
            return Err(Errno(libc::ENOSYS));
        }
        import::opened(command, &engine);
        (&raw mut (*context).engine).write(engine);
        (*context).verbs.context.async_fd = async_fd;
        (*context).verbs.context.num_comp_vectors = 1;
        Ok(verbs)
    }
}

/// Gives libibverbs our operations; false if it took them for others.
///
/// # Safety
/// A context that libibverbs has filled in as its layout says.
unsafe fn offer(library: &Library, context: *mut Context) -> bool {
    static TABLE: OnceLock<Box<[Op]>> = OnceLock::new();
    let table = TABLE.get_or_init(|| library.served.layout.table(&OPS));
    // SAFETY: as the caller promises; the table has the length and order of this library's.
    unsafe {
        let verbs = &raw mut (*context).verbs;
        (library.set_ops)(verbs.byte_sub(library.context_head()), table.as_ptr());
        libibverbs::is_in_order(&*verbs, &OPS)
    }
}

/// The command descriptor until libibverbs has it.
struct OwnedCommandFd(c_int);

impl OwnedCommandFd {
    fn take(&mut self) -> c_int {
        std::mem::replace(&mut self.0, -1)
    }
}

impl Drop for OwnedCommandFd {
    fn drop(&mut self) {
        if self.0 >= 0 {
            // SAFETY: handed to us to close.
            unsafe { libc::close(self.0) };
        }
    }
}

/// libibverbs closes a context's descriptor, and the engine keeps its own.
pub fn duplicate(fd: RawFd) -> Result<c_int, Errno> {
    // SAFETY: touches no memory.
    match unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) } {
        -1 => Err(guard::errno()),
        copy => Ok(copy),
    }
}

unsafe extern "C" fn free_context(context: *mut ibv_context) {
    let offset = offset_of!(Context, verbs) + offset_of!(verbs_context, context);
    // SAFETY: an open context of ours; libibverbs calls this once and forgets it.
    let context: *mut Context = unsafe { context.byte_sub(offset) }.cast();
    // SAFETY: as above; the engine's part is read out once, and the memory is freed last.
    unsafe {
        let engine = (&raw mut (*context).engine).read();
        import::closed((*context).verbs.context.cmd_fd);
        let _: c_int = guard::run(|| {
            drop(engine);
            Ok(0)
        });
        if let Some(library) = library() {
            let verbs = &raw mut (*context).verbs;
            (library.uninit_context)(verbs.byte_sub(library.context_head()));
        }
        libc::free(context.cast());
    }
}

unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    size: size_t,
) -> c_int {
    guard::run(|| {
        // SAFETY: null or the caller's structure.
        if unsafe { input.as_ref() }.is_some_and(|input| input.comp_mask != 0)
            || size < size_of::<ibv_device_attr>()
        {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: a context of ours.
        let device = convert::device_attr(&unsafe { engine(context) }.hca().device_attr());
        let known = size.min(size_of::<ibv_device_attr_ex>());
        // SAFETY: the caller's structure has `size` bytes; a newer one than ours gets zeros at its end.
        unsafe {
            std::ptr::copy_nonoverlapping(
                (&raw const device).cast::<u8>(),
                attr.cast::<u8>(),
                known,
            );
            attr.cast::<u8>().add(known).write_bytes(0, size - known);
        }
        Ok(0)
    })
}

unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    guard::run(|| {
        // SAFETY: a context of ours.
        let found = unsafe { engine(context) }.hca().port_attr(port)?;
        // SAFETY: the caller's structure.
        unsafe { attr.write(convert::port_attr(&found)) };
        Ok(0)
    })
}

/// The port's effective speed in units of 100 Mbit/s.
unsafe extern "C" fn query_port_speed(
    context: *mut ibv_context,
    port: u32,
    speed: *mut u64,
) -> c_int {
    guard::run(|| {
        let port = u8::try_from(port).map_err(|_| Errno(libc::EINVAL))?;
        // SAFETY: a context of ours.
        let found = unsafe { engine(context) }.hca().port_attr(port)?;
        let found = convert::port_speed(&found).ok_or(Errno(libc::EINVAL))?;
        // SAFETY: the caller's variable.
        unsafe { speed.write(found) };
        Ok(0)
    })
}

/// The device's clock, as it stamps completions: its ticks stand in `tv_nsec`, all of them, whatever their number.
unsafe extern "C" fn query_rt_values(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    guard::run(|| {
        // SAFETY: the caller's structure.
        let values = unsafe { values.as_mut() }.ok_or(Errno(libc::EINVAL))?;
        if values.comp_mask & !IBV_VALUES_MASK_RAW_CLOCK != 0 {
            return Err(Errno(libc::EINVAL));
        }
        if values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK != 0 {
            values.raw_clock.tv_sec = 0;
            // SAFETY: a context of ours.
            values.raw_clock.tv_nsec = unsafe { engine(context) }.hca().clock() as i64;
        }
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Versions of libibverbs that are installed where the C programs run may not have this verb.
    #[test]
    fn the_speed_of_no_port() {
        let mut speed = 7;
        guard::set_errno(Errno(0));
        // SAFETY: a port that cannot be is refused before the context is looked at.
        let result = unsafe { query_port_speed(std::ptr::null_mut(), 257, &mut speed) };
        assert_eq!(
            (result, guard::errno()),
            (libc::EINVAL, Errno(libc::EINVAL))
        );
        assert_eq!(speed, 7);
    }
}
