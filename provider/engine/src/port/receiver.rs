//! One receiving socket: its options, what is counted at it, and its end. The packets are handled
//! in `rx`.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use ferroce_control::{FlowPage, Member};
use ferroce_transport::{AtomicTime, Time};

use crate::own::Own;
use crate::port::ib::Port;
use crate::port::recvmsg::IPV6_FLOWINFO;
use crate::tuning::SETTLE_TIME;
use crate::verbs::groups::Members;

/// One receiving socket: this process's slot at one address, or a multicast group, whose members
/// are queue pairs `Q`.
pub(crate) struct Receiver<Q> {
    pub(crate) socket: Own,
    pub(crate) local: IpAddr,
    /// The InfiniBand port whose cable ends here, or for which it stands.
    pub(crate) port: Option<Arc<Port>>,
    /// A multicast group's members in this process.
    pub(crate) members: Option<Arc<Members<Q>>>,
    /// Datagrams that the kernel has dropped for want of room in the socket's buffer, as last seen.
    pub(crate) dropped: AtomicU32,
    /// By which number it is counted: the slot, or the member's of a group.
    slot: u8,
    /// Where what came without acknowledgement is counted.
    flow: Option<FlowPage>,
    /// As whom, of a multicast group.
    member: Option<Member>,
    /// How much had been sent when the socket was empty, though less had been received, and since
    /// when that is so.
    empty_at: AtomicU64,
    empty_since: AtomicTime,
    /// Nothing is received from it any more.
    pub(crate) closed: AtomicBool,
}

impl<Q> Receiver<Q> {
    /// Takes over a slot's socket, which may have lived before.
    pub(crate) fn of_slot(socket: OwnedFd, local: IpAddr, scope_id: u32, slot: u8) -> Self {
        let flow = FlowPage::open(local, scope_id);
        if let Some(page) = &flow {
            // What the slot's last owner did not take is nobody's business now. Later would be too
            // late: a sender that finds its first datagrams settled while they wait here sends as
            // many more as the socket has no room for.
            page.settle(slot, page.sent(slot).load(Relaxed));
        }
        let receiver = Receiver {
            slot,
            flow,
            ..Receiver::new(socket, local)
        };
        // The network may have marked it, and then its sender is to be told.
        receiver.ask_for_class();
        receiver
    }

    /// Takes over a slot's socket at the end of a port's cable.
    pub(crate) fn of_cable(socket: OwnedFd, port: Arc<Port>, slot: u8) -> Self {
        Receiver {
            slot,
            port: Some(port.clone()),
            ..Receiver::new(socket, port.local())
        }
    }

    /// Takes over the socket of a multicast group. What comes is counted for a member of the group.
    pub(crate) fn of_group(
        socket: OwnedFd,
        group: IpAddr,
        members: Arc<Members<Q>>,
        member: Option<Member>,
    ) -> Self {
        Receiver {
            members: Some(members),
            slot: member.as_ref().map_or(0, Member::number),
            flow: member.as_ref().map(|member| member.page().clone()),
            member,
            ..Receiver::new(socket, group)
        }
    }

    /// Takes over a socket to which the daemon sends copies of what comes to a port for a multicast
    /// group.
    pub(crate) fn of_group_at(socket: OwnedFd, port: Arc<Port>, members: Arc<Members<Q>>) -> Self {
        Receiver {
            port: Some(port.clone()),
            ..Receiver::of_group(socket, port.local(), members, None)
        }
    }

    fn new(socket: OwnedFd, local: IpAddr) -> Self {
        let mut info = [0u32; MEMINFO];
        let mut len = size_of_val(&info) as u32;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL);

        // SAFETY: the option's value and length are valid for the call. Where it fails, overflows
        // are not counted.
        unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                info.as_mut_ptr().cast(),
                &mut len,
            );
        }

        Receiver {
            socket: socket.into(),
            local,
            port: None,
            members: None,
            dropped: AtomicU32::new(info[MEMINFO - 1]),
            slot: 0,
            flow: None,
            member: None,
            empty_at: AtomicU64::new(0),
            empty_since: AtomicTime::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Has the kernel tell of the IP header what goes into a GRH.
    pub(crate) fn ask_for_headers(&self) {
        self.ask_for_class();
        if self.local.is_ipv4() {
            set_option(&self.socket, libc::IPPROTO_IP, libc::IP_RECVTTL);
        } else {
            set_option(&self.socket, libc::IPPROTO_IPV6, IPV6_FLOWINFO);
            set_option(&self.socket, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT);
        }
    }

    /// Has the kernel tell TOS or traffic class.
    fn ask_for_class(&self) {
        match self.local.is_ipv4() {
            true => set_option(&self.socket, libc::IPPROTO_IP, libc::IP_RECVTOS),
            false => set_option(&self.socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
        }
    }

    /// Whether it is the slot's at one of the port's addresses.
    pub(crate) fn is_of_slot(&self) -> bool {
        self.port.is_none() && self.members.is_none()
    }

    /// Nobody waits at the slot's socket any more. It may be asked for again, and so must not be
    /// shut down.
    pub(crate) fn leave(&self) {
        self.closed.store(true, Relaxed);
    }

    /// Ends a group's receiver: nobody waits at the socket any more, or takes anything off it.
    pub(crate) fn close(&self) {
        self.closed.store(true, Relaxed);
        if let Some(member) = &self.member {
            member.leave();
        }
        // SAFETY: touches no memory. An unconnected UDP socket complains, and wakes its readers all
        // the same.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RD) };
    }

    /// Counts what came without acknowledgement, for those who send so.
    pub(crate) fn take(&self, cost: u64) {
        if let Some(page) = &self.flow {
            page.take(self.slot, cost);
        }
    }

    /// The socket is empty now: what was sent a while ago has been received or lost. Returns
    /// whether another look is needed to tell, as a sender counts before it sends.
    pub(crate) fn nothing_left(&self, now: Time) -> bool {
        let Some(page) = &self.flow else {
            return false;
        };
        let sent = page.sent(self.slot).load(Relaxed);
        if page.received(self.slot).load(Relaxed) == sent {
            return false;
        }
        if self.empty_at.swap(sent, Relaxed) != sent {
            self.empty_since.store(now);
        } else if now - self.empty_since.load() > SETTLE_TIME {
            page.settle(self.slot, sent);
            return false;
        }
        true
    }

    /// As [`nothing_left`](Self::nothing_left), if the socket is empty.
    pub(crate) fn settle_if_empty(&self, now: Time) -> bool {
        let Some(page) = &self.flow else {
            return false;
        };
        if page.in_flight(self.slot) == 0 {
            return false;
        }
        let mut waiting: libc::c_int = 0;
        // SAFETY: the request writes one int.
        let known =
            unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::FIONREAD, &raw mut waiting) };
        known == 0 && waiting == 0 && self.nothing_left(now)
    }
}

/// Has the kernel hand over what belongs together in one piece.
pub(crate) fn merge_runs(socket: &OwnedFd) {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO);
}

/// Switches an option on. What the kernel lacks is not told then.
pub(super) fn set_option(socket: &OwnedFd, level: libc::c_int, name: libc::c_int) {
    let on: libc::c_int = 1;
    // SAFETY: the option's value and length are valid for the call.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const on).cast(),
            size_of_val(&on) as u32,
        );
    }
}

/// Words of `SO_MEMINFO`; the last are the drops (`SK_MEMINFO_DROPS`).
const MEMINFO: usize = 9;
