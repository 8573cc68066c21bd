//! What over InfiniBand must be asked for: the GID of an IP address and the path to a GID. The
//! subnet administrator knows both, and ids wait for its answers in states of their own. How its
//! MADs travel is `serve`'s business.

use ferroce_control::GidEntry;
use ferroce_fabric::cm::{Av, Path};
use ferroce_fabric::sa::{Answer, Question};
use ferroce_wire::mad::DEFAULT_PKEY;
use ferroce_wire::mad::Mad;
use ferroce_wire::mtu;
use ferroce_wire::sa::{DATA_LEN, PathRecord, attribute, component, method};
use ferroce_wire::smp::LAST_UNICAST_LID;
use rustix::io::Errno;
use std::time::Duration;

use super::addr::Addr;
use super::events::{Detail, Kind};
use super::host::Host;
use super::id::{Id, State};
use super::membership::mgid;
use super::names;
use super::questions::{Asker, one, status};
use super::route::port_of;
use super::state::Ucma;

impl Ucma {
    /// Finds the GID of an id's destination. `true`: the subnet administrator has been asked, and
    /// the event comes later.
    pub(super) fn ask_for_gid(
        &mut self,
        handle: u32,
        patience: Duration,
        host: &Host<'_>,
    ) -> Result<bool, Errno> {
        let id = self.existing(handle)?;
        let entry = id.gid_index.and_then(|index| host.gids.entry(index));
        let entry = entry.ok_or(Errno::NODEV)?;
        let dst = id.dst;
        let own = host.gids.entries().find(|own| dst.names(own));
        id.remote_gid = match (own, dst) {
            (Some(own), _) => Some(own.gid),
            _ if dst.is_zero() || dst.is_loopback() => Some(entry.gid),
            (None, Addr::Ib(ib)) => Some(ib.gid),
            _ if dst.is_multicast() => Some(mgid(&dst, id.space, DEFAULT_PKEY)),
            _ => None,
        };

        if id.remote_gid.is_some() {
            return Ok(false);
        }

        // Until it is known that the question can be asked.
        id.state = State::Bound;
        let question = Question {
            port: port_of(entry.index),
            // Beside the host that has the address now, one that had it before may be known.
            method: method::GET_TABLE,
            attribute: attribute::SERVICE_RECORD,
            mask: component::SERVICE_NAME,
            data: names::record(dst.meant(), entry.gid, DEFAULT_PKEY, 0).emit(),
            // As an address is resolved over Ethernet: who is not there now may be in a moment.
            patient: true,
        };

        let number = self
            .questions
            .ask(Asker::Address(handle), question, patience, host.now)?;
        let id = self.existing(handle)?;
        (id.asks, id.state) = (Some(number), State::AddrQuery);
        Ok(true)
    }

    /// Asks for an id's path.
    pub(super) fn ask_for_path(
        &mut self,
        handle: u32,
        near: &Path,
        patience: Duration,
        host: &Host<'_>,
    ) -> Result<(), Errno> {
        let index = self.existing(handle)?.gid_index.ok_or(Errno::NODEV)?;
        let wanted = PathRecord {
            dgid: near.av.remote_gid,
            sgid: near.av.local_gid,
            pkey: near.av.pkey,
            ..PathRecord::default()
        };

        let mut data = [0; DATA_LEN];
        data[..PathRecord::LEN].copy_from_slice(&wanted.emit());
        let question = Question {
            port: port_of(index),
            method: method::GET,
            attribute: attribute::PATH_RECORD,
            mask: component::PATH,
            data,
            patient: false,
        };

        let number = self
            .questions
            .ask(Asker::Path(handle), question, patience, host.now)?;
        let id = self.existing(handle)?;
        id.asks = Some(number);
        id.state = State::RouteQuery;
        Ok(())
    }

    /// The subnet administrator has answered.
    pub(super) fn sa_answered(&mut self, port: u8, mad: &Mad, host: &Host<'_>) {
        if let Some((number, asker, answer)) = self.questions.receive(port, mad) {
            self.answered(number, asker, answer, host);
        }
    }

    /// Repeats questions, and gives up those that nobody answers.
    pub(super) fn repeat_questions(&mut self, host: &Host<'_>) {
        for (number, asker, answer) in self.questions.repeat(host.now) {
            self.answered(number, asker, answer, host);
        }
    }

    fn answered(&mut self, number: u32, asker: Asker, answer: Answer, host: &Host<'_>) {
        match asker {
            Asker::Leave(..) | Asker::Withdrawal(..) => {}
            Asker::Group(group) => self.membership_answered(group, number, answer),
            Asker::Name(port) => self.names.answered(port, answer, host.now),
            Asker::Address(handle) => self.gid_answered(handle, number, answer),
            Asker::Path(handle) => self.path_answered(handle, number, answer, host),
        }
    }

    /// The id that still waits for an answer.
    fn waiting(&mut self, handle: u32, number: u32) -> Option<&mut Id> {
        self.generations.touch(handle);
        let id = self.ids.get_mut(handle);
        let id = id.filter(|id| id.asks == Some(number))?;
        id.asks = None;
        Some(id)
    }

    fn gid_answered(&mut self, handle: u32, number: u32, answer: Answer) {
        let Some(id) = self.waiting(handle, number) else {
            return;
        };
        if id.state != State::AddrQuery {
            return;
        }

        match answer {
            Ok(records) => {
                id.remote_gid = names::latest(&records);
                id.state = State::AddrResolved;
                self.raise(handle, Kind::AddrResolved, 0, Detail::None);
            }
            Err(failure) => {
                id.state = State::Bound;
                self.raise(handle, Kind::AddrError, status(failure), Detail::None);
            }
        }
    }

    fn path_answered(&mut self, handle: u32, number: u32, answer: Answer, host: &Host<'_>) {
        let Some(id) = self.waiting(handle, number) else {
            return;
        };
        if id.state != State::RouteQuery {
            return;
        }

        let entry = id.gid_index.and_then(|index| host.gids.entry(index));
        let near = entry.and_then(|entry| near_end(id, entry, host).ok());
        let path = one(answer).map(|data| near.and_then(|near| path(&data, &near)));
        let status = match path {
            Ok(Some(mut path)) => {
                if let Some(timeout) = id.ack_timeout.filter(|timeout| *timeout > 0) {
                    path.packet_life_time = timeout - 1;
                }
                id.path = Some(path);
                id.state = State::RouteResolved;
                return self.raise(handle, Kind::RouteResolved, 0, Detail::None);
            }
            Ok(None) => -Errno::HOSTUNREACH.raw_os_error(),
            Err(failure) => status(failure),
        };

        id.state = State::AddrResolved;
        self.raise(handle, Kind::RouteError, status, Detail::None);
    }
}

/// What is known of an id's path without asking anybody: it begins at our port.
pub(super) fn near_end(id: &Id, entry: &GidEntry, host: &Host<'_>) -> Result<Path, Errno> {
    let port = host.port(port_of(entry.index)).ok_or(Errno::NODEV)?;
    let remote_gid = id.remote_gid.ok_or(Errno::INVAL)?;
    Ok(Path {
        av: Av {
            local_gid: entry.gid,
            local_index: entry.index,
            remote_gid,
            pkey: port.p_keys.first().copied().unwrap_or(DEFAULT_PKEY),
            sl: 0,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 0,
            local_lid: port.lid,
            remote_lid: 0,
        },
        mtu: mtu::code(port.active_mtu),
        packet_rate: 0,
        packet_life_time: port.subnet_timeout,
    })
}

/// The path of a record. `None`: it makes no sense.
fn path(data: &[u8; DATA_LEN], near: &Path) -> Option<Path> {
    let record = PathRecord::parse(data.first_chunk()?);
    let unicast = |lid: u16| (1..=LAST_UNICAST_LID).contains(&lid);
    let good = unicast(record.dlid) && unicast(record.slid) && mtu::is_valid(record.mtu);
    let same = (record.dgid, record.sgid) == (near.av.remote_gid, near.av.local_gid);
    (good && same).then_some(Path {
        av: Av {
            pkey: record.pkey,
            sl: record.sl,
            traffic_class: record.traffic_class,
            flow_label: record.flow_label,
            hop_limit: record.hop_limit,
            local_lid: record.slid,
            remote_lid: record.dlid,
            ..near.av
        },
        mtu: record.mtu,
        packet_rate: record.rate,
        packet_life_time: record.life_time,
    })
}
