//! `libferroce-rdmavNN.so`: the rdma-core provider. It exports the table of `libferroce.so`
//! (`direct`) and nothing else; when libibverbs loads it, its constructor registers a table of
//! device operations with the libibverbs that is there, and verbs then come in through function
//! pointers.
//!
//! This crate turns C calls into calls of `ferroce-engine` and back: it checks what only C can get
//! wrong (null pointers, numbers outside an enumeration), keeps the C objects, and turns errors
//! into the errno of the manual pages. It decides nothing about protocol and sends nothing. No
//! panic leaves it: see `guard`.

mod ah;
mod allocators;
mod before_read;
mod before_search;
mod builder;
mod channels;
mod command_fd;
mod context;
mod convert;
mod cq;
mod cq_ex;
mod device;
mod direct;
mod dm;
mod gids;
mod guard;
mod import;
mod libibverbs;
mod live;
mod log;
mod memory;
mod mr;
mod mw;
mod open;
mod operations;
mod parent_domain;
mod place;
mod post;
mod qp;
mod qp_create;
mod requests;
mod srq;
mod srq_create;
mod stand_in;
mod tag_matching;
mod thread_domain;
mod unoffered;
mod wait;
mod wr;
mod xrc;

/// Runs inside the `dlopen` by which libibverbs loads its providers.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    // A panic must not leave an `extern "C"` function; a provider that fails to register is only
    // missing.
    let _ = std::panic::catch_unwind(|| {
        log::start();
        log::complain();
        device::register();
        stand_in::begin();
        before_read::register();
        channels::register();
        gids::register();
        before_search::register();
    });
}
