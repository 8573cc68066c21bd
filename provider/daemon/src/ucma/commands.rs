//! Commands: which there are, who may send them, and what goes back. What each does is in `steps`,
//! by the modules below that.

use ferroce_cabi::ucma::*;
use ferroce_cabi::ucma_frame::{NO_CHANNEL, Request};
use rustix::io::Errno;
use zerocopy::FromBytes;

use super::arguments::Command;
use super::channel::Caller;
use super::host::Host;
use super::state::Ucma;
use super::steps::{self, Step};

/// What goes back.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// 0 or a negative errno.
    pub result: i32,
    /// Bytes for the program's response address.
    pub answer: Vec<u8>,
    /// Records to be taken out of the channel's descriptor and thrown away.
    pub take: u32,
    /// The same, of the other channel's.
    pub take_from: u32,
}

impl Ucma {
    /// Carries out what a program has written to a channel: head, command and nothing else.
    pub(super) fn command(
        &mut self,
        caller: Caller,
        request: &Request,
        (bytes, option): (&[u8], &[u8]),
        host: &Host<'_>,
    ) -> Outcome {
        let refuse = |result| Outcome {
            result,
            ..Outcome::default()
        };

        let (channel, from) = (request.channel, request.from);
        if let Err(result) = self.admits(caller, channel) {
            return refuse(result);
        }

        self.taken(channel, request.taken);
        if self.admits(caller, from).is_ok() {
            self.taken(from, request.taken_from);
        }

        let result = rdma_ucm_cmd_hdr::read_from_prefix(bytes)
            .map_err(|_| Errno::INVAL)
            .and_then(|(head, body)| {
                let command = Command {
                    channel,
                    from,
                    body: body.get(..head.r#in.into()).ok_or(Errno::INVAL)?,
                    option,
                    room: head.out.into(),
                    caller,
                };
                step_of(head.cmd)?(self, &command, host)
            });

        self.settle(host);
        self.announce(host);
        let recalled = |ucma: &mut Self, channel| {
            ucma.channels
                .get_mut(&channel)
                .map_or(0, |channel| channel.recalled())
        };

        let (result, answer) = match result {
            Ok(answer) => (0, answer),
            Err(errno) => (-errno.raw_os_error(), Vec::new()),
        };

        Outcome {
            result,
            answer,
            take: recalled(self, channel),
            take_from: if from == channel {
                0
            } else {
                recalled(self, from)
            },
        }
    }

    /// Whether a caller may use a channel; the error is what it is told.
    pub(super) fn admits(&self, caller: Caller, channel: u64) -> Result<(), i32> {
        let entry = self.channels.get(&channel).ok_or(NO_CHANNEL)?;
        match entry.admits(caller) {
            true => Ok(()),
            false => Err(-Errno::ACCESS.raw_os_error()),
        }
    }
}

/// What does a command.
fn step_of(number: u32) -> Result<Step, Errno> {
    let step: Step = match number {
        RDMA_USER_CM_CMD_CREATE_ID => steps::create,
        RDMA_USER_CM_CMD_DESTROY_ID => steps::destroy,
        RDMA_USER_CM_CMD_BIND_IP => steps::bind_ip,
        RDMA_USER_CM_CMD_BIND => steps::bind,
        RDMA_USER_CM_CMD_RESOLVE_IP => steps::resolve_ip,
        RDMA_USER_CM_CMD_RESOLVE_ADDR => steps::resolve_addr,
        RDMA_USER_CM_CMD_RESOLVE_ROUTE => steps::resolve_route,
        RDMA_USER_CM_CMD_QUERY_ROUTE => steps::query_route,
        RDMA_USER_CM_CMD_QUERY => steps::query,
        RDMA_USER_CM_CMD_CONNECT => steps::connect,
        RDMA_USER_CM_CMD_LISTEN => steps::listen,
        RDMA_USER_CM_CMD_ACCEPT => steps::accept,
        RDMA_USER_CM_CMD_REJECT => steps::reject,
        RDMA_USER_CM_CMD_DISCONNECT => steps::disconnect,
        RDMA_USER_CM_CMD_INIT_QP_ATTR => steps::init_qp_attr,
        RDMA_USER_CM_CMD_SET_OPTION => steps::set_option,
        RDMA_USER_CM_CMD_NOTIFY => steps::notify,
        RDMA_USER_CM_CMD_JOIN_IP_MCAST => steps::join_ip,
        RDMA_USER_CM_CMD_JOIN_MCAST => steps::join,
        RDMA_USER_CM_CMD_LEAVE_MCAST => steps::leave,
        RDMA_USER_CM_CMD_MIGRATE_ID => steps::migrate,
        RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE => steps::resolve_service,
        RDMA_USER_CM_CMD_WRITE_CM_EVENT => steps::write_event,
        // The kernel has no GET_OPTION either. Events are in the descriptor.
        RDMA_USER_CM_CMD_GET_OPTION | RDMA_USER_CM_CMD_GET_EVENT => return Err(Errno::NOSYS),
        _ => return Err(Errno::INVAL),
    };

    Ok(step)
}
