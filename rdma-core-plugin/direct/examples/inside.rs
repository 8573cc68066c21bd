//! A program in Rust that uses libibverbs by raw pointers, and this crate beside: a queue pair that
//! writes to itself, as it is from inside, with an acknowledgement that is lost on command.
//!
//! `ferroce run -- cargo run -p ferroce-dv --example inside`; it ends with 0 if all is as it must
//! be. The types of libibverbs are taken from `ferroce-cabi` here; those of any other binding do.

use std::error::Error;
use std::ffi::{c_int, c_uint};
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ferroce::{Device, Latencies, QueuePair};
use ferroce_cabi::*;

/// Access to memory by the peer, and by the device itself.
const ACCESS: c_uint = 3;
/// What is written, in bytes.
const LEN: usize = 64;

#[link(name = "ibverbs")]
unsafe extern "C" {
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device;
    fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
    fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    fn ibv_reg_mr(pd: *mut ibv_pd, at: *mut u8, len: usize, access: c_int) -> *mut ibv_mr;
    fn ibv_create_cq(
        context: *mut ibv_context,
        entries: c_int,
        cookie: *mut u8,
        channel: *mut ibv_comp_channel,
        vector: c_int,
    ) -> *mut ibv_cq;
    fn ibv_create_qp(pd: *mut ibv_pd, init: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int;
    fn ibv_query_gid(context: *mut ibv_context, port: u8, index: c_int, gid: *mut ibv_gid)
    -> c_int;
}

/// A queue pair that is connected to itself.
struct Loop {
    context: *mut ibv_context,
    cq: *mut ibv_cq,
    qp: *mut ibv_qp,
    mr: *mut ibv_mr,
    memory: Box<[u8; 2 * LEN]>,
}

impl Loop {
    fn open() -> Result<Loop, Box<dyn Error>> {
        let mut memory = Box::new([7; 2 * LEN]);
        // SAFETY: libibverbs' functions, with what they have made; each is looked at.
        unsafe {
            let list = ibv_get_device_list(null_mut());
            let device = if list.is_null() { null_mut() } else { *list };
            if !Device::is_supported(device.cast()) {
                return Err("the first device is none of ferroce's: `ferroce run -- …`".into());
            }
            let context = made(ibv_open_device(device), "ibv_open_device")?;
            let pd = made(ibv_alloc_pd(context), "ibv_alloc_pd")?;
            let at = memory.as_mut_ptr();
            let mr = ibv_reg_mr(pd, at, 2 * LEN, ACCESS as c_int);
            let mr = made(mr, "ibv_reg_mr")?;
            let cq = ibv_create_cq(context, 16, null_mut(), null_mut(), 0);
            let cq = made(cq, "ibv_create_cq")?;

            let mut init: ibv_qp_init_attr = zeroed();
            (init.send_cq, init.recv_cq) = (cq, cq);
            (init.cap.max_send_wr, init.cap.max_send_sge) = (16, 1);
            (init.qp_type, init.sq_sig_all) = (qp_type::RC, 1);
            let qp = made(ibv_create_qp(pd, &mut init), "ibv_create_qp")?;
            connect(context, qp)?;
            Ok(Loop {
                context,
                cq,
                qp,
                mr,
                memory,
            })
        }
    }

    /// Writes the first half of the memory to the second, and waits until that is done.
    fn write(&mut self) -> Result<(), Box<dyn Error>> {
        // SAFETY: a queue pair that is connected, and memory that is registered.
        unsafe {
            let at = self.memory.as_ptr() as u64;
            let mut sge = ibv_sge {
                addr: at,
                length: LEN as u32,
                lkey: (*self.mr).lkey,
            };
            let mut request: ibv_send_wr = zeroed();
            request.opcode = wr_opcode::RDMA_WRITE;
            (request.sg_list, request.num_sge) = (&mut sge, 1);
            request.wr.rdma.remote_addr = at + LEN as u64;
            request.wr.rdma.rkey = (*self.mr).rkey;
            let post = (*self.context).ops.post_send.ok_or("no post_send")?;
            succeeded(
                post(self.qp, &mut request, &mut null_mut()),
                "ibv_post_send",
            )?;

            let poll = (*self.context).ops.poll_cq.ok_or("no poll_cq")?;
            let mut wc = ibv_wc::default();
            while poll(self.cq, 1, &mut wc) == 0 {}
            match wc.status {
                0 => Ok(()),
                status => Err(format!("completed with status {status}").into()),
            }
        }
    }
}

/// To itself, at the first address of the device.
unsafe fn connect(context: *mut ibv_context, qp: *mut ibv_qp) -> Result<(), Box<dyn Error>> {
    const STATE: c_int = 1 << 0;
    const INIT: c_int = STATE | 1 << 3 | 1 << 4 | 1 << 5;
    const RTR: c_int = STATE | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20;
    const RTS: c_int = STATE | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16;

    // SAFETY: plain integers; libibverbs' functions, with what they have made.
    unsafe {
        let mut attr: ibv_qp_attr = zeroed();
        let gid = &mut attr.ah_attr.grh.dgid;
        succeeded(ibv_query_gid(context, 1, 0, gid), "ibv_query_gid")?;
        (attr.ah_attr.is_global, attr.ah_attr.port_num) = (1, 1);
        attr.ah_attr.grh.hop_limit = 64;
        (attr.port_num, attr.qp_access_flags) = (1, ACCESS);
        (attr.path_mtu, attr.dest_qp_num) = (3, (*qp).qp_num);
        (attr.timeout, attr.retry_cnt, attr.rnr_retry) = (15, 7, 7);
        (attr.sq_psn, attr.rq_psn) = (100, 100);
        for (state, mask) in [(1, INIT), (2, RTR), (3, RTS)] {
            attr.qp_state = state;
            succeeded(ibv_modify_qp(qp, &mut attr, mask), "ibv_modify_qp")?;
        }
    }
    Ok(())
}

fn made<T>(object: *mut T, what: &str) -> Result<*mut T, Box<dyn Error>> {
    match object.is_null() {
        true => Err(format!("{what}: {}", std::io::Error::last_os_error()).into()),
        false => Ok(object),
    }
}

fn succeeded(answer: c_int, what: &str) -> Result<(), Box<dyn Error>> {
    match answer {
        0 => Ok(()),
        errno => Err(format!("{what}: {}", std::io::Error::from_raw_os_error(errno)).into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut own = Loop::open()?;
    // SAFETY: neither is closed before the program ends.
    let device = unsafe { Device::from_raw(own.context.cast()) }?;
    // SAFETY: likewise.
    let queue_pair = unsafe { QueuePair::from_raw(own.qp.cast()) }?;
    let dir = device.runtime_dir()?;
    println!("ferroce {} at {}", device.version()?, dir.display());

    let told = Arc::new(AtomicU64::new(0));
    let count = told.clone();
    let completions = device.completions(move |made| count.store(made.sequence, Relaxed))?;
    let latencies = queue_pair.latencies()?;
    let capture = queue_pair.capture(tempfile::tempfile()?, false, false)?;
    let fault = queue_pair.fault("drop = 'opcode=ACK'\ncount = 1")?;
    for _ in 0..10 {
        own.write()?;
    }
    drop(completions);

    let attr = queue_pair.query()?;
    let histogram = latencies.read()?;
    let captured = capture.stop()?;
    let half = Latencies::quantile(&histogram, 0.5).unwrap_or_default();
    println!(
        "{} sends, {} packets again, next PSN {}; half took {half} ns or less, the longest {} ns",
        attr.sends_completed, attr.retransmitted_packets, attr.next_psn, histogram.max_ns
    );
    println!("{} packets captured", captured.packets);

    let seen = (
        fault.hits()?,
        attr.retransmitted_packets,
        attr.sends_completed,
        attr.next_psn,
        histogram.count,
        told.load(Relaxed),
    );
    match (seen, captured.packets >= 10) {
        ((1, 1, 10, 110, 10, 10), true) => Ok(()),
        (seen, _) => Err(format!("not what was to be seen: {seen:?}").into()),
    }
}
