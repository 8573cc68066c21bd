//! The server's sockets: programs' sessions and their channels. It reads, has things done, and
//! writes; nothing a program does makes it wait.

use std::time::Instant;

use ferroce_control::{DeviceInfo, RuntimeDir};

use super::channel::Caller;
use super::host::Host;
use super::state::Ucma;
use super::surroundings::Surroundings as View;
use crate::DaemonError;
use crate::clock::Clock;
use crate::mads::Outgoing;
use crate::poller::{Poller, Token};
use crate::service::Service;
use crate::sessions::{Kind, Sessions};
use crate::users::Users;

/// What is known of a program's connection.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) caller: Caller,
    pub(super) channels: usize,
}

pub(super) const KIND: Kind = Kind {
    door: Token::CmListener,
    session: Token::CmSession,
    backlog: 512,
    most: usize::MAX,
};

/// The server with its sockets.
#[derive(Debug)]
pub(crate) struct Server {
    /// With the channels. It goes before the sessions: a program whose connection ends shall find
    /// its channels at their end, too.
    pub(super) ucma: Ucma,
    pub(super) sessions: Sessions<Program>,
    /// What is to be sent from QP1.
    pub(super) outgoing: Vec<Outgoing>,
    clock: Clock,
}

impl Service for Server {
    fn next_timeout(&self) -> Option<Instant> {
        let times = [
            self.ucma.cm.next_timeout(),
            self.ucma.services.next_timeout(),
            self.ucma.questions.next_timeout(),
            self.ucma.names.next_timeout(),
            self.ucma.neighbours.next_timeout(),
            self.ucma.regroup_at,
        ];
        let at = times.into_iter().flatten().min();
        let at = at.map(|at| self.clock.instant(at));
        at.into_iter().chain(self.sessions.next_timeout()).min()
    }

    fn is_used(&self) -> bool {
        !self.sessions.is_empty()
    }
}

impl Server {
    /// Listens in the runtime directory, for that device.
    pub(crate) fn start(
        dir: &RuntimeDir,
        info: &DeviceInfo,
        users: Users,
        poller: &Poller,
    ) -> Result<Self, DaemonError> {
        let sessions = Sessions::listen(&dir.rdma_cm(), KIND, users)?;
        sessions.open(poller)?;
        Self::of(sessions, info)
    }

    /// With these sessions, for that device.
    pub(super) fn of(sessions: Sessions<Program>, info: &DeviceInfo) -> Result<Self, DaemonError> {
        Ok(Self {
            ucma: Ucma::new(info)?,
            sessions,
            outgoing: Vec::new(),
            clock: Clock::start(),
        })
    }

    /// The device goes. Programs are told, and have until [`is_gone`](Self::is_gone) to clean up.
    pub(crate) fn remove_device(&mut self, view: &View<'_>) {
        let host = self.host(view);
        self.ucma.names.withdraw(&mut self.ucma.questions, &host);
        self.ucma.remove_device(&host);
        self.finish(&host);
    }

    /// Whether nobody holds anything of a device that has gone.
    pub(crate) fn is_gone(&self) -> bool {
        !self.ucma.has_removed()
    }

    /// The device's addresses have changed.
    pub(crate) fn addresses_changed(&mut self, view: &View<'_>) {
        let host = self.host(view);
        self.ucma.addresses_changed(&host);
        self.finish(&host);
    }

    /// An interface has another hardware address.
    pub(crate) fn hardware_changed(&mut self, ifindex: u32, view: &View<'_>) {
        let host = self.host(view);
        self.ucma.hardware_changed(ifindex, &host);
        self.finish(&host);
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant, view: &View<'_>) {
        self.sessions.handle_timeout(now, view.poller);
        let host = self.host(view);
        let ucma = &mut self.ucma;
        let heard = |qp| view.claims.heard(qp);
        (ucma.cm).handle_timeout(host.now, &heard, &mut ucma.out);
        (ucma.services).end_pauses(false, host.now, &mut ucma.cm, &mut ucma.out);
        ucma.repeat_questions(&host);
        ucma.names.renew(&mut ucma.questions, &host);
        ucma.regroup(&host);
        ucma.look_for_neighbours(&host);
        self.finish(&host);
    }

    /// Handles what the CM has to say, and sends what it wants sent.
    pub(super) fn finish(&mut self, host: &Host<'_>) {
        self.ucma.settle(host);
        self.ucma.announce(host);
        self.hand_out(host);
    }

    pub(super) fn host<'a>(&self, view: &View<'a>) -> Host<'a> {
        Host {
            gids: view.gids,
            info: view.info,
            snapshot: view.snapshot,
            kernel: view.kernel,
            given: view.given,
            ports: view.ports,
            now: self.clock.now(),
        }
    }
}
