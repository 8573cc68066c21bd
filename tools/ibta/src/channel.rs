//! Channels: a queue pair of the device and one of the tester, connected, in the words of the test
//! specification.
//!
//! Sequence numbers are those of the specification's ChannelContext: the device starts at
//! `device_psn` and the tester at `tester_psn`; helpers count from there, and whoever wants a wrong
//! number gives it.

mod commands;
mod completions;
mod packets;

pub use commands::{device, must, pattern, read_memory, register, write_memory};
pub use packets::ACK;

use crate::packet::RxPacket;
use crate::protocol::{
    Command, CreateQp, QpAttributes, RecvQueue, Reply, SendRequest, Service, Sge, access, qp_state,
};
use crate::rig::TransportRig;
use crate::run::{Outcome, Run};
use anyhow::Result;
use commands::unexpected;

/// The tester's queue pair, unless a test says another.
pub const TESTER_QP: u32 = 0x00_0777;
/// P_Key of the tester's packets: that of a full member of the partition that every port is in.
pub const DEFAULT_PKEY: u16 = 0xffff;
/// Which entry of the port's P_Key table queue pairs of the device have.
const PKEY_INDEX: u16 = 0;

/// What a channel is opened with. The default suits most tests.
#[derive(Clone, Copy, Debug)]
pub struct ChannelOptions {
    /// Service.
    pub service: Service,
    /// Path MTU in bytes.
    pub pmtu: u32,
    /// Local ACK Timeout exponent; 0 is infinite: the device never sends anything again by itself.
    pub timeout: u8,
    /// Retries, 0 to 7.
    pub retry_cnt: u8,
    /// Retries after RNR NAKs, 0 to 7; 7 is for ever.
    pub rnr_retry: u8,
    /// Code of the shortest wait that the device asks for in RNR NAKs.
    pub min_rnr_timer: u8,
    /// READs and atomics that the device has on their way.
    pub max_rd_atomic: u8,
    /// READs and atomics that the device keeps for the tester.
    pub max_dest_rd_atomic: u8,
    /// What the tester may do, `enum ibv_access_flags`.
    pub access: u32,
    /// Q_Key (UD).
    pub qkey: u32,
    /// The tester's queue pair number.
    pub tester_qp: u32,
    /// First PSN that the device sends.
    pub device_psn: u32,
    /// First PSN that the device expects.
    pub tester_psn: u32,
    /// Work requests of each queue.
    pub max_wr: u32,
    /// Elements of a work request.
    pub max_sge: u32,
    /// Handle of a shared receive queue.
    pub srq: Option<u32>,
    /// XRC: handle of the XRC domain.
    pub xrcd: Option<u32>,
    /// XRC: number of the shared receive queue that the tester's requests are for, unless they say
    /// another.
    pub xrc_srq: u32,
    /// The state to stop in, on the way to RTS.
    pub state: u32,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        ChannelOptions {
            service: Service::Rc,
            pmtu: 1024,
            timeout: 0,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            access: access::ALL,
            qkey: 0x1111_2222,
            tester_qp: TESTER_QP,
            // Near the end, so that most tests see PSNs wrap.
            device_psn: 0xff_fffe,
            tester_psn: 0xff_fffd,
            max_wr: 16,
            max_sge: 3,
            srq: None,
            xrcd: None,
            xrc_srq: 0,
            state: qp_state::RTS,
        }
    }
}

/// A channel (the specification's ChannelContext). It holds no reference to the rig, so that a test
/// may have several.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// Number of the device's queue pair.
    pub qp: u32,
    /// What it was opened with.
    pub options: ChannelOptions,
    /// The P_Key that the device's queue pair has, with the bit of its membership.
    pub pkey: u16,
    /// PSN of the tester's next request.
    pub next_psn: u32,
}

impl Channel {
    /// OpenRcChannel, or one of another service: makes the device's queue pair and brings it to the
    /// state asked for.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn open(rig: &mut dyn TransportRig, options: ChannelOptions) -> Result<Channel> {
        let mut options = options;
        options.pmtu = options.pmtu.min(rig.mtu());
        let create = CreateQp {
            service: options.service,
            max_send_wr: options.max_wr,
            max_recv_wr: options.max_wr,
            max_send_sge: options.max_sge,
            max_recv_sge: options.max_sge,
            max_inline_data: 64,
            sq_sig_all: false,
            srq: options.srq,
            xrcd: options.xrcd,
        };

        let qp = match must(rig, Command::CreateQp(create))? {
            Reply::Qp { qp } => qp,
            other => return unexpected(other),
        };

        let (port, index) = (rig.port(), PKEY_INDEX);
        let pkey = match must(rig, Command::QueryPkey { port, index })? {
            Reply::Pkey { pkey } => pkey,
            other => return unexpected(other),
        };

        let channel = Channel {
            qp,
            options,
            pkey,
            next_psn: options.tester_psn & 0xff_ffff,
        };

        for state in [qp_state::INIT, qp_state::RTR, qp_state::RTS] {
            if state <= options.state {
                let attributes = channel.attributes_to(rig, state);
                channel.modify(rig, attributes)?;
            }
        }

        Ok(channel)
    }

    /// A reliable connection with the usual options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_rc(rig: &mut dyn TransportRig) -> Result<Channel> {
        Channel::open(rig, ChannelOptions::default())
    }

    /// CloseRcChannel: ends the queue pair; what is unfinished is flushed.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn close(self, rig: &mut dyn TransportRig) -> Result<()> {
        must(rig, Command::DestroyQp { qp: self.qp }).map(|_| ())
    }

    /// The attributes that lead to INIT, RTR and RTS.
    pub fn attributes_to(&self, rig: &dyn TransportRig, state: u32) -> QpAttributes {
        let o = &self.options;
        let connected = o.service != Service::Ud;

        // Of a reliable connection an XRC target is the responder only.
        let requester = o.service == Service::Rc;
        let reliable = requester || o.service == Service::XrcTarget;
        let to = QpAttributes {
            qp_state: Some(state),
            ..QpAttributes::default()
        };

        match state {
            qp_state::INIT => QpAttributes {
                pkey_index: Some(PKEY_INDEX),
                port_num: Some(rig.port()),
                qp_access_flags: connected.then_some(o.access & !access::MW_BIND),
                qkey: (!connected).then_some(o.qkey),
                ..to
            },
            qp_state::RTR if connected => QpAttributes {
                ah_attr: Some(rig.path()),
                path_mtu: Some(o.pmtu),
                dest_qp_num: Some(o.tester_qp),
                rq_psn: Some(o.tester_psn & 0xff_ffff),
                max_dest_rd_atomic: reliable.then_some(o.max_dest_rd_atomic),
                min_rnr_timer: reliable.then_some(o.min_rnr_timer),
                ..to
            },
            qp_state::RTS => QpAttributes {
                sq_psn: Some(o.device_psn & 0xff_ffff),
                timeout: reliable.then_some(o.timeout),
                retry_cnt: requester.then_some(o.retry_cnt),
                rnr_retry: requester.then_some(o.rnr_retry),
                max_rd_atomic: requester.then_some(o.max_rd_atomic),
                ..to
            },
            _ => to,
        }
    }

    /// Modifies the device's queue pair.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn modify(&self, rig: &mut dyn TransportRig, attributes: QpAttributes) -> Result<()> {
        let qp = self.qp;
        must(rig, Command::ModifyQp { qp, attributes }).map(|_| ())
    }

    /// Attributes of the device's queue pair.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn query(&self, rig: &mut dyn TransportRig) -> Result<QpAttributes> {
        match must(rig, Command::QueryQp { qp: self.qp })? {
            Reply::QpAttributes(attributes) => Ok(attributes),
            other => unexpected(other),
        }
    }

    /// Has the device post a send request.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn post(&self, rig: &mut dyn TransportRig, request: SendRequest) -> Result<()> {
        let qp = self.qp;
        must(rig, Command::PostSend { qp, request }).map(|_| ())
    }

    /// Has the device post a receive request.
    ///
    /// # Errors
    /// The rig failed, or the device refused.
    pub fn post_recv(&self, rig: &mut dyn TransportRig, wr_id: u64, sge: Sge) -> Result<()> {
        let queue = match self.options.srq {
            Some(srq) => RecvQueue::Srq(srq),
            None => RecvQueue::Qp(self.qp),
        };
        let sges = vec![sge];
        must(rig, Command::PostRecv { queue, wr_id, sges }).map(|_| ())
    }

    /// TransportRxIbPacket: a valid packet comes for the tester's queue pair.
    ///
    /// # Errors
    /// None came, or one that is not valid, and the assertion failed.
    pub fn expect(
        &self,
        run: &mut Run,
        rig: &mut dyn TransportRig,
        assertion: impl ToString,
        what: &str,
    ) -> Outcome<RxPacket> {
        let assertion = assertion.to_string();
        let packet = self.expect_any(run, rig, &assertion, what)?;
        self.verify(run, &assertion, &packet)?;
        Ok(packet)
    }

    /// TransportRxIbPacket: a packet comes, valid or not.
    ///
    /// # Errors
    /// None came, and the assertion failed.
    pub fn expect_any(
        &self,
        run: &mut Run,
        rig: &mut dyn TransportRig,
        assertion: impl ToString,
        what: &str,
    ) -> Outcome<RxPacket> {
        let patience = rig.patience();
        let packet = rig.receive(patience)?;
        run.check(assertion, packet.is_some(), || {
            format!("no packet came within {patience:?}, {what} is due")
        })?;
        Ok(packet.ok_or_else(|| anyhow::anyhow!("no packet"))?)
    }

    /// A packet is whole and for the tester's queue pair.
    ///
    /// # Errors
    /// It is not, and the assertion failed.
    pub fn verify(&self, run: &mut Run, assertion: &str, packet: &RxPacket) -> Outcome {
        run.check(assertion, packet.problem.is_none(), || {
            format!("{} is not valid", packet.describe())
        })?;
        let (bth, tester, pkey) = (&packet.bth, self.options.tester_qp, self.pkey);
        let for_us = bth.dest_qp == tester && bth.pkey == pkey;
        run.check(assertion, for_us, || {
            format!(
                "{} is for queue pair {:#x} with P_Key {:#06x}, must be {tester:#x} and {pkey:#06x}",
                packet.describe(),
                bth.dest_qp,
                bth.pkey,
            )
        })
    }

    /// VerifyNoReceive: no packet comes.
    ///
    /// # Errors
    /// One came, and the assertion failed.
    pub fn expect_none(
        &self,
        run: &mut Run,
        rig: &mut dyn TransportRig,
        assertion: impl ToString,
    ) -> Outcome {
        let silence = rig.silence();
        let packet = rig.receive(silence)?;
        run.check(assertion, packet.is_none(), || {
            let packet = packet.as_ref().map(RxPacket::describe);
            format!("{} came, and nothing must", packet.unwrap_or_default())
        })
    }
}
