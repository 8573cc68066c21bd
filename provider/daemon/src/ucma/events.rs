//! What programs are told: the kinds of events, what comes with them, and how both look to a
//! program.

use ferroce_cabi::ucma::{
    rdma_ucm_conn_param, rdma_ucm_ece, rdma_ucm_event_resp, rdma_ucm_ud_param,
};
use zerocopy::IntoBytes;

/// `enum rdma_cm_event_type`, but for what never happens here: QPs are the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(super) enum Kind {
    AddrResolved = 0,
    AddrError = 1,
    RouteResolved = 2,
    RouteError = 3,
    ConnectRequest = 4,
    ConnectResponse = 5,
    ConnectError = 6,
    Unreachable = 7,
    Rejected = 8,
    Established = 9,
    Disconnected = 10,
    DeviceRemoval = 11,
    MulticastJoin = 12,
    MulticastError = 13,
    AddrChange = 14,
    TimewaitExit = 15,
    /// Written by the program.
    User = 18,
    /// Written by librdmacm.
    Internal = 19,
}

/// What comes with an event.
#[derive(Debug)]
pub(super) enum Detail {
    /// Nothing.
    None,
    /// A connection's parameters.
    Connection(Box<Params>),
    /// A datagram service's, or a multicast group's.
    Datagram(Box<rdma_ucm_ud_param>),
    /// What a program has written.
    Argument(u64),
}

/// What a program says or is told of a connection's parameters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Params {
    /// As in the ABI.
    pub conn: rdma_ucm_conn_param,
    /// Enhanced connection establishment.
    pub ece: rdma_ucm_ece,
}

impl Params {
    /// The private data.
    pub(super) fn private_data(&self) -> &[u8] {
        let len = usize::from(self.conn.private_data_len);
        &self.conn.private_data[..len]
    }

    /// Takes private data, cut to what the ABI can say.
    pub(super) fn set_private_data(&mut self, data: &[u8]) {
        let len = data.len().min(usize::from(u8::MAX));
        self.conn.private_data[..len].copy_from_slice(&data[..len]);
        self.conn.private_data_len = len as u8;
    }
}

/// An event as the ABI has it.
pub(super) fn answer(
    uid: u64,
    id: u32,
    kind: Kind,
    status: i32,
    detail: Detail,
) -> Box<rdma_ucm_event_resp> {
    let mut answer = Box::new(rdma_ucm_event_resp {
        uid,
        id,
        event: kind as u32,
        status,
        ..Default::default()
    });

    match detail {
        Detail::None => {}
        Detail::Connection(params) => {
            let conn = params.conn.as_bytes();
            answer.param[..conn.len()].copy_from_slice(conn);
            answer.ece = params.ece;
        }
        Detail::Datagram(param) => answer.param.copy_from_slice(param.as_bytes()),
        Detail::Argument(argument) => answer.param[..8].copy_from_slice(&argument.to_ne_bytes()),
    }

    answer
}
