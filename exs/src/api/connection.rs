//! Sockets and their connections.

use std::ffi::c_int;
use std::sync::Arc;

use libc::{sockaddr, socklen_t, timeval};

use super::{INVALID, Need, address, blocking, call, run};
use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::library::Library;
use crate::listen::{self, Accept};
use crate::memory::{self, Use};
use crate::progress;
use crate::queue::Target;
use crate::socket::{Phase, Socket};

/// Starts the library.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_init(version: c_int) -> c_int {
    call(-1, || {
        if version != EXS_VERSION1 {
            return Err(Errno(libc::ENOTSUP));
        }
        Library::init(progress::start).map(|()| 0)
    })
}

/// Makes a socket.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_socket(family: c_int, socktype: c_int, protocol: c_int) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        if !matches!(family, libc::AF_INET | libc::AF_INET6) {
            return Err(Errno(libc::EAFNOSUPPORT));
        }

        let (messages, own) = match socktype {
            libc::SOCK_STREAM => (false, libc::IPPROTO_TCP),
            libc::SOCK_SEQPACKET => (true, libc::IPPROTO_SCTP),
            _ => return Err(Errno(libc::ESOCKTNOSUPPORT)),
        };
        if protocol != 0 && protocol != own {
            return Err(Errno(libc::EPROTONOSUPPORT));
        }

        let socket = Socket::new(library.next_key(), family, messages, Phase::Idle(None));
        let fd = library.give_descriptor(&socket)?;
        library.add(&socket);
        Ok(fd)
    })
}

/// Binds a socket to a local address.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_bind(fd: c_int, addr: *const sockaddr, addrlen: socklen_t) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let socket = library.socket(fd)?;
        let address = address(addr, addrlen, socket.family)?;
        socket.bind(library, &address).map(|()| 0)
    })
}

/// Listens for connections.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_listen(fd: c_int, backlog: c_int) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let socket = library.socket(fd)?;
        if backlog < 0 {
            return Err(INVALID);
        }
        socket.listen(library, backlog).map(|()| 0)
    })
}

/// Accepts connections.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_accept(
    socket: c_int,
    addrvec: *mut AcceptAddr,
    addrvec_cnt: c_int,
    flags: c_int,
    qhandle: usize,
) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let block = super::flags(flags, EXS_BLOCK, INVALID)?;

        // No EBADF: here the published cases ask for EINVAL.
        let listener = library.socket(socket).map_err(|_| INVALID)?;
        let count = usize::try_from(addrvec_cnt).map_err(|_| INVALID)?;
        if count == 0 || (block && count != 1) {
            return Err(INVALID);
        }
        if count > EXS_ACCEPTS_MAX {
            return Err(Errno(libc::EAGAIN));
        }

        let element = |index: usize| addrvec as usize + index * size_of::<AcceptAddr>();
        let mut values = Vec::with_capacity(count);
        for index in 0..count {
            let bytes = memory::read_bytes(element(index), size_of::<AcceptAddr>())?;
            // SAFETY: integers only, of which any bytes are good.
            values.push(unsafe { bytes.as_ptr().cast::<AcceptAddr>().read_unaligned() });
        }

        let start = |target: Target| {
            let accepts = values
                .iter()
                .enumerate()
                .map(|(index, value)| {
                    let own = target.again(if block { 0 } else { value.exs_ahandle })?;
                    Accept::new(element(index), value, listener.family, own)
                })
                .collect::<Result<Vec<_>>>()?;
            accept(library, &listener, accepts, block)
        };

        run(library, block, (qhandle, 0), flags, Need::Queue, start).map(|_| 0)
    })
}

fn accept(
    library: &'static Library,
    listener: &Arc<Socket>,
    accepts: Vec<Accept>,
    block: bool,
) -> Result<()> {
    {
        let mut inner = listener.lock();
        let nonblocking = inner.nonblocking;
        let Phase::Listening(listening) = &mut inner.phase else {
            return Err(INVALID);
        };
        if block && nonblocking && !listening.has_ready() {
            return Err(Errno(libc::EAGAIN));
        }
        listening.accept(accepts)?;
    }
    listen::serve(library, listener);
    Ok(())
}

/// Connects to a peer.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_connect(
    sockno: c_int,
    addr: *const sockaddr,
    address_len: socklen_t,
    flags: c_int,
    timeout: *const timeval,
    qhandle: usize,
    ahandle: usize,
) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let block = super::flags(flags, EXS_BLOCK, INVALID)?;
        let socket = library.socket(sockno)?;
        let to = address(addr, address_len, socket.family)?;
        let timeout = super::timeout(timeout)?;
        let start = |target| socket.connect(library, &to, timeout, target);
        run(
            library,
            block,
            (qhandle, ahandle),
            flags,
            Need::Queue,
            start,
        )
        .map(|_| 0)
    })
}

/// Shuts a connection down, in one direction or both.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_shutdown(
    sockno: c_int,
    how: c_int,
    flags: c_int,
    qhandle: usize,
    ahandle: usize,
) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let block = super::flags(flags, EXS_BLOCK | EXS_UNSIGNALED, INVALID)?;
        let (read, write) = match how {
            libc::SHUT_RD => (true, false),
            libc::SHUT_WR => (false, true),
            libc::SHUT_RDWR => (true, true),
            _ => return Err(INVALID),
        };

        let socket = library.socket(sockno)?;
        let start = |target| socket.shutdown(read, write, target);
        run(
            library,
            block,
            (qhandle, ahandle),
            flags,
            Need::Nothing,
            start,
        )
        .map(|_| 0)
    })
}

/// Closes a socket.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_close(
    sockno: c_int,
    flags: c_int,
    qhandle: usize,
    ahandle: usize,
) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let block = super::flags(flags, EXS_BLOCK | EXS_UNSIGNALED, INVALID)?;
        let start = |target| {
            let socket = library.unname(sockno)?;
            socket.close(library, target);
            Ok(())
        };

        run(
            library,
            block,
            (qhandle, ahandle),
            flags,
            Need::Nothing,
            start,
        )
        .map(|_| 0)
    })
}

/// `exs_fcntl` with its argument as a number.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_fcntl_argument(sockno: c_int, cmd: c_int, argument: usize) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let socket = library.socket(sockno)?;
        match cmd {
            libc::F_GETFL => {
                let nonblocking = socket.lock().nonblocking;
                Ok(libc::O_RDWR | if nonblocking { libc::O_NONBLOCK } else { 0 })
            }
            libc::F_SETFL => {
                socket.lock().nonblocking = argument as c_int & libc::O_NONBLOCK != 0;
                Ok(0)
            }
            EXS_F_GETFILELIMIT => {
                let limit = socket.lock().file_limit as i64;
                memory::write_bytes(argument, &limit.to_ne_bytes()).map(|()| 0)
            }
            EXS_F_SETFILELIMIT => {
                let bytes = memory::read_bytes(argument, 8)?;
                let limit = bytes
                    .iter()
                    .rev()
                    .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));

                let limit = if cfg!(target_endian = "big") {
                    limit.swap_bytes()
                } else {
                    limit
                };
                if i64::try_from(limit).is_err() {
                    return Err(INVALID);
                }

                socket.lock().file_limit = limit;
                Ok(0)
            }
            _ => Err(INVALID),
        }
    })
}

/// Accepts one connection.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_blocking_accept(
    sockno: c_int,
    addr: *mut sockaddr,
    addrlen: *mut socklen_t,
) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let listener = library.socket(sockno)?;

        // As with accept(2), the length counts only where there is an address.
        let room = if addr.is_null() {
            0
        } else {
            memory::check(addrlen as usize, size_of::<socklen_t>(), Use::Receive)?;
            let bytes = memory::read_bytes(addrlen as usize, 4)?;
            socklen_t::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };

        let mut element = AcceptAddr {
            exs_addr: if room == 0 { 0 } else { addr as usize },
            exs_addrlen: room,
            exs_newsocket: -1,
            exs_ahandle: 0,
        };
        let place = &raw mut element as usize;
        let event = blocking(library, |target| {
            let accepts = vec![Accept::new(place, &element, listener.family, target)?];
            accept(library, &listener, accepts, true)
        })?;

        let (fd, length) = (
            event.accept().exs_evt_newsocket,
            event.accept().exs_evt_addrlen,
        );

        if !addr.is_null() {
            let written = memory::write_bytes(addrlen as usize, &length.to_ne_bytes());
            if let Err(error) = written {
                // The room for it went away while this waited: nobody will know of the socket.
                library.unname(fd)?.close(library, Target::none());
                return Err(error);
            }
        }

        Ok(fd)
    })
}

/// Connects and waits.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_blocking_connect(
    sockno: c_int,
    address: *const sockaddr,
    address_len: socklen_t,
) -> c_int {
    exs_connect(
        sockno,
        address,
        address_len,
        EXS_BLOCK,
        std::ptr::null(),
        0,
        0,
    )
}

/// Closes and waits.
#[unsafe(no_mangle)]
pub(super) extern "C" fn exs_blocking_close(sockno: c_int) -> c_int {
    exs_close(sockno, EXS_BLOCK, 0, 0)
}
