//! A device to ask about, which has no daemon.

use ferroce_control::objects::{Object, QpNumbers, QueuePair};
use ferroce_control::{Counter, DeviceInfo, IbPort};

use super::{Client, Identifier, View};
use crate::users::Whose;

/// Its index.
pub(super) const INDEX: u32 = 10_000;

/// A device with one program, for tests.
pub(super) struct Device(pub(super) DeviceInfo);

impl View for Device {
    fn info(&self) -> &DeviceInfo {
        &self.0
    }

    fn ib_ports(&self) -> &[IbPort] {
        &[]
    }

    fn first_umad(&self) -> u32 {
        3
    }

    fn hw_counters(&self) -> Vec<(&'static str, u64)> {
        vec![("rcvd_pkts", 1 << 40), ("lifespan", 1000)]
    }

    fn clients(&self, _: Whose) -> Vec<Client> {
        vec![Client {
            pid: 4711,
            slot: 2,
            objects: objects(),
        }]
    }

    fn numbers(&self, _: u8, qp: &QueuePair) -> QpNumbers {
        QpNumbers::counted(|counter| match counter {
            Counter::TxPackets => qp.number.into(),
            _ => 0,
        })
    }

    fn identifiers(&self, _: Whose) -> Vec<Identifier> {
        Vec::new()
    }
}

/// Its description.
pub(super) fn device() -> Device {
    Device(DeviceInfo {
        name: "ferroce0".into(),
        index: INDEX,
        uverbs: "uverbs0".into(),
        node_guid: [2, 0, 0, 0, 0, 0, 0, 1],
        sys_image_guid: [2, 0, 0, 0, 0, 0, 0, 1],
        netdev: "lo".into(),
        netdev_index: 1,
        netdev_mtu: 65_536,
        active_mtu: 4096,
        speed_mbps: 40_000,
        port_active: true,
        ib_ports: 0,
        gid_tbl_len: 64,
        rcvbuf: 0,
        fw_ver: "1.2".into(),
        stretch_timeouts: 1,
        congestion: Default::default(),
    })
}

/// A context with a domain, a completion queue, a region, and 200 queue pairs, of which two share a
/// receive queue.
fn objects() -> Vec<(u32, Object)> {
    let srq = Object::Srq {
        pd: 1,
        cq: None,
        srq_type: 0,
    };

    let mut objects = vec![
        (0, Object::Context),
        (
            1,
            Object::Pd {
                context: 0,
                users: 7,
            },
        ),
        (
            2,
            Object::Cq {
                context: 0,
                cqe: 63,
                users: 4,
            },
        ),
        (
            3,
            Object::Mr {
                pd: 1,
                key: 0xfeed,
                len: 65_536,
            },
        ),
        (4, srq),
    ];

    objects.extend((0..200).map(|n| {
        let qp = QueuePair {
            number: 0x02_0100 + n,
            qp_type: 2,
            state: 3,
            port: 1,
            pd: Some(1),
            srq: (n < 2).then_some(4),
            remote: 0x03_0005,
            sq_psn: 17,
            rq_psn: 18,
            row: 0,
        };
        (5 + n, Object::Qp(qp))
    }));

    objects
}
