//! Letting programs in: what is remembered of a session.

use super::channel::Caller;
use super::serve::{Program, Server};
use crate::poller::{Poller, Token};
use crate::sessions::Session;

impl Server {
    /// Takes in who knocks.
    pub(crate) fn accept(&mut self, poller: &Poller) {
        self.sessions.accept(poller, |id, guest| {
            let caller = Caller {
                session: id,
                pid: guest.pid,
                uid: guest.uid,
                privileged: guest.uid == 0,
            };
            let program = Program {
                caller,
                channels: 0,
            };
            let mut session = Session::new(guest.socket, program);
            // A child that it leaves behind may keep channels open.
            session.watch_process(guest.pid, Token::CmProcess(id), poller);
            session
        });
    }
}
