//! The ids as others are told of them, over netlink.

use super::addr::Addr;
use super::id::{Id, State};
use super::query;
use super::serve::Server;
use super::state::Ucma;
use crate::nldev::Identifier;
use crate::users::Whose;

impl Server {
    /// The ids that have a device, as of now, of one user or of all.
    pub(crate) fn listed(&self, whose: Whose) -> Vec<Identifier> {
        self.ucma.listed(whose)
    }
}

impl Ucma {
    fn listed(&self, whose: Whose) -> Vec<Identifier> {
        // An id has its device from when its address is the device's; one that listens everywhere
        // listens there, too.
        let of_device = |id: &Id| id.gid_index.is_some() || id.state == State::Listen;
        let known = self.ids.iter().filter(|(_, id)| of_device(id));
        let channel_of = |id: &Id| self.channels.get(&id.channel);
        let user = |id: &Id| channel_of(id).map(|channel| channel.uid);
        known
            .filter(|(_, id)| whose.are_all() || user(id).is_some_and(|uid| whose.include(uid)))
            .map(|(number, id)| self.describe(number, id))
            .collect()
    }

    fn describe(&self, number: u32, id: &Id) -> Identifier {
        let channel = self.channels.get(&id.channel);
        let address = |address: &Addr| match address {
            Addr::None => None,
            address => Some(address.emit().to_vec()),
        };

        Identifier {
            number,
            pid: channel.map_or(0, |channel| channel.pid),
            port: query::port(id),
            space: id.space,
            qp_type: id.qp_type,
            qp_num: id.qp_num,
            state: state(id.state),
            addresses: [address(&id.src), address(&id.dst)],
        }
    }
}

/// `enum rdma_cm_state`.
fn state(state: State) -> u8 {
    match state {
        State::Idle => 0,
        State::AddrQuery => 1,
        State::AddrResolved => 2,
        State::RouteQuery => 3,
        State::RouteResolved => 4,
        State::Connect => 5,
        State::Disconnect => 6,
        State::Bound => 7,
        State::Listen => 8,
        State::Removed => 9,
    }
}
