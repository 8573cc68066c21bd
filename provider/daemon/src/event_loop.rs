//! The daemon's loop: it waits for something to do, has it done by whom it concerns, and knows when to leave.

use std::time::{Duration, Instant};

use ferroce_control::{Counter, Event};
use nix::sys::signalfd::SignalFd;

use crate::DaemonError;
use crate::daemon::Daemon;
use crate::group;
use crate::poller::{Ready, Token};
use crate::umad;

/// How long programs have for the connection manager's ids when the device goes.
const FAREWELL: Duration = Duration::from_millis(500);

/// How many packets are drained of one socket before others have their turn.
const DRAIN_BATCH: usize = 256;

impl Daemon {
    /// Serves until a client asks it to stop, one of `signals` comes, or it has been idle for as long as
    /// the settings say; then cleans up the runtime directory.
    pub fn run(mut self, signals: Option<&SignalFd>) -> Result<(), DaemonError> {
        if let Some(signals) = signals {
            self.poller
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
        match (&result, &mut self.lock) {
            (Ok(()), Some(lock)) => lock.forget(),
            // It has died, as it were: its log is to be read, and who finds it gone shall start it again as it was.
            (Err(_), Some(lock)) => lock.keep_log(),
            (_, None) => {}
        }
        self.lock = None;
        // The last word comes after the clean-up, so that who waits for it can start anew at once.
        for connection in self.connections.values_mut() {
            connection.push_event(Event::Shutdown);
            let _ = connection.flush_events();
        }
        result
    }

    /// Whether it is asked to stop, and programs have had their chance to let go of the connection manager.
    fn may_leave(&mut self) -> bool {
        if !self.stopping {
            return false;
        }
        let until = match self.leave_at {
            Some(until) => until,
            None => {
                self.with_rdma_cm(|server, around| server.remove_device(around));
                *self.leave_at.insert(Instant::now() + FAREWELL)
            }
        };
        self.rdma_cm.is_gone() || until <= Instant::now()
    }

    fn turn(&mut self, signals: Option<&SignalFd>) -> Result<(), DaemonError> {
        let timeout = self
            .next_deadline()
            .map(|at| at.saturating_duration_since(Instant::now()));
        let ready = self
            .poller
            .wait(timeout)
            .map_err(DaemonError::os("waiting for something to do"))?;
        for ready in ready {
            self.handle(ready, signals);
        }
        let now = Instant::now();
        let doors = [
            &mut self.door,
            &mut self.rdma_cm.door,
            &mut self.umad.door,
            &mut self.netlink.door,
        ];
        for door in doors {
            door.reopen(now, &self.poller);
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.interfaces_changed();
        }
        if self.counting.is_due(now)
            && let Err(error) = self.refresh_image()
        {
            tracing::error!(%error, "the sysfs image is out of date");
        }
        if self.rdma_cm.next_timeout().is_some_and(|at| at <= now) {
            self.with_rdma_cm(|server, around| server.handle_timeout(around));
        }
        if self.gsi.next_timeout().is_some_and(|at| at <= now) {
            let shown = self.performance();
            self.gsi.handle_timeout(&shown);
        }
        if self.ib_timeout().is_some_and(|at| at <= now) {
            self.ib_tick();
        }
        if self.umad.next_timeout().is_some_and(|at| at <= now) {
            self.with_umad(umad::Server::handle_timeout);
        }
        let used = !self.connections.is_empty()
            || !self.holds.is_empty()
            || !self.rdma_cm.is_idle()
            || !self.umad.is_idle()
            || !self.netlink.is_idle();
        self.idle_since = match !used {
            true => self.idle_since.or(Some(now)),
            false => None,
        };
        if self.idle_deadline().is_some_and(|at| at <= now) {
            tracing::info!("nobody has needed the device for a while: leaving");
            self.stopping = true;
        }
        Ok(())
    }

    fn idle_deadline(&self) -> Option<Instant> {
        Some(self.idle_since? + self.settings.idle_exit?)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let attached = || self.connections.values().any(|c| c.claimed.is_some());
        let refresh = self.counting.next_refresh(attached);
        let cm = self.rdma_cm.next_timeout();
        let doors = [
            &self.door,
            &self.rdma_cm.door,
            &self.umad.door,
            &self.netlink.door,
        ];
        [
            doors.iter().filter_map(|door| door.reopens_at()).min(),
            refresh,
            self.idle_deadline(),
            self.retry_at,
            cm,
            self.umad.next_timeout(),
            self.gsi.next_timeout(),
            self.ib_timeout(),
            self.leave_at,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn handle(&mut self, ready: Ready, signals: Option<&SignalFd>) {
        match ready.token {
            Token::Listener => self.accept(),
            Token::Signals => {
                if let Some(Ok(Some(info))) = signals.map(SignalFd::read_signal) {
                    tracing::info!(signal = info.ssi_signo, "asked to leave");
                }
                self.stopping = true;
            }
            Token::Interfaces => {
                self.watch.drain();
                self.interfaces_changed();
            }
            Token::Connection(id) => {
                if ready.writable {
                    self.flush(id);
                }
                if ready.readable {
                    self.serve(id);
                }
            }
            Token::Process(id) => {
                tracing::debug!(id, "a client's process has died");
                self.disconnect(id);
            }
            Token::Hold(id) => self.let_go(id),
            Token::Slot { group, slot: 0 } => self.receive_mads(group),
            Token::Slot { group, slot } => self.drain(group, slot, DRAIN_BATCH),
            Token::CmListener => self.with_rdma_cm(|server, around| server.accept(around.poller)),
            Token::CmSession(id) => self.with_rdma_cm(|server, around| server.serve(id, around)),
            Token::CmChannel(id) => self.with_rdma_cm(|server, around| server.hung_up(id, around)),
            Token::CmProcess(id) => self.with_rdma_cm(|server, around| server.died(id, around)),
            Token::UmadListener => self.with_umad(umad::Server::accept),
            Token::UmadSession(id) => {
                self.with_umad(|server, around| server.serve(id, around));
                self.ib_update_sm();
            }
            Token::NetlinkListener => self.netlink.accept(&self.poller),
            Token::NetlinkSession(id) => self.serve_netlink(id),
            Token::UmadFile(inode) => {
                let room = ready.writable && !ready.readable;
                self.with_umad(|server, around| server.file_event(inode, room, around));
                self.ib_update_sm();
            }
        }
    }

    /// Throws away packets that came for nobody, and counts them.
    pub(crate) fn drain(&mut self, group: usize, slot: u8, limit: usize) {
        let Some(socket) = self
            .groups
            .get(group)
            .and_then(|group| group.existing(slot))
        else {
            return;
        };
        let (packets, _) = group::drain(socket, limit);
        if packets > 0 {
            self.counting.own.add(Counter::RxUnknownQp, packets);
            self.counting.dirty = true;
            self.slots.disturb(Instant::now(), slot);
        }
    }
}
