//! A daemon in this process, and pairs of connected queue pairs over its sockets.
#![allow(dead_code)] // each test file uses a part of it

use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferroce_engine::*;
use ferroced::{Config, Daemon};

/// A daemon at one loopback address, which ends with the test.
pub(crate) struct Host {
    pub hca: Arc<Hca>,
    pub context: Arc<Context>,
    pub pd: Arc<Pd>,
    dir: RuntimeDir,
    _temp: tempfile::TempDir,
}

/// What address handles are made with.
pub(crate) const COOKIE: u32 = 0x5eed;

impl Host {
    pub(crate) fn new(ip: &str) -> Host {
        Host::with_buffer(ip, None)
    }

    /// A host whose sockets ask for that many bytes of receive buffer.
    pub(crate) fn with_buffer(ip: &str, receive_buffer: Option<usize>) -> Host {
        let temp = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
        let config = Config {
            addr: vec![ip.parse().unwrap()],
            receive_buffer,
            ..Config::default()
        };
        let daemon = Daemon::start(dir.clone(), config.try_into().unwrap()).unwrap();
        std::thread::spawn(move || daemon.run(None).unwrap());
        let hca = Hca::open(&dir).unwrap();
        let context = Context::open(hca.clone()).unwrap();
        let pd = context.alloc_pd().unwrap();
        Host {
            hca,
            context,
            pd,
            dir,
            _temp: temp,
        }
    }

    /// Another client of the daemon, which takes a slot and does nothing.
    pub(crate) fn attach(&self) -> ferroce_control::Client {
        let mut client = ferroce_control::Client::connect(&self.dir).unwrap();
        client.attach("idle").unwrap();
        client
    }

    /// A counter of the device's, by its name.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let mut client = ferroce_control::Client::connect(&self.dir).unwrap();
        let counters = client.status().unwrap().counters;
        let found = counters.into_iter().find(|(known, _)| known == name);
        found.unwrap().1
    }

    /// Stops the daemon.
    pub(crate) fn unplug(&self) {
        let mut client = ferroce_control::Client::connect(&self.dir).unwrap();
        client.shutdown().unwrap();
    }

    pub(crate) fn cq(&self, cqe: u32) -> Arc<Cq> {
        self.context.create_cq(cqe, 0, None).unwrap()
    }

    pub(crate) fn cq_of_vector(&self, cqe: u32, vector: u32) -> Arc<Cq> {
        let init = CqInit {
            cqe,
            vector,
            ..CqInit::default()
        };
        self.context.create_cq_with(init).unwrap()
    }

    pub(crate) fn qp(&self, cq: &Arc<Cq>, cap: QpCap) -> Arc<Qp> {
        self.qp_with(cq, cap, None)
    }

    /// An RC queue pair that receives from `srq`, if there is one.
    pub(crate) fn qp_with(&self, cq: &Arc<Cq>, cap: QpCap, srq: Option<Arc<Srq>>) -> Arc<Qp> {
        let init = QpInit {
            qp_type: 2,
            send_cq: Some(cq.clone()),
            recv_cq: Some(cq.clone()),
            srq,
            cap,
            sq_sig_all: true,
            ..QpInit::default()
        };
        self.pd.create_qp(init).unwrap()
    }

    /// A UD queue pair in RTS.
    pub(crate) fn datagrams(&self, cq: &Arc<Cq>, cap: QpCap, qkey: u32) -> Arc<Qp> {
        let init = QpInit {
            qp_type: 4,
            send_cq: Some(cq.clone()),
            recv_cq: Some(cq.clone()),
            cap,
            sq_sig_all: true,
            ..QpInit::default()
        };
        let qp = self.pd.create_qp(init).unwrap();
        start_datagrams(&qp, qkey);
        qp
    }

    /// An address handle that leads to a GID.
    pub(crate) fn ah(&self, dgid: [u8; 16]) -> Arc<Ah> {
        self.pd.create_ah(&address(dgid), COOKIE).unwrap()
    }

    /// Registers a buffer with every right.
    pub(crate) fn mr(&self, buffer: &mut [u8]) -> Arc<Mr> {
        let addr = buffer.as_mut_ptr() as u64;
        self.pd
            .reg_mr(addr, buffer.len() as u64, addr, 0xf)
            .unwrap()
    }
}

/// An address vector from the first source GID.
pub(crate) fn address(dgid: [u8; 16]) -> AddressVector {
    AddressVector {
        dgid,
        is_global: true,
        port_num: 1,
        ..AddressVector::default()
    }
}

/// Takes a UD queue pair from RESET to RTS.
pub(crate) fn start_datagrams(qp: &Qp, qkey: u32) {
    use QpAttrMask as M;
    let attr = |qp_state| QpAttr {
        qp_state,
        port_num: 1,
        qkey,
        ..QpAttr::default()
    };
    let mask = M::STATE | M::PORT | M::PKEY_INDEX | M::QKEY;
    qp.modify(&attr(QpState::Init), mask).unwrap();
    qp.modify(&attr(QpState::Rtr), M::STATE).unwrap();
    qp.modify(&attr(QpState::Rts), M::STATE | M::SQ_PSN)
        .unwrap();
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Ok(mut client) = ferroce_control::Client::connect(&self.dir) {
            let _ = client.shutdown();
        }
    }
}

pub(crate) const CAP: QpCap = QpCap {
    max_send_wr: 128,
    max_recv_wr: 128,
    max_send_sge: 4,
    max_recv_sge: 4,
    max_inline_data: 256,
};

/// Connects two queue pairs, `a` of `ha` and `b` of `hb`.
pub(crate) fn connect(a: (&Host, &Qp), b: (&Host, &Qp)) {
    connect_with(14, a, b);
}

/// With this Local ACK Timeout, as in the attributes of a queue pair.
pub(crate) fn connect_with(timeout: u8, (ha, a): (&Host, &Qp), (hb, b): (&Host, &Qp)) {
    for (me, gid, peer) in [(a, hb.hca.gids()[0].gid, b), (b, ha.hca.gids()[0].gid, a)] {
        let attr = QpAttr {
            qp_state: QpState::Init,
            port_num: 1,
            qp_access_flags: Access::from_bits_retain(0xf)
                | Access::FLUSH_GLOBAL
                | Access::FLUSH_PERSISTENT,
            ..QpAttr::default()
        };

        use QpAttrMask as M;

        me.modify(&attr, M::STATE | M::PORT | M::PKEY_INDEX | M::ACCESS_FLAGS)
            .unwrap();
        let attr = QpAttr {
            qp_state: QpState::Rtr,
            path_mtu: 4096,
            dest_qp_num: peer.qp_num(),
            rq_psn: 7,
            max_dest_rd_atomic: 16,
            min_rnr_timer: 12,
            av: AddressVector {
                dgid: gid,
                is_global: true,
                port_num: 1,
                ..AddressVector::default()
            },
            ..QpAttr::default()
        };

        let mask = M::STATE | M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN | M::MAX_DEST_RD_ATOMIC;
        me.modify(&attr, mask | M::MIN_RNR_TIMER).unwrap();
        let attr = QpAttr {
            qp_state: QpState::Rts,
            sq_psn: 7,
            timeout,
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: 16,
            ..QpAttr::default()
        };

        let mask =
            M::STATE | M::SQ_PSN | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
        me.modify(&attr, mask).unwrap();
    }
}

/// Polls until `n` completions came; panics after ten seconds.
pub(crate) fn wait(cq: &Cq, n: usize) -> Vec<Wc> {
    let end = Instant::now() + Duration::from_secs(10);
    let mut got = Vec::new();
    while got.len() < n {
        let mut wc = [Wc::default(); 16];
        let k = cq.poll(&mut wc).unwrap();
        got.extend_from_slice(&wc[..k]);
        assert!(
            Instant::now() < end,
            "{} of {n} completions came",
            got.len()
        );
    }
    got
}

/// A completion channel as others may make one: a pipe, open for reading and writing.
pub(crate) fn channel() -> OwnedFd {
    let mut fds = [0; 2];
    // SAFETY: two descriptors are written to `fds`, which are then ours alone.
    unsafe {
        assert_eq!(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC), 0);
        let path = format!("/proc/thread-self/fd/{}\0", fds[0]);
        let both = libc::open(path.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC);
        assert!(both >= 0);
        fds.iter().for_each(|fd| drop(OwnedFd::from_raw_fd(*fd)));
        OwnedFd::from_raw_fd(both)
    }
}

/// Asynchronous events as (element, type), until there is none for a tenth of a second, or none
/// comes any more.
pub(crate) fn events(context: &Context) -> Vec<(u64, u32)> {
    let mut all = Vec::new();
    let mut ready = libc::pollfd {
        fd: context.async_fd(),
        events: libc::POLLIN,
        revents: 0,
    };

    let mut file =
        std::fs::File::open(format!("/proc/thread-self/fd/{}", context.async_fd())).unwrap();
    loop {
        // SAFETY: one valid pollfd.
        let n = unsafe { libc::poll(&mut ready, 1, 100) };
        if n == 0 || ready.revents & libc::POLLIN == 0 {
            return all;
        }
        let mut record = [0; 16];
        file.read_exact(&mut record).unwrap();
        all.push((
            u64::from_ne_bytes(record[..8].try_into().unwrap()),
            u32::from_ne_bytes(record[8..12].try_into().unwrap()),
        ));
    }
}
