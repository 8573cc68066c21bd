//! What goes along with an event: the answers to what librdmacm asks about the id as soon as it has the event. They cost less
//! than the questions, each of which would be a round trip between two processes.

use ferroce_cabi::ucma::ib_uverbs_qp_attr;
use ferroce_cabi::ucma_frame::{Answers, PathAnswer, QP_STATES, Record, answer};
use zerocopy::{FromBytes, FromZeros};

use super::{Host, Ucma, query};

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
        head.answers = answer::ADDR | answer::GID;
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
}
