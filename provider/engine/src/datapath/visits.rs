//! Visits of queue pairs, one after the other, whose small packets share sends.

use std::sync::Arc;

use crate::datapath::tx::Together;
use crate::hca::Hca;
use crate::locks::MutexGuard;
use crate::tuning::SHARED_PACKETS;
use crate::verbs::qp::{Inner, Qp};

impl Hca {
    /// Has `visit` see each of them, locked. The caller holds none. Who has left packets to be sent
    /// with those of the next stays locked until they are.
    pub(crate) fn visit<'q>(
        &self,
        qps: impl IntoIterator<Item = &'q Arc<Qp>>,
        mut visit: impl FnMut(&'q Qp, &mut Inner),
    ) {
        let (counters, together) = (self.counters(), Together::begin());
        let mut locked: Vec<MutexGuard<'q, Inner>> = Vec::with_capacity(SHARED_PACKETS);
        for qp in qps {
            // Who holds a queue pair waits for no other.
            let free = match locked.is_empty() {
                true => None,
                false => qp.try_lock(),
            };
            let mut inner = free.unwrap_or_else(|| {
                together.send(counters);
                locked.clear();
                qp.inner.lock()
            });
            visit(qp, &mut inner);
            match together.is_left() {
                true => locked.push(inner),
                false => locked.clear(),
            }
        }
        together.end(counters);
    }
}
