//! Taking the port of an address: sockets there, and the name by which no other daemon takes it at
//! the same time.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use ferroce_control::{holder, udp};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt as options};

use crate::DaemonError;

/// The longest that the kernel is given to close the sockets of processes that have ended.
const CLOSING: Duration = Duration::from_secs(2);

/// A socket at the address; `shared`: with others of the same group.
pub(crate) fn bind(address: SocketAddr, shared: bool) -> Result<OwnedFd, DaemonError> {
    let doing = || format!("opening a UDP socket at {address}");
    let socket = unbound(address).map_err(DaemonError::os(doing()))?;
    if address.is_ipv6() {
        options::set_ipv6_v6only(&socket, true).map_err(DaemonError::os(doing()))?;
    }
    if shared {
        options::set_socket_reuseport(&socket, true).map_err(DaemonError::os(doing()))?;
    }

    match rustix::net::bind(&socket, &address) {
        Ok(()) => Ok(socket),
        Err(Errno::ADDRINUSE) => Err(DaemonError::PortTaken {
            address,
            holder: holder::of_udp(address),
        }),
        Err(Errno::ADDRNOTAVAIL) => Err(DaemonError::NoSuchAddress {
            address: address.ip().to_string(),
        }),
        Err(errno) => Err(DaemonError::os(doing())(errno)),
    }
}

fn unbound(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
}

/// Whether somebody has the address; who it is takes longer to find out.
pub(crate) fn is_taken(address: SocketAddr) -> bool {
    let bound = unbound(address).and_then(|socket| rustix::net::bind(&socket, &address));
    bound == Err(Errno::ADDRINUSE)
}

/// A socket that has the address for itself. Sockets of processes that have ended are waited for,
/// [`CLOSING`] at most.
pub(crate) fn vacated(address: SocketAddr) -> Result<OwnedFd, DaemonError> {
    let start = Instant::now();
    loop {
        match bind(address, false) {
            Err(DaemonError::PortTaken { .. })
                if start.elapsed() < CLOSING && holder::has_ended(address) =>
            {
                thread::sleep(CLOSING / 100);
            }
            bound => return bound,
        }
    }
}

/// Asks for a receive buffer of that size, as far as it may be had.
pub(crate) fn enlarge(socket: &OwnedFd, bytes: usize) {
    if let Err(error) = udp::enlarge(socket, bytes) {
        tracing::warn!(%error, "receive buffers stay at the system's default size");
    }
}

/// The receive buffer that a socket was granted, as the kernel counts it.
pub(crate) fn granted(socket: &OwnedFd) -> u32 {
    let granted = options::socket_recv_buffer_size(socket).unwrap_or(0);
    u32::try_from(granted).unwrap_or(u32::MAX)
}

/// What sockets of addresses that are yet to come will be granted.
pub(crate) fn granted_without_address(bytes: usize) -> Result<u32, DaemonError> {
    let doing = || "opening a UDP socket".to_owned();
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)
        .map_err(DaemonError::os(doing()))?;
    enlarge(&socket, bytes);
    Ok(granted(&socket))
}

/// Keeps whoever has the socket from having the kernel choose otherwise which process of the device
/// gets a packet.
pub(crate) fn lock(socket: &OwnedFd) -> Result<(), DaemonError> {
    let option = (libc::SOL_SOCKET, libc::SO_LOCK_FILTER);
    udp::set(socket, option, 1).map_err(DaemonError::os("locking a socket's filter"))
}

/// Whether a socket can be kept from who holds it ([`udp::silence`]).
pub(crate) fn can_be_silenced() -> bool {
    // For who opens this the kernel loads the module that takes policies.
    let _policies = rustix::net::socket(
        AddressFamily::NETLINK,
        SocketType::RAW,
        Some(rustix::net::netlink::XFRM),
    );
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None);
    let silenced = socket.and_then(|socket| udp::silence(&socket, true, true));
    if let Err(error) = &silenced {
        tracing::warn!(
            %error,
            "a slot that one user has had cannot be given to another: that takes CAP_NET_ADMIN, and a kernel with IPsec (xfrm_user)"
        );
    }
    silenced.is_ok()
}

/// A name in the network namespace's abstract unix sockets that only one process can hold.
pub(crate) fn claim(address: SocketAddr) -> Result<OwnedFd, DaemonError> {
    let doing = || format!("claiming {address}");
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(DaemonError::os(doing()))?;

    let name = format!("ferroced/{address}");
    let bound = SocketAddrUnix::new_abstract_name(name.as_bytes())
        .and_then(|address| rustix::net::bind(&socket, &address));
    match bound {
        Ok(()) => Ok(socket),
        Err(Errno::ADDRINUSE) => Err(DaemonError::PortTaken {
            address,
            holder: holder::of_unix(&name),
        }),
        Err(errno) => Err(DaemonError::os(doing())(io::Error::from(errno))),
    }
}
