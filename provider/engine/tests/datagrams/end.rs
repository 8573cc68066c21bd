//! A host that sends and receives datagrams, and what the tests do with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::*;
use ferroce_engine::*;

pub(crate) const QKEY: u32 = 0x1234;

/// A host with a UD queue pair and a registered buffer.
pub(crate) struct End {
    pub cq: Arc<Cq>,
    pub qp: Arc<Qp>,
    pub buffer: Vec<u8>,
    pub mr: Arc<Mr>,
    pub host: Host,
}

pub(crate) fn end(ip: &str) -> End {
    let host = Host::new(ip);
    let cq = host.cq(4096);
    let qp = host.datagrams(&cq, CAP, QKEY);
    let mut buffer = vec![0; 64 << 10];
    let mr = host.mr(&mut buffer);
    End {
        cq,
        qp,
        buffer,
        mr,
        host,
    }
}

impl End {
    pub(crate) fn gid(&self) -> [u8; 16] {
        self.host.hca.gids()[0].gid
    }

    pub(crate) fn sge(&self, at: usize, length: u32) -> Sge {
        Sge {
            addr: self.buffer.as_ptr() as u64 + at as u64,
            length,
            lkey: self.mr.lkey(),
        }
    }

    /// Posts `n` receive requests of 1 KiB each, at 0, 1024, ...
    pub(crate) fn receive(&self, qp: &Qp, n: usize) {
        for i in 0..n {
            let sge = self.sge(i * 1024, 1024);
            qp.post_recv(i as u64, &[sge]).unwrap();
        }
    }
}

pub(crate) fn send(qp: &Qp, ah: &Ah, qpn: u32, qkey: u32, bytes: &[u8]) -> Result<()> {
    let request = SendRequest {
        wr_id: 9,
        op: SendOp::SendWithImm([4, 3, 2, 1]),
        flags: SendFlags::SIGNALED,
        data: SendData::Inline(bytes),
        dest: Dest::Datagram(Datagram {
            ah: ah.handle(),
            cookie: ah.cookie(),
            qpn,
            qkey,
        }),
    };
    qp.post_send(&request)
}

/// Nothing more completes for a while.
pub(crate) fn quiet(cq: &Cq) {
    let end = Instant::now() + Duration::from_millis(50);
    let mut wc = [Wc::default(); 1];
    while Instant::now() < end {
        assert_eq!(cq.poll(&mut wc).unwrap(), 0, "{wc:?}");
    }
}

/// `::ffff:239.40.0.n`
pub(crate) fn group(n: u8) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 40, 0, n]
}
