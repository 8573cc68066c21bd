//! The engine by itself: two devices of this program that are tied in memory, with one thread for
//! both. What a packet takes here it takes over any port, beside what that port adds: posting,
//! gathering, the ICRC at either end, two copies, keys, the transport, completions. What is counted
//! is the thread's processor time, as it never waits for anything.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use ferroce_engine::{
    Access, Dest, Faults, Hca, QpAttr, QpCap, SendData, SendFlags, SendOp, SendRequest, Sge, Side,
    Wc,
};

use crate::processor_time;

/// The path MTU.
const MTU: usize = 4096;
/// Messages in progress at most; fewer of long ones.
const DEPTH: usize = 64;
/// Bytes in progress at most.
const BYTES: usize = 4 << 20;
/// Messages before time is taken: buffers and windows have grown then.
const WARMING: usize = 1000;
/// `IBV_QPT_RC`.
const RC: u32 = 2;

/// A side whose queue pair has this much room.
fn side(hca: Arc<Hca>) -> Result<Side> {
    let cap = QpCap {
        max_send_wr: DEPTH as u32,
        max_recv_wr: 1,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    Ok(Side::new(hca, RC, cap, 2 * DEPTH as u32)?)
}

/// WRITEs messages of `size` bytes for so long, and prints what a packet took.
pub(crate) fn run(size: usize, seconds: f64) -> Result<()> {
    ensure!((1..=BYTES).contains(&size), "1 to {BYTES} bytes");
    let [a, b] = Hca::tied(Faults::default())?;
    let (a, b) = (side(a)?, side(b)?);
    let attr = QpAttr {
        qp_access_flags: Access::REMOTE_WRITE,
        path_mtu: MTU as u32,
        min_rnr_timer: 12,
        timeout: 14,
        ..QpAttr::default()
    };
    a.connect(&b, attr)?;
    b.connect(&a, attr)?;
    let (mut here, mut there) = (vec![0x5a_u8; size], vec![0_u8; size]);
    let (from, to) = (here.as_mut_ptr() as u64, there.as_mut_ptr() as u64);
    let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let source = a.pd.reg_mr(from, size as u64, from, rights.bits())?;
    let target = b.pd.reg_mr(to, size as u64, to, rights.bits())?;
    let sges = [Sge {
        addr: from,
        length: size as u32,
        lkey: source.lkey(),
    }];

    let request = SendRequest {
        wr_id: 0,
        op: SendOp::Write {
            va: to,
            rkey: target.rkey(),
        },
        flags: SendFlags::SIGNALED,
        data: SendData::Sges(&sges),
        dest: Dest::Connected,
    };

    let depth = (BYTES / size).clamp(1, DEPTH);
    let (mut posted, mut done) = (0, 0);
    let mut began = processor_time();
    let length = Duration::from_secs_f64(seconds);
    let mut counted_from = 0;
    let mut wc = [Wc::default(); DEPTH];
    loop {
        if posted - done < depth {
            let mut queue = a.qp.send_queue();
            while posted - done < depth {
                queue.post(&request)?;
                posted += 1;
            }
            queue.doorbell();
        }

        b.cq.poll(&mut [])?;
        let n = a.cq.poll(&mut wc)?;
        for wc in &wc[..n] {
            ensure!(wc.status == 0, "a WRITE ended with status {}", wc.status);
        }
        done += n;
        if counted_from == 0 && done >= WARMING {
            (counted_from, began) = (done, processor_time());
        } else if counted_from != 0 && n != 0 && processor_time() - began >= length {
            break;
        }
    }

    let packets = (done - counted_from) * size.div_ceil(MTU);
    let spent = processor_time() - began;
    println!("{}", spent.as_nanos() as f64 / packets as f64);
    ensure!(here == there, "other bytes arrived");
    Ok(())
}
