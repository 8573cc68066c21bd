//! The daemon's loop: it asks its services when they want to be called, has each do what is due or
//! ready, and knows when to leave.

use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::DaemonError;
use crate::attention::AWAKE;
use crate::daemon::Daemon;
use crate::nldev::DeviceView;
use crate::poller::{Ready, Token};
use crate::service::Service;
use crate::signals::Signals;
use crate::stay::Need;

impl Daemon {
    /// Serves until a client asks it to stop, one of `signals` comes, or it has been idle for as
    /// long as the settings say; then cleans up the runtime directory.
    pub fn run(mut self, signals: Option<&Signals>) -> Result<(), DaemonError> {
        if let Some(signals) = signals {
            self.adapter
                .poller
                .add(signals, Token::Signals)
                .map_err(DaemonError::os("watching for signals"))?;
        }

        let result = loop {
            match self.turn(signals) {
                Ok(()) if self.may_leave() => break Ok(()),
                Ok(()) => {}
                Err(error) => break Err(error),
            }
        };

        self.clean_up();
        self.place.leave(result.is_ok());

        // The last word comes after the clean-up, so that who waits for it can start anew at once.
        self.clients.farewell();
        result
    }

    /// Whether it is asked to stop, and programs have had their chance to let go of the connection
    /// manager.
    fn may_leave(&mut self) -> bool {
        if !self.stay.is_over() {
            return false;
        }
        let now = Instant::now();
        if self.stay.tell(now) {
            self.rdma_cm.remove_device(&self.adapter.for_rdma_cm());
            self.settle();
        }
        self.rdma_cm.is_gone() || self.stay.is_late(now)
    }

    fn turn(&mut self, signals: Option<&Signals>) -> Result<(), DaemonError> {
        let next = self
            .services()
            .into_iter()
            .filter_map(Service::next_timeout);
        let timeout = next
            .min()
            .map(|at| at.saturating_duration_since(Instant::now()));
        let ready = self.wait(timeout);
        for ready in ready.map_err(DaemonError::os("waiting for something to do"))? {
            self.ready(ready, signals);
            self.settle();
        }

        if std::mem::take(&mut self.clients.faults_changed) {
            self.faults_changed();
        }

        let now = Instant::now();
        self.handle_timeouts(now);
        self.settle();
        if std::mem::take(&mut self.clients.stop) {
            self.stay.ask();
        }
        if std::mem::take(&mut self.clients.remain) {
            self.remain();
        }

        let services = self.services();
        let need = match services.into_iter().any(Service::is_used) {
            true => Need::Used,
            false if services.into_iter().any(Service::is_about_to_be) => Need::Doubtful,
            false => Need::None,
        };
        self.stay.look(need, now);
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<Ready>, Errno> {
        let poller = &self.adapter.poller;
        if self.attention.take() {
            let limit = timeout.map_or(AWAKE, |timeout| timeout.min(AWAKE));
            let ready = poller.wait_awake(limit)?;
            let came = !ready.is_empty();
            self.attention.waited(came);
            if came {
                return Ok(ready);
            }
        }
        poller.wait(timeout)
    }

    /// Has each service do what is due.
    fn handle_timeouts(&mut self, now: Instant) {
        self.adapter.ib_tick(now);
        self.end_faults(now);

        // Whatever it was that has happened.
        if self.adapter.counting.is_due(now) {
            self.show();
        }
        if self.interfaces.is_due(now) {
            self.interfaces_changed();
        }
        if self.clients.is_due(now) {
            self.clients.handle_timeout(now, &self.adapter.poller);
        }

        if self.rdma_cm.is_due(now) {
            let around = self.adapter.for_rdma_cm();
            self.rdma_cm.handle_timeout(now, &around);
        }

        if self.umad.is_due(now) {
            self.umad.handle_timeout(now, &self.adapter.for_umad());
        }
        if self.netlink.is_due(now) {
            self.netlink.handle_timeout(now, &self.adapter.poller);
        }
        if self.adapter.hosts.is_due(now) {
            self.adapter.hosts.handle_timeout();
        }
        if self.gsi.is_due(now) {
            self.gsi.handle_timeout(&self.adapter);
            for late in self.gsi.late() {
                self.served().go_on(late);
            }
        }
    }

    /// Has the service do its work whose descriptor is ready.
    fn ready(&mut self, ready: Ready, signals: Option<&Signals>) {
        let Daemon {
            adapter,
            clients,
            rdma_cm,
            umad,
            netlink,
            ..
        } = self;

        match ready.token {
            Token::Signals => {
                if let Some(signal) = signals.and_then(Signals::take) {
                    tracing::info!(signal, "asked to leave");
                }
                self.stay.ask();
            }
            Token::Interfaces => {
                self.interfaces.ready();
                self.interfaces_changed();
            }
            Token::Description => self.description_written(),
            Token::Slot { group, slot: 0 } => self.receive(group),
            Token::Slot { group, slot } => clients.drain(group, slot, adapter),
            Token::Listener => clients.accept(&adapter.poller),
            Token::Connection(id) => clients.ready(id, ready, adapter, rdma_cm),
            Token::Process(id) => clients.died(id, adapter),
            Token::Hold(id) => clients.let_go(id, &adapter.poller),
            Token::CmListener => rdma_cm.accept(&adapter.poller),
            Token::CmSession(id) => {
                self.attention.program_spoke();
                rdma_cm.serve(id, &adapter.for_rdma_cm());
            }
            Token::CmChannel(id) => rdma_cm.hung_up(id, &adapter.for_rdma_cm()),
            Token::CmProcess(id) => rdma_cm.died(id, &adapter.for_rdma_cm()),
            Token::UmadListener => umad.accept(&adapter.for_umad()),
            Token::UmadSession(id) => {
                umad.serve(id, &adapter.for_umad());
                adapter.ib.update_sm(|port| umad.is_sm(port));
            }
            Token::UmadFile(inode) => {
                let room = ready.writable && !ready.readable;
                umad.file_event(inode, room, &adapter.for_umad());
                adapter.ib.update_sm(|port| umad.is_sm(port));
            }
            Token::NetlinkListener => netlink.accept(&adapter.poller),
            Token::NetlinkSession(id) => {
                netlink.ready(id, &DeviceView { adapter, rdma_cm }, &adapter.poller);
            }
        }
    }

    /// Takes what came for slot 0 of a group of sockets: all that comes to an InfiniBand port, or
    /// QP1's datagrams at an address.
    fn receive(&mut self, group: usize) {
        if self.adapter.ib_receive(group) {
            return;
        }
        self.attention.network_spoke();
        for incoming in self.gsi.receive(group, &mut self.adapter) {
            self.served().serve(&incoming);
        }
    }
}
