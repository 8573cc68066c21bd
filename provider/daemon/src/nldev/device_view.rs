//! What a device shows of itself.

use ferroce_control::objects::{Object, ObjectTable, QpNumbers, QueuePair};
use ferroce_control::{DeviceInfo, IbPort};

use super::{Client, Identifier, View};
use crate::adapter::Adapter;
use crate::ucma;
use crate::users::Whose;

/// `IBV_QPS_RTR`: states from here on have PSNs.
const RTR: u8 = 2;

/// The device and its identifiers.
pub(crate) struct DeviceView<'a> {
    pub(crate) adapter: &'a Adapter,
    pub(crate) rdma_cm: &'a ucma::Server,
}

impl View for DeviceView<'_> {
    fn info(&self) -> &DeviceInfo {
        &self.adapter.info
    }

    fn ib_ports(&self) -> &[IbPort] {
        &self.adapter.ib.shown
    }

    fn first_umad(&self) -> u32 {
        self.adapter.first_umad
    }

    fn hw_counters(&self) -> Vec<(&'static str, u64)> {
        self.adapter.totals().hw_counters()
    }

    fn clients(&self, whose: Whose) -> Vec<Client> {
        let claims = self.adapter.claims.iter();
        let theirs = claims.filter(|(_, claimed)| whose.include(claimed.uid));
        let clients = theirs.map(|(slot, claimed)| Client {
            pid: claimed.pid,
            slot,
            objects: with_psns_of_now(&claimed.objects),
        });
        clients.collect()
    }

    fn numbers(&self, slot: u8, qp: &QueuePair) -> QpNumbers {
        let claimed = self.adapter.claims.of(slot);
        claimed.map_or_else(QpNumbers::default, |claimed| {
            claimed.objects.numbers(qp.row)
        })
    }

    fn identifiers(&self, whose: Whose) -> Vec<Identifier> {
        self.rdma_cm.listed(whose)
    }
}

/// A process's objects; PSNs of queue pairs are those of now, as `ibv_query_qp(3)` has them.
fn with_psns_of_now(objects: &ObjectTable) -> Vec<(u32, Object)> {
    let mut all = objects.objects();
    for (_, object) in &mut all {
        // Before it is connected nothing is told of how far it is.
        if let Object::Qp(qp) = object
            && qp.state >= RTR
        {
            let progress = objects.numbers(qp.row).progress;
            (qp.sq_psn, qp.rq_psn) = (progress.next_psn, progress.expected_psn);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ferroce_control::objects::QpProgress;

    use super::*;

    #[test]
    fn psns_go_on_once_there_are_some() {
        let (daemon, fd) = ObjectTable::create().unwrap();
        let client = Arc::new(ObjectTable::from_fd(fd).unwrap());
        let row = client.row([None; 2]).unwrap();
        let mut qp = QueuePair {
            number: 5,
            qp_type: 2,
            state: 1,
            port: 1,
            pd: Some(1),
            srq: None,
            remote: 0,
            sq_psn: 0,
            rq_psn: 0,
            row: row.place(),
        };
        row.publish(&QpProgress {
            next_psn: 0xff_ffff,
            expected_psn: 8,
            ..QpProgress::default()
        });

        let psns = || match with_psns_of_now(&daemon)[..] {
            [(_, Object::Qp(qp))] => (qp.sq_psn, qp.rq_psn),
            _ => unreachable!(),
        };
        let listing = client.enter(Object::Qp(qp));
        assert_eq!(psns(), (0, 0));

        for state in [RTR, 3, 6] {
            (qp.state, qp.sq_psn, qp.rq_psn) = (state, 17, 18);
            listing.set(Object::Qp(qp));
            assert_eq!(psns(), (0xff_ffff, 8));
        }
    }
}
