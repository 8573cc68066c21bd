//! Sockets that the daemon hands over.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use super::{Client, unexpected};
use crate::ControlError;
use crate::protocol::{Reply, Request};

impl Client {
    /// This slot's UDP socket for a GID: bound to its address and port 4791, UDP_GRO on, receive
    /// buffer as large as the system allows. Whether it is in non-blocking mode is undefined: pass
    /// `MSG_DONTWAIT`. Needs [`attach`](Self::attach) first (`EINVAL`); an unused index is
    /// `ENOENT`.
    ///
    /// Asked again for the same address, it returns another descriptor of the same socket.
    pub fn receive_socket(&mut self, gid_index: u16) -> Result<OwnedFd, ControlError> {
        match self.call(Request::ReceiveSocket { gid_index })? {
            (Reply::ReceiveSocket, mut fds) if fds.len() == 1 => Ok(fds.remove(0)),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// The [socket](Self::receive_socket) of an address is wanted no more, and closed, or about to
    /// be. Needs [`attach`](Self::attach) first (`EINVAL`).
    pub fn leave_socket(&mut self, addr: IpAddr, scope_id: u32) -> Result<(), ControlError> {
        match self.call(Request::LeaveSocket { addr, scope_id })? {
            (Reply::Ok, _) => Ok(()),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// A socket of the daemon's network from a GID's address to another, or to a group, as
    /// [`Outlet::open`](crate::Outlet::open) would make it there, with its errors; bound to the
    /// first port that is free from the one of number `first` on. Needs
    /// [`attach`](Self::attach) first (`EINVAL`); an unused index is `ENOENT`; `EMFILE`: there are
    /// too many that are still open.
    pub fn send_socket(
        &mut self,
        gid_index: u16,
        to: IpAddr,
        first: u16,
    ) -> Result<OwnedFd, ControlError> {
        let request = Request::SendSocket {
            gid_index,
            to,
            first,
        };
        match self.call(request)? {
            (Reply::SendSocket, mut fds) if fds.len() == 1 => Ok(fds.remove(0)),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// A socket of the daemon's network that receives what comes for a group by those of these
    /// interfaces that addresses of the port are on
    /// ([`outlet::member`](crate::outlet::member)). Errors as of
    /// [`send_socket`](Self::send_socket), `EINVAL` where that is no group, or none of RoCE's, and
    /// `ENODEV` where addresses are on none of them.
    pub fn group_socket(
        &mut self,
        group: IpAddr,
        interfaces: &[u32],
    ) -> Result<OwnedFd, ControlError> {
        let interfaces = interfaces.to_vec();
        match self.call(Request::GroupSocket { group, interfaces })? {
            (Reply::GroupSocket, mut fds) if fds.len() == 1 => Ok(fds.remove(0)),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// What [`Outlet::way_out`](crate::Outlet::way_out) says in the daemon's network of packets
    /// from a GID's address. An unused index is `ENOENT`.
    pub fn way_out(&mut self, gid_index: u16, to: IpAddr) -> Result<Option<u32>, ControlError> {
        match self.call(Request::WayOut { gid_index, to })? {
            (Reply::WayOut(interface), _) => Ok(interface),
            (other, _) => Err(unexpected(&other)),
        }
    }
}
