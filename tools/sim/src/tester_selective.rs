//! A tester's peer that speaks selective acknowledgements. PSNs are counted from the first that the
//! queue pair under test sends.

use ferroce_transport::{Access, Duration, SendOp};
use ferroce_wire::opcode;
use ferroce_wire::selective::Came;

use crate::tester::{DUT_PSN, Sent, Tester, aeth, usual};

impl Tester {
    /// A queue pair that has sent `count` SENDs of so many bytes, one packet each, of which the
    /// first was acknowledged 100 µs later, by a peer that understands.
    ///
    /// # Panics
    /// Where it sends something else.
    pub fn with_sends(count: u32, bytes: u32) -> Tester {
        let mut t = Tester::selective(usual());
        let buffer = t.buffer(bytes, Access::LOCAL_WRITE);
        for i in 0..count {
            t.post(i.into(), SendOp::Send, buffer);
        }
        assert_eq!(t.sent().len(), count as usize);
        t.now += Duration::from_micros(100);
        t.ack(DUT_PSN, 1);
        t.none();
        t
    }

    /// The peer has everything up to a PSN, and these of those after the next.
    pub fn selective_ack(&mut self, psn: u32, beyond: &[u32]) {
        let mut came = Came::default();
        beyond.iter().for_each(|i| came.set(i - psn - 2));
        self.inject(
            opcode::RC_SELECTIVE_ACKNOWLEDGE,
            DUT_PSN + psn,
            false,
            aeth(psn + 1),
            came.as_bytes(),
        );
    }

    /// The PSNs of what it sends.
    pub fn sent_psns(&mut self) -> Vec<u32> {
        self.sent().iter().map(number).collect()
    }

    /// The same, where all of it was sent before and asks for an acknowledgement.
    ///
    /// # Panics
    /// Where that is not so.
    pub fn again(&mut self) -> Vec<u32> {
        let sent = self.sent();
        assert!(sent.iter().all(|p| p.again && p.bth.ack_req), "{sent:#?}");
        sent.iter().map(number).collect()
    }
}

fn number(sent: &Sent) -> u32 {
    sent.bth.psn.wrapping_sub(DUT_PSN) & 0xff_ffff
}
