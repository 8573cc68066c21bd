//! MADs as packets of the InfiniBand link layer, the tester's way: whatever the envelope says.

use crate::rig::Envelope;
use ferroce_fabric::link::{self, Ends, Unfit};
use ferroce_wire::Lrh;
use ferroce_wire::link::{Head, LinkPacket, MANAGEMENT_LANE};
use ferroce_wire::lrh::NextHeader;
use ferroce_wire::mad::{DEFAULT_PKEY, Mad, QP1_QKEY};
use ferroce_wire::smp::PERMISSIVE_LID;

impl Envelope {
    /// An SMP to whoever is at the other end of the cable.
    pub fn directed() -> Envelope {
        Envelope {
            slid: PERMISSIVE_LID,
            dlid: PERMISSIVE_LID,
            sl: 0,
            qp: 0,
            src_qp: 0,
            qkey: 0,
            pkey: DEFAULT_PKEY,
        }
    }

    /// An SMP by LID.
    pub fn smp(slid: u16, dlid: u16) -> Envelope {
        Envelope {
            slid,
            dlid,
            ..Envelope::directed()
        }
    }

    /// A MAD to queue pair 1.
    pub fn gmp(slid: u16, dlid: u16) -> Envelope {
        Envelope {
            qp: 1,
            src_qp: 1,
            qkey: QP1_QKEY,
            ..Envelope::smp(slid, dlid)
        }
    }

    /// The head of its packet: the management lane for queue pair 0, lane 0 for all others.
    pub fn head(&self) -> Head {
        Head {
            lrh: Lrh {
                vl: if self.qp == 0 { MANAGEMENT_LANE } else { 0 },
                version: 0,
                sl: self.sl,
                next: NextHeader::Local,
                dlid: self.dlid,
                words: 0,
                slid: self.slid,
            },
            grh: None,
        }
    }

    /// What its transport headers say.
    pub fn ends(&self) -> Ends {
        Ends {
            pkey: self.pkey,
            dest_qp: self.qp,
            qkey: self.qkey,
            src_qp: self.src_qp,
            psn: 0,
        }
    }
}

/// The packet of a MAD, from the LRH to the ICRC.
pub fn packet(to: &Envelope, mad: &Mad) -> Vec<u8> {
    link::emit(&to.head(), to.ends(), mad)
}

/// Takes a packet apart.
///
/// # Errors
/// It is no MAD for queue pair 0 or 1.
pub fn read(packet: &[u8]) -> Result<(Envelope, Mad), Unfit> {
    let packet = LinkPacket::parse(packet).ok_or(Unfit::Malformed)?;
    let (ends, mad) = link::read(&packet)?;
    let envelope = Envelope {
        slid: packet.lrh.slid,
        dlid: packet.lrh.dlid,
        sl: packet.lrh.sl,
        qp: ends.dest_qp,
        src_qp: ends.src_qp,
        qkey: ends.qkey,
        pkey: ends.pkey,
    };
    Ok((envelope, *mad))
}
