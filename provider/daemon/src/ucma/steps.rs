//! What each command does with its bytes: it reads them, sees whether the channel has the id and
//! there is room for the answer, and has done what is asked.

use ferroce_cabi::ucma::*;
use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::addr::Addr;
use super::arguments::{
    Command, at_least, bytes, cut, millis, nothing, parse, parse_from, room, sized,
};
use super::events::Params;
use super::host::Host;
use super::id::{Id, qp_type};
use super::query;
use super::state::Ucma;
use super::written::{ResolveService, WriteEvent};

/// What a command answers.
pub(super) type Answer = Result<Vec<u8>, Errno>;
/// One of those below.
pub(super) type Step = fn(&mut Ucma, &Command<'_>, &Host<'_>) -> Answer;

/// `CREATE_ID`.
pub(super) fn create(ucma: &mut Ucma, command: &Command<'_>, _host: &Host<'_>) -> Answer {
    room::<rdma_ucm_create_id_resp>(command)?;
    let asked: rdma_ucm_create_id = parse(command)?;
    let qp_type = match u32::from(asked.ps) {
        RDMA_PS_TCP => qp_type::RC,
        RDMA_PS_UDP | RDMA_PS_IPOIB => qp_type::UD,
        RDMA_PS_IB => asked.qp_type,
        _ => return Err(Errno::INVAL),
    };
    let id = Id::new(command.channel, asked.uid, asked.ps, qp_type);
    let id = ucma.ids.insert(id)?;
    Ok(bytes(&rdma_ucm_create_id_resp { id }))
}

/// `DESTROY_ID`.
pub(super) fn destroy(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    room::<rdma_ucm_destroy_id_resp>(command)?;
    let asked: rdma_ucm_destroy_id = parse(command)?;
    ucma.check_known(command.channel, asked.id)?;
    let events_reported = ucma.remove_id(asked.id, host);
    Ok(bytes(&rdma_ucm_destroy_id_resp { events_reported }))
}

/// `BIND_IP`.
pub(super) fn bind_ip(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    let asked: rdma_ucm_bind_ip = parse(command)?;
    let addr = Addr::parse(&asked.addr).ok_or(Errno::INVAL)?;
    ucma.id(command.channel, asked.id)?;
    ucma.bind(asked.id, addr, command.caller, host).map(nothing)
}

/// `BIND`.
pub(super) fn bind(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    let asked: rdma_ucm_bind = parse(command)?;
    if asked.reserved != 0 {
        return Err(Errno::INVAL);
    }
    let addr = sized(&asked.addr, asked.addr_size)?;
    ucma.id(command.channel, asked.id)?;
    ucma.bind(asked.id, addr, command.caller, host).map(nothing)
}

/// `RESOLVE_IP`.
pub(super) fn resolve_ip(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    let asked: rdma_ucm_resolve_ip = parse(command)?;
    let src = Addr::parse(&asked.src_addr).ok_or(Errno::INVAL)?;
    let dst = Addr::parse(&asked.dst_addr).ok_or(Errno::INVAL)?;
    ucma.id(command.channel, asked.id)?;
    let patience = millis(asked.timeout_ms);
    ucma.resolve_addr(asked.id, src, dst, patience, command.caller, host)
        .map(nothing)
}

/// `RESOLVE_ADDR`.
pub(super) fn resolve_addr(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    let asked: rdma_ucm_resolve_addr = parse(command)?;
    if asked.reserved != 0 {
        return Err(Errno::INVAL);
    }
    let src = match asked.src_size {
        0 => Addr::None,
        size => sized(&asked.src_addr, size)?,
    };
    let dst = sized(&asked.dst_addr, asked.dst_size)?;
    ucma.id(command.channel, asked.id)?;
    let patience = millis(asked.timeout_ms);
    ucma.resolve_addr(asked.id, src, dst, patience, command.caller, host)
        .map(nothing)
}

/// `RESOLVE_ROUTE`.
pub(super) fn resolve_route(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    let asked: rdma_ucm_resolve_route = parse(command)?;
    ucma.id(command.channel, asked.id)?;
    ucma.resolve_route(asked.id, millis(asked.timeout_ms), host)
        .map(nothing)
}

/// `QUERY_ROUTE`.
pub(super) fn query_route(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    let asked: rdma_ucm_query = parse(command)?;
    room::<rdma_ucm_query_route_resp>(command).or_else(|_| {
        at_least(
            command,
            std::mem::offset_of!(rdma_ucm_query_route_resp, ibdev_index),
        )
    })?;
    let id = ucma.look(command.channel, asked.id)?;
    Ok(cut(query::route(id, host).as_bytes(), command))
}

/// `QUERY`.
pub(super) fn query(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    let asked: rdma_ucm_query = parse(command)?;
    let short = std::mem::offset_of!(rdma_ucm_query_addr_resp, ibdev_index);
    let id = ucma.look(command.channel, asked.id)?;
    match asked.option {
        RDMA_USER_CM_QUERY_ADDR => {
            at_least(command, short)?;
            Ok(cut(query::addr(id, host).as_bytes(), command))
        }
        RDMA_USER_CM_QUERY_GID => {
            at_least(command, short)?;
            Ok(cut(query::gid(id, host).as_bytes(), command))
        }
        RDMA_USER_CM_QUERY_PATH => {
            room::<rdma_ucm_query_path_resp>(command)?;
            Ok(query::path(id, command.room))
        }
        _ => Err(Errno::NOSYS),
    }
}

/// `CONNECT`.
pub(super) fn connect(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    let short = std::mem::offset_of!(rdma_ucm_connect, ece);
    let asked: rdma_ucm_connect = parse_from(command, short)?;
    if asked.conn_param.valid == 0 {
        return Err(Errno::INVAL);
    }
    ucma.id(command.channel, asked.id)?;
    let params = Params {
        conn: asked.conn_param,
        ece: asked.ece,
    };
    ucma.connect(asked.id, &params, host).map(nothing)
}

/// `LISTEN`.
pub(super) fn listen(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    let asked: rdma_ucm_listen = parse(command)?;
    ucma.id(command.channel, asked.id)?;
    ucma.listen(asked.id, asked.backlog, command.caller, host)
        .map(nothing)
}

/// `ACCEPT`.
pub(super) fn accept(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    let short = std::mem::offset_of!(rdma_ucm_accept, ece);
    let asked: rdma_ucm_accept = parse_from(command, short)?;
    ucma.id(command.channel, asked.id)?;
    let params = Params {
        conn: asked.conn_param,
        ece: asked.ece,
    };
    match asked.conn_param.valid {
        0 => ucma.establish(asked.id, host).map(nothing),
        _ => ucma.accept(asked.id, asked.uid, &params, host).map(nothing),
    }
}

/// `REJECT`.
pub(super) fn reject(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    let asked: rdma_ucm_reject = parse(command)?;
    ucma.id(command.channel, asked.id)?;
    let private = &asked.private_data[..usize::from(asked.private_data_len)];
    ucma.reject(asked.id, asked.reason, private, host)
        .map(nothing)
}

/// `DISCONNECT`.
pub(super) fn disconnect(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    let asked: rdma_ucm_disconnect = parse(command)?;
    ucma.id(command.channel, asked.id)?;
    ucma.disconnect(asked.id, host).map(nothing)
}

/// `INIT_QP_ATTR`.
pub(super) fn init_qp_attr(ucma: &mut Ucma, command: &Command<'_>, _host: &Host<'_>) -> Answer {
    room::<ib_uverbs_qp_attr>(command)?;
    let asked: rdma_ucm_init_qp_attr = parse(command)?;
    ucma.look(command.channel, asked.id)?;
    Ok(bytes(&ucma.qp_attr(asked.id, asked.qp_state)?))
}

/// `SET_OPTION`.
pub(super) fn set_option(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    let asked: rdma_ucm_set_option = parse(command)?;
    if command.option.len() != asked.optlen as usize {
        return Err(Errno::INVAL);
    }
    ucma.id(command.channel, asked.id)?;
    ucma.set_option(asked.id, asked.level, asked.optname, command.option, host)
        .map(nothing)
}

/// `NOTIFY`.
pub(super) fn notify(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    let asked: rdma_ucm_notify = parse(command)?;
    ucma.id(command.channel, asked.id)?;
    ucma.notify(asked.id, asked.event, host).map(nothing)
}

/// `JOIN_IP_MCAST`.
pub(super) fn join_ip(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    room::<rdma_ucm_create_id_resp>(command)?;
    let asked: rdma_ucm_join_ip_mcast = parse(command)?;
    let addr = Addr::parse(&asked.addr).ok_or(Errno::INVAL)?;
    ucma.id(command.channel, asked.id)?;
    let id = ucma.join(asked.id, asked.uid, addr, false, host)?;
    Ok(bytes(&rdma_ucm_create_id_resp { id }))
}

/// `JOIN_MCAST`.
pub(super) fn join(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    room::<rdma_ucm_create_id_resp>(command)?;
    let asked: rdma_ucm_join_mcast = parse(command)?;
    let addr = sized(&asked.addr, asked.addr_size)?;
    let send_only = match u32::from(asked.join_flags) {
        RDMA_MC_JOIN_FLAG_FULLMEMBER => false,
        RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER => true,
        _ => return Err(Errno::INVAL),
    };
    ucma.id(command.channel, asked.id)?;
    let id = ucma.join(asked.id, asked.uid, addr, send_only, host)?;
    Ok(bytes(&rdma_ucm_create_id_resp { id }))
}

/// `LEAVE_MCAST`.
pub(super) fn leave(ucma: &mut Ucma, command: &Command<'_>, host: &Host<'_>) -> Answer {
    room::<rdma_ucm_destroy_id_resp>(command)?;
    let asked: rdma_ucm_destroy_id = parse(command)?;
    let events_reported = ucma.leave(command.channel, asked.id, host)?;
    Ok(bytes(&rdma_ucm_destroy_id_resp { events_reported }))
}

/// `MIGRATE_ID`.
pub(super) fn migrate(ucma: &mut Ucma, command: &Command<'_>, _host: &Host<'_>) -> Answer {
    room::<rdma_ucm_migrate_resp>(command)?;
    let asked: rdma_ucm_migrate_id = parse(command)?;
    let events_reported = ucma.migrate(command.channel, command.from, asked.id)?;
    Ok(bytes(&rdma_ucm_migrate_resp { events_reported }))
}

/// `RESOLVE_IB_SERVICE`.
pub(super) fn resolve_service(ucma: &mut Ucma, command: &Command<'_>, _host: &Host<'_>) -> Answer {
    let asked: ResolveService = parse(command)?;
    ucma.id(command.channel, asked.id)?;
    ucma.resolve_service(asked.id).map(nothing)
}

/// `WRITE_CM_EVENT`.
pub(super) fn write_event(ucma: &mut Ucma, command: &Command<'_>, _host: &Host<'_>) -> Answer {
    let asked: WriteEvent = parse(command)?;
    ucma.id(command.channel, asked.id)?;
    ucma.write_event(&asked).map(nothing)
}
