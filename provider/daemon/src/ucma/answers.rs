//! What goes along with an event: the answers to what librdmacm asks about the id as soon as it has
//! the event. They cost less than the questions, each of which would be a round trip between two
//! processes. So does word of which commands would succeed, since nobody need wait for the answer
//! to those.

use ferroce_cabi::ucma::ib_uverbs_qp_attr;
use ferroce_cabi::ucma_frame::{Answers, CONNECTED, PathAnswer, QP_STATES, Record, answer};
use ferroce_fabric::cm;
use ferroce_wire::mtu;
use zerocopy::{FromBytes, FromZeros};

use super::host::Host;
use super::id::{Id, State};
use super::query;
use super::state::Ucma;
use super::table::MAX_IDS;

impl Ucma {
    /// The answers about an id as of now, which `head` will describe; `None`: there is no such id.
    pub(super) fn answers(
        &self,
        handle: u32,
        head: &mut Record,
        host: &Host<'_>,
    ) -> Option<Answers> {
        let id = self.ids.get(handle)?;
        let mut answers = Answers {
            addr: query::addr(id, host),
            gid: query::gid(id, host),
            path: PathAnswer::new_zeroed(),
            qp_attr: [ib_uverbs_qp_attr::default(); QP_STATES.len()],
        };

        head.id = handle;
        head.generation = self.generations.of(handle);
        head.life = self.generations.life(handle) & !CONNECTED;
        head.answers = answer::ADDR | answer::GID | self.feasible(id);
        if let Ok(path) = PathAnswer::read_from_bytes(&query::path(id, size_of::<PathAnswer>())) {
            answers.path = path;
            head.answers |= answer::PATH;
        }

        for (i, state) in QP_STATES.into_iter().enumerate() {
            if let Ok(attr) = self.connection_attr(id, state) {
                answers.qp_attr[i] = attr;
                head.answers |= answer::QP_ATTR << i;
            }
        }

        Some(answers)
    }

    /// Which commands that make connections would succeed, whatever their parameters.
    fn feasible(&self, id: &Id) -> u32 {
        if id.is_datagram() {
            return 0;
        }

        let state = id.cm.and_then(|cm| self.cm.state(cm));
        match (id.state, state) {
            (State::RouteResolved, None) => {
                let good = |path: cm::Path| path.packet_life_time < 32 && mtu::is_valid(path.mtu);
                let room = self.cm.len() < MAX_IDS;
                match room && id.path.is_some_and(good) {
                    true => answer::CONNECT,
                    false => 0,
                }
            }
            (State::Connect, Some(cm::State::RequestReceived | cm::State::RequestDeferred)) => {
                answer::ACCEPT
            }
            (State::Connect, Some(cm::State::ReplyReceived | cm::State::ReplyDeferred)) => {
                answer::ESTABLISH
            }
            _ => 0,
        }
    }
}
