//! Commands as bytes: which there are, what they look like, and what goes back. What they do is in the other modules.
//! Sizes, ids and addresses in them are a program's word and are checked.

use ferroce_cabi::ucma::*;
use ferroce_cabi::ucma_frame::{NO_CHANNEL, Request};
use ferroce_fabric::cm::Time;
use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::addr::Addr;
use super::id::{Id, qp_type};
use super::written::{ResolveService, WriteEvent};
use super::{Host, Ucma};

/// Who sends a command.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Its session.
    pub session: u64,
    /// Its process, 0 if unknown.
    pub pid: u32,
    /// Whether it may use ports below 1024.
    pub privileged: bool,
}

/// What goes back.
#[derive(Debug, Default)]
pub struct Outcome {
    /// 0 or a negative errno.
    pub result: i32,
    /// Bytes for the program's response address.
    pub answer: Vec<u8>,
    /// Records to be taken out of the channel's descriptor and thrown away.
    pub take: u32,
    /// The same, of the other channel's.
    pub take_from: u32,
}

/// A command on its way to be carried out.
pub(super) struct Command<'a> {
    /// The channel.
    pub channel: u64,
    /// The other channel, of `MIGRATE_ID`; 0: none.
    pub from: u64,
    /// What follows the head.
    pub body: &'a [u8],
    /// The value of an option.
    pub option: &'a [u8],
    /// Room for the answer, in bytes.
    pub room: usize,
    /// Who asks.
    pub caller: Caller,
}

impl Ucma {
    /// Carries out what a program has written to a channel: head, command and nothing else.
    pub fn command(
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
                self.dispatch(head.cmd, &command, host)
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
        let same_process = caller.pid != 0 && caller.pid == entry.pid;
        match entry.session == caller.session || same_process {
            true => Ok(()),
            false => Err(-Errno::ACCESS.raw_os_error()),
        }
    }

    fn dispatch(
        &mut self,
        number: u32,
        command: &Command<'_>,
        host: &Host<'_>,
    ) -> Result<Vec<u8>, Errno> {
        let channel = command.channel;
        match number {
            RDMA_USER_CM_CMD_CREATE_ID => self.create(command),
            RDMA_USER_CM_CMD_DESTROY_ID => {
                room::<rdma_ucm_destroy_id_resp>(command)?;
                let asked: rdma_ucm_destroy_id = parse(command)?;
                self.check_known(channel, asked.id)?;
                let events_reported = self.remove_id(asked.id, host);
                Ok(bytes(&rdma_ucm_destroy_id_resp { events_reported }))
            }
            RDMA_USER_CM_CMD_BIND_IP => {
                let asked: rdma_ucm_bind_ip = parse(command)?;
                let addr = Addr::parse(&asked.addr).ok_or(Errno::INVAL)?;
                self.id(channel, asked.id)?;
                self.bind(asked.id, addr, command.caller, host).map(nothing)
            }
            RDMA_USER_CM_CMD_BIND => {
                let asked: rdma_ucm_bind = parse(command)?;
                if asked.reserved != 0 {
                    return Err(Errno::INVAL);
                }
                let addr = sized(&asked.addr, asked.addr_size)?;
                self.id(channel, asked.id)?;
                self.bind(asked.id, addr, command.caller, host).map(nothing)
            }
            RDMA_USER_CM_CMD_RESOLVE_IP => {
                let asked: rdma_ucm_resolve_ip = parse(command)?;
                let src = Addr::parse(&asked.src_addr).ok_or(Errno::INVAL)?;
                let dst = Addr::parse(&asked.dst_addr).ok_or(Errno::INVAL)?;
                self.id(channel, asked.id)?;
                let patience = millis(asked.timeout_ms);
                self.resolve_addr(asked.id, src, dst, patience, command.caller, host)
                    .map(nothing)
            }
            RDMA_USER_CM_CMD_RESOLVE_ADDR => {
                let asked: rdma_ucm_resolve_addr = parse(command)?;
                if asked.reserved != 0 {
                    return Err(Errno::INVAL);
                }
                let src = match asked.src_size {
                    0 => Addr::None,
                    size => sized(&asked.src_addr, size)?,
                };
                let dst = sized(&asked.dst_addr, asked.dst_size)?;
                self.id(channel, asked.id)?;
                let patience = millis(asked.timeout_ms);
                self.resolve_addr(asked.id, src, dst, patience, command.caller, host)
                    .map(nothing)
            }
            RDMA_USER_CM_CMD_RESOLVE_ROUTE => {
                let asked: rdma_ucm_resolve_route = parse(command)?;
                self.id(channel, asked.id)?;
                self.resolve_route(asked.id, millis(asked.timeout_ms), host)
                    .map(nothing)
            }
            RDMA_USER_CM_CMD_QUERY_ROUTE => {
                let asked: rdma_ucm_query = parse(command)?;
                room::<rdma_ucm_query_route_resp>(command).or_else(|_| {
                    at_least(
                        command,
                        std::mem::offset_of!(rdma_ucm_query_route_resp, ibdev_index),
                    )
                })?;
                let id = self.look(channel, asked.id)?;
                Ok(cut(super::query::route(id, host).as_bytes(), command))
            }
            RDMA_USER_CM_CMD_QUERY => {
                let asked: rdma_ucm_query = parse(command)?;
                let short = std::mem::offset_of!(rdma_ucm_query_addr_resp, ibdev_index);
                let id = self.look(channel, asked.id)?;
                match asked.option {
                    RDMA_USER_CM_QUERY_ADDR => {
                        at_least(command, short)?;
                        Ok(cut(super::query::addr(id, host).as_bytes(), command))
                    }
                    RDMA_USER_CM_QUERY_GID => {
                        at_least(command, short)?;
                        Ok(cut(super::query::gid(id, host).as_bytes(), command))
                    }
                    RDMA_USER_CM_QUERY_PATH => {
                        room::<rdma_ucm_query_path_resp>(command)?;
                        Ok(super::query::path(id, command.room))
                    }
                    _ => Err(Errno::NOSYS),
                }
            }
            RDMA_USER_CM_CMD_CONNECT => {
                let short = std::mem::offset_of!(rdma_ucm_connect, ece);
                let asked: rdma_ucm_connect = parse_from(command, short)?;
                if asked.conn_param.valid == 0 {
                    return Err(Errno::INVAL);
                }
                self.id(channel, asked.id)?;
                let params = super::id::Params {
                    conn: asked.conn_param,
                    ece: asked.ece,
                };
                self.connect(asked.id, &params, host).map(nothing)
            }
            RDMA_USER_CM_CMD_LISTEN => {
                let asked: rdma_ucm_listen = parse(command)?;
                self.id(channel, asked.id)?;
                self.listen(asked.id, asked.backlog, command.caller, host)
                    .map(nothing)
            }
            RDMA_USER_CM_CMD_ACCEPT => {
                let short = std::mem::offset_of!(rdma_ucm_accept, ece);
                let asked: rdma_ucm_accept = parse_from(command, short)?;
                self.id(channel, asked.id)?;
                let params = super::id::Params {
                    conn: asked.conn_param,
                    ece: asked.ece,
                };
                match asked.conn_param.valid {
                    0 => self.establish(asked.id, host).map(nothing),
                    _ => self.accept(asked.id, asked.uid, &params, host).map(nothing),
                }
            }
            RDMA_USER_CM_CMD_REJECT => {
                let asked: rdma_ucm_reject = parse(command)?;
                self.id(channel, asked.id)?;
                let private = &asked.private_data[..usize::from(asked.private_data_len)];
                self.reject(asked.id, asked.reason, private, host)
                    .map(nothing)
            }
            RDMA_USER_CM_CMD_DISCONNECT => {
                let asked: rdma_ucm_disconnect = parse(command)?;
                self.id(channel, asked.id)?;
                self.disconnect(asked.id, host).map(nothing)
            }
            RDMA_USER_CM_CMD_INIT_QP_ATTR => {
                room::<ib_uverbs_qp_attr>(command)?;
                let asked: rdma_ucm_init_qp_attr = parse(command)?;
                self.look(channel, asked.id)?;
                Ok(bytes(&self.qp_attr(asked.id, asked.qp_state)?))
            }
            RDMA_USER_CM_CMD_SET_OPTION => {
                let asked: rdma_ucm_set_option = parse(command)?;
                if command.option.len() != asked.optlen as usize {
                    return Err(Errno::INVAL);
                }
                self.id(channel, asked.id)?;
                self.set_option(asked.id, asked.level, asked.optname, command.option, host)
                    .map(nothing)
            }
            RDMA_USER_CM_CMD_NOTIFY => {
                let asked: rdma_ucm_notify = parse(command)?;
                self.id(channel, asked.id)?;
                self.notify(asked.id, asked.event, host).map(nothing)
            }
            RDMA_USER_CM_CMD_JOIN_IP_MCAST => {
                room::<rdma_ucm_create_id_resp>(command)?;
                let asked: rdma_ucm_join_ip_mcast = parse(command)?;
                let addr = Addr::parse(&asked.addr).ok_or(Errno::INVAL)?;
                self.id(channel, asked.id)?;
                let id = self.join(asked.id, asked.uid, addr, false, host)?;
                Ok(bytes(&rdma_ucm_create_id_resp { id }))
            }
            RDMA_USER_CM_CMD_JOIN_MCAST => {
                room::<rdma_ucm_create_id_resp>(command)?;
                let asked: rdma_ucm_join_mcast = parse(command)?;
                let addr = sized(&asked.addr, asked.addr_size)?;
                let send_only = match u32::from(asked.join_flags) {
                    RDMA_MC_JOIN_FLAG_FULLMEMBER => false,
                    RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER => true,
                    _ => return Err(Errno::INVAL),
                };
                self.id(channel, asked.id)?;
                let id = self.join(asked.id, asked.uid, addr, send_only, host)?;
                Ok(bytes(&rdma_ucm_create_id_resp { id }))
            }
            RDMA_USER_CM_CMD_LEAVE_MCAST => {
                room::<rdma_ucm_destroy_id_resp>(command)?;
                let asked: rdma_ucm_destroy_id = parse(command)?;
                let events_reported = self.leave(channel, asked.id, host)?;
                Ok(bytes(&rdma_ucm_destroy_id_resp { events_reported }))
            }
            RDMA_USER_CM_CMD_MIGRATE_ID => {
                room::<rdma_ucm_migrate_resp>(command)?;
                let asked: rdma_ucm_migrate_id = parse(command)?;
                let events_reported = self.migrate(channel, command.from, asked.id)?;
                Ok(bytes(&rdma_ucm_migrate_resp { events_reported }))
            }
            RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE => {
                let asked: ResolveService = parse(command)?;
                self.id(channel, asked.id)?;
                self.resolve_service(asked.id).map(nothing)
            }
            RDMA_USER_CM_CMD_WRITE_CM_EVENT => {
                let asked: WriteEvent = parse(command)?;
                self.id(channel, asked.id)?;
                self.write_event(&asked).map(nothing)
            }
            // The kernel has no GET_OPTION either. Events are in the descriptor.
            RDMA_USER_CM_CMD_GET_OPTION | RDMA_USER_CM_CMD_GET_EVENT => Err(Errno::NOSYS),
            _ => Err(Errno::INVAL),
        }
    }

    fn create(&mut self, command: &Command<'_>) -> Result<Vec<u8>, Errno> {
        room::<rdma_ucm_create_id_resp>(command)?;
        let asked: rdma_ucm_create_id = parse(command)?;
        let qp_type = match u32::from(asked.ps) {
            RDMA_PS_TCP => qp_type::RC,
            RDMA_PS_UDP | RDMA_PS_IPOIB => qp_type::UD,
            RDMA_PS_IB => asked.qp_type,
            _ => return Err(Errno::INVAL),
        };
        let id = Id::new(command.channel, asked.uid, asked.ps, qp_type);
        let id = self.ids.insert(id)?;
        Ok(bytes(&rdma_ucm_create_id_resp { id }))
    }

    /// Whether a channel has an id, in whatever state.
    fn check_known(&self, channel: u64, handle: u32) -> Result<(), Errno> {
        match self.ids.get(handle).filter(|id| id.known) {
            Some(id) if id.channel == channel => Ok(()),
            Some(_) => Err(Errno::INVAL),
            None => Err(Errno::NOENT),
        }
    }
}

fn nothing((): ()) -> Vec<u8> {
    Vec::new()
}

fn bytes(value: &(impl IntoBytes + Immutable)) -> Vec<u8> {
    value.as_bytes().to_vec()
}

/// As much of an answer as there is room for: libraries grow with their structures.
fn cut(answer: &[u8], command: &Command<'_>) -> Vec<u8> {
    answer[..answer.len().min(command.room)].to_vec()
}

/// Milliseconds of a command, of which negative ones are none.
fn millis(timeout: impl TryInto<u64>) -> Time {
    timeout.try_into().unwrap_or(0).saturating_mul(1_000_000)
}

fn parse<T: FromBytes>(command: &Command<'_>) -> Result<T, Errno> {
    T::read_from_prefix(command.body)
        .map(|(value, _)| value)
        .map_err(|_| Errno::INVAL)
}

/// Reads a structure of which old libraries send only the first `least` bytes; the rest is zeros.
fn parse_from<T: FromBytes>(command: &Command<'_>, least: usize) -> Result<T, Errno> {
    if command.body.len() < least {
        return Err(Errno::INVAL);
    }
    let mut whole = vec![0; size_of::<T>()];
    let len = command.body.len().min(whole.len());
    whole[..len].copy_from_slice(&command.body[..len]);
    T::read_from_bytes(&whole).map_err(|_| Errno::INVAL)
}

fn room<T>(command: &Command<'_>) -> Result<(), Errno> {
    at_least(command, size_of::<T>())
}

fn at_least(command: &Command<'_>, len: usize) -> Result<(), Errno> {
    match command.room >= len {
        true => Ok(()),
        false => Err(Errno::NOSPC),
    }
}

/// An address that says how long it is.
fn sized(bytes: &[u8], size: u16) -> Result<Addr, Errno> {
    let addr = Addr::parse(bytes).ok_or(Errno::INVAL)?;
    match size != 0 && addr.size() == size {
        true => Ok(addr),
        false => Err(Errno::INVAL),
    }
}
