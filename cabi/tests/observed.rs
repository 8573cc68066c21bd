//! The private provider interface, whose header is not installed, checked by what the installed
//! libibverbs does with it: a table full of distinct pointers goes in through `verbs_set_ops`, and
//! the public tables and functions show which slot each operation was taken from.

use ferroce_cabi::pabi::*;
use ferroce_cabi::*;
use std::ffi::{CStr, c_int, c_void};
use std::mem::{offset_of, size_of};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Library(*mut c_void);

impl Library {
    fn open() -> Option<Library> {
        // SAFETY: a constant, NUL-terminated name; loading libibverbs has no preconditions.
        let handle = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            eprintln!("SKIPPED: libibverbs.so.1 is not installed");
        }
        (!handle.is_null()).then_some(Library(handle))
    }

    fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: a live handle and a NUL-terminated name.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!address.is_null(), "libibverbs has no {name:?}");
        address
    }

    fn has(&self, name: &CStr) -> bool {
        // SAFETY: a live handle and a NUL-terminated name.
        !unsafe { libc::dlsym(self.0, name.as_ptr()) }.is_null()
    }

    /// What this library is, whose `comp_mask` of queue pairs is taken to be where the newest row
    /// of its number has it.
    fn layout(&self) -> &'static Layout {
        let newest = LAYOUTS.iter().map(Layout::qp_mask).max();
        let served = recognise(|name| self.has(name), || newest);
        served.expect("a libibverbs that is served").layout
    }
}

struct Fixture {
    library: Library,
    layout: &'static Layout,
    device: Box<verbs_device>,
    /// Where the library's begins, and where ours.
    start: *mut verbs_context,
    context: *mut verbs_context,
}

impl Fixture {
    fn new() -> Option<Fixture> {
        let library = Library::open()?;
        let layout = library.layout();
        let init = library.symbol(c"_verbs_init_and_alloc_context");

        // SAFETY: the type of that symbol.
        let init: verbs_init_and_alloc_context = unsafe { std::mem::transmute(init) };

        // SAFETY: all bits zero is a valid `verbs_device`: integers, pointers and optional
        // functions.
        let mut device: Box<verbs_device> = Box::new(unsafe { std::mem::zeroed() });
        device.refcount = 1;
        let head = layout.context_head() * size_of::<Op>();
        let size = size_of::<verbs_context>() + head;

        // SAFETY: the device outlives the context; no command descriptor.
        let start = unsafe { init(&mut device.device, -1, size, null_mut(), 0) };
        assert!(!start.is_null());
        Some(Fixture {
            library,
            layout,
            device,
            start: start.cast(),
            // SAFETY: inside the memory just made.
            context: unsafe { start.byte_add(head) }.cast(),
        })
    }

    /// The place of an operation in the table.
    fn slot(&self, name: &str) -> usize {
        let operations = self.layout.operations();
        let place = operations.iter().position(|operation| *operation == name);
        place.unwrap_or_else(|| panic!("{name} is not in {:?}", self.layout))
    }

    fn set_ops(&self, table: &[Op]) {
        assert_eq!(table.len(), self.layout.operations().len());
        // SAFETY: the type of that symbol.
        let set: verbs_set_ops =
            unsafe { std::mem::transmute(self.library.symbol(c"verbs_set_ops")) };
        // SAFETY: a context made by libibverbs and a whole table.
        unsafe { set(self.start, table.as_ptr()) };
    }
}

/// The word at a byte offset of a structure.
fn word<T>(base: *const T, offset: usize) -> usize {
    assert!(offset + size_of::<usize>() <= size_of::<T>());
    // SAFETY: inside the structure, aligned like every pointer in it, and initialised (a function
    // pointer or null).
    unsafe { base.byte_add(offset).cast::<usize>().read() }
}

#[test]
fn a_context_takes_a_reference_on_the_device() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    assert_eq!(fixture.device.refcount, 2);
    // SAFETY: made by libibverbs just now.
    let context = unsafe { &(*fixture.context).context };
    assert!(std::ptr::eq(context.device, &fixture.device.device));
    assert_eq!((context.cmd_fd, context.async_fd), (-1, -1));
    assert_eq!(context.abi_compat as usize, usize::MAX);
    // SAFETY: as above.
    let size = unsafe { (*fixture.context).sz };
    let head = fixture.layout.context_head() * size_of::<Op>();
    assert_eq!(size, size_of::<verbs_context>() + head);
}

#[test]
fn each_public_operation_comes_from_its_slot() {
    let Some(fixture) = Fixture::new() else {
        return;
    };

    let marker = |slot: usize| 0x10_0000 + slot * 16;
    let slots = 0..fixture.layout.operations().len();

    // SAFETY: an optional function is one word; none of these is ever called.
    let table = slots.map(|slot| unsafe { std::mem::transmute::<usize, Op>(marker(slot)) });
    fixture.set_ops(&table.collect::<Vec<_>>());

    macro_rules! public {
        ($($public:ident = $slot:ident),* $(,)?) => {$(
            assert_eq!(
                // SAFETY: the context lives.
                word(unsafe { &raw const (*fixture.context).context.ops }, offset_of!(ibv_context_ops, $public)),
                marker(fixture.slot(stringify!($slot))),
                stringify!($slot)
            );
        )*};
    }

    macro_rules! extended {
        ($($public:ident = $slot:ident),* $(,)?) => {$(
            assert_eq!(
                word(fixture.context, offset_of!(verbs_context, $public)),
                marker(fixture.slot(stringify!($slot))),
                stringify!($slot)
            );
        )*};
    }

    public!(
        _compat_alloc_pd = alloc_pd,
        _compat_dealloc_pd = dealloc_pd,
        _compat_reg_mr = reg_mr,
        _compat_rereg_mr = rereg_mr,
        _compat_dereg_mr = dereg_mr,
        alloc_mw = alloc_mw,
        bind_mw = bind_mw,
        dealloc_mw = dealloc_mw,
        _compat_create_cq = create_cq,
        poll_cq = poll_cq,
        req_notify_cq = req_notify_cq,
        _compat_cq_event = cq_event,
        _compat_resize_cq = resize_cq,
        _compat_destroy_cq = destroy_cq,
        _compat_create_srq = create_srq,
        _compat_modify_srq = modify_srq,
        _compat_query_srq = query_srq,
        _compat_destroy_srq = destroy_srq,
        post_srq_recv = post_srq_recv,
        _compat_create_qp = create_qp,
        _compat_query_qp = query_qp,
        _compat_modify_qp = modify_qp,
        _compat_destroy_qp = destroy_qp,
        post_send = post_send,
        post_recv = post_recv,
        _compat_create_ah = create_ah,
        _compat_destroy_ah = destroy_ah,
        _compat_attach_mcast = attach_mcast,
        _compat_detach_mcast = detach_mcast,
        _compat_async_event = async_event,
    );

    extended!(
        advise_mr = advise_mr,
        alloc_null_mr = alloc_null_mr,
        read_counters = read_counters,
        attach_counters_point_flow = attach_counters_point_flow,
        create_counters = create_counters,
        destroy_counters = destroy_counters,
        reg_dm_mr = reg_dm_mr,
        alloc_dm = alloc_dm,
        free_dm = free_dm,
        modify_flow_action_esp = modify_flow_action_esp,
        destroy_flow_action = destroy_flow_action,
        create_flow_action_esp = create_flow_action_esp,
        modify_qp_rate_limit = modify_qp_rate_limit,
        alloc_parent_domain = alloc_parent_domain,
        dealloc_td = dealloc_td,
        alloc_td = alloc_td,
        modify_cq = modify_cq,
        post_srq_ops = post_srq_ops,
        destroy_rwq_ind_table = destroy_rwq_ind_table,
        create_rwq_ind_table = create_rwq_ind_table,
        destroy_wq = destroy_wq,
        modify_wq = modify_wq,
        create_wq = create_wq,
        query_rt_values = query_rt_values,
        query_device_ex = query_device_ex,
        ibv_destroy_flow = destroy_flow,
        ibv_create_flow = create_flow,
        open_qp = open_qp,
        create_qp_ex = create_qp_ex,
        get_srq_num = get_srq_num,
        create_srq_ex = create_srq_ex,
        open_xrcd = open_xrcd,
        close_xrcd = close_xrcd,
    );
}

static HITS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn hit() -> usize {
    HITS.fetch_add(1, Ordering::SeqCst);
    0
}

/// Operations without a public slot: each is put alone into the table and its public function
/// called.
#[test]
fn each_hidden_operation_is_called_from_its_slot() {
    let Some(fixture) = Fixture::new() else {
        return;
    };

    // SAFETY: the context lives; all bits zero is valid for these plain C structures.
    let (context, mut qp) = unsafe {
        (
            &raw mut (*fixture.context).context,
            std::mem::zeroed::<ibv_qp>(),
        )
    };
    qp.context = context;
    let mut pd = ibv_pd { context, handle: 0 };

    // `vendor_id` of `struct ibv_ece` must not be zero for ibv_set_ece(3).
    let mut ece = [1u32; 3];
    let mut port = [0u64; 16];
    type F = unsafe extern "C" fn(*mut c_void, *mut c_void, usize, usize, usize, c_int) -> usize;

    let qp: *mut c_void = (&raw mut qp).cast();
    let pd: *mut c_void = (&raw mut pd).cast();
    let cases = [
        ("import_dm", c"ibv_import_dm", context.cast(), null_mut()),
        ("import_mr", c"ibv_import_mr", pd, null_mut()),
        ("import_pd", c"ibv_import_pd", context.cast(), null_mut()),
        ("query_ece", c"ibv_query_ece", qp, ece.as_mut_ptr().cast()),
        ("query_port", c"ibv_query_port", context.cast(), null_mut()),
        (
            "query_qp_data_in_order",
            c"ibv_query_qp_data_in_order",
            qp,
            null_mut(),
        ),
        ("reg_dmabuf_mr", c"ibv_reg_dmabuf_mr", pd, null_mut()),
        ("set_ece", c"ibv_set_ece", qp, ece.as_mut_ptr().cast()),
        ("unimport_dm", c"ibv_unimport_dm", pd, null_mut()),
        ("unimport_mr", c"ibv_unimport_mr", pd, null_mut()),
        ("unimport_pd", c"ibv_unimport_pd", pd, null_mut()),
        (
            "free_context",
            c"ibv_close_device",
            context.cast(),
            null_mut(),
        ),
    ];

    for (name, function, first, second) in cases {
        let mut table: Vec<Op> = vec![None; fixture.layout.operations().len()];
        // SAFETY: from a function pointer to another; libibverbs calls it with integers, of which
        // it takes none.
        let called = unsafe { std::mem::transmute::<extern "C" fn() -> usize, Op>(hit) };
        table[fixture.slot(name)] = called;
        fixture.set_ops(&table);
        // SAFETY: C functions of at most six integer arguments; each reaches its slot with these.
        let function: F = unsafe { std::mem::transmute(fixture.library.symbol(function)) };
        let before = HITS.load(Ordering::SeqCst);
        // SAFETY: as above; the third argument is the port attributes where there are any.
        unsafe { function(first, second, port.as_mut_ptr() as usize, 0, 0, 0) };
        assert_eq!(HITS.load(Ordering::SeqCst), before + 1, "{name}");
    }
}
