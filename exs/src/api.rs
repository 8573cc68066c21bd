//! The C boundary: arguments are checked here, errors become errno here, and no panic passes.
//!
//! Every function answers `EPERM` before anything else while the library is not running.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use libc::{sockaddr, socklen_t, ssize_t, timeval};

use crate::abi::*;
use crate::errno::{Errno, Result};
use crate::file;
use crate::library::Library;
use crate::listen::{self, Accept};
use crate::memory::{self, Memory, Use};
use crate::progress;
use crate::queue::{Queue, Signal, Target, Wait};
use crate::socket::{Admission, Phase, Socket, Transfer};
use crate::verbs::Address;

/// The one place where an error becomes an errno.
fn call<T>(failure: T, body: impl FnOnce() -> Result<T>) -> T {
    let code = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return value,
        Ok(Err(Errno(code))) => code,
        Err(_) => libc::EIO,
    };
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = code };
    failure
}

const INVALID: Errno = Errno(libc::EINVAL);
const UNSUPPORTED: Errno = Errno(libc::EOPNOTSUPP);

/// Refuses flags that a function does not know, and a blocking call without an event.
fn flags(flags: c_int, known: c_int, otherwise: Errno) -> Result<bool> {
    if flags & !known != 0 {
        return Err(otherwise);
    }
    if flags & EXS_BLOCK != 0 && flags & EXS_UNSIGNALED != 0 {
        return Err(INVALID);
    }
    Ok(flags & EXS_BLOCK != 0)
}

/// Whether an operation that does not block needs a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Queue,
    Nothing,
}

/// Runs an operation: to its event if it blocks, or just starts it. The event of the former is the answer.
fn run(
    library: &'static Library,
    block: bool,
    (qhandle, ahandle): (usize, usize),
    flags: c_int,
    need: Need,
    start: impl FnOnce(Target) -> Result<()>,
) -> Result<Option<Event>> {
    let queue = match qhandle {
        0 => None,
        handle => Some(library.queue(handle)?),
    };
    if block {
        return blocking(library, start).map(Some);
    }
    let signaled = flags & EXS_UNSIGNALED == 0;
    if queue.is_none() && signaled && need == Need::Queue {
        return Err(INVALID);
    }
    start(Target::new(queue, ahandle, signaled)?)?;
    Ok(None)
}

/// Starts an operation and waits for it.
fn blocking(library: &'static Library, start: impl FnOnce(Target) -> Result<()>) -> Result<Event> {
    let queue = Queue::new(1);
    start(Target::new(Some(Arc::clone(&queue)), 0, true)?)?;
    let event = file::wait_one(library, &queue)?;
    match event.exs_evt_errno {
        0 => Ok(event),
        code => Err(Errno(code)),
    }
}

/// The registration that a handle names, if it names one.
pub fn memory_of(library: &Library, handle: usize) -> Result<Option<Arc<Memory>>> {
    match handle {
        0 | EXS_MHANDLE_UNREGISTERED => Ok(None),
        handle => library.memory(handle).map(Some),
    }
}

fn address(pointer: *const sockaddr, length: socklen_t, family: c_int) -> Result<Address> {
    let most = size_of::<libc::sockaddr_storage>();
    if pointer.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    let bytes = memory::read_bytes(pointer as usize, (length as usize).min(most))?;
    Address::parse(&bytes, family)
}

/// A timeout: `EFAULT` if it is not there, `EINVAL` if it is none.
fn timeout(pointer: *const timeval) -> Result<Option<Duration>> {
    if pointer.is_null() {
        return Ok(None);
    }
    let bytes = memory::read_bytes(pointer as usize, size_of::<timeval>())?;
    // SAFETY: two integers, of which any bytes are good.
    let value = unsafe { bytes.as_ptr().cast::<timeval>().read_unaligned() };
    let seconds = u64::try_from(value.tv_sec).map_err(|_| INVALID)?;
    if !(0..1_000_000).contains(&value.tv_usec) {
        return Err(INVALID);
    }
    Ok(Some(Duration::new(
        seconds.min(u64::from(u32::MAX)),
        value.tv_usec as u32 * 1000,
    )))
}

/// Starts the library.
#[unsafe(no_mangle)]
pub extern "C" fn exs_init(version: c_int) -> c_int {
    call(-1, || {
        if version != EXS_VERSION1 {
            return Err(Errno(libc::ENOTSUP));
        }
        Library::init().map(|()| 0)
    })
}

/// Makes a socket.
#[unsafe(no_mangle)]
pub extern "C" fn exs_socket(family: c_int, socktype: c_int, protocol: c_int) -> c_int {
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
pub extern "C" fn exs_bind(fd: c_int, addr: *const sockaddr, addrlen: socklen_t) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let socket = library.socket(fd)?;
        let address = address(addr, addrlen, socket.family)?;
        socket.bind(library, &address).map(|()| 0)
    })
}

/// Listens for connections.
#[unsafe(no_mangle)]
pub extern "C" fn exs_listen(fd: c_int, backlog: c_int) -> c_int {
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
pub extern "C" fn exs_accept(
    socket: c_int,
    addrvec: *mut AcceptAddr,
    addrvec_cnt: c_int,
    flags: c_int,
    qhandle: usize,
) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let block = self::flags(flags, EXS_BLOCK, INVALID)?;
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
                    Ok(Accept::new(element(index), value, own))
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
pub extern "C" fn exs_connect(
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
        let block = self::flags(flags, EXS_BLOCK, INVALID)?;
        let socket = library.socket(sockno)?;
        let to = address(addr, address_len, socket.family)?;
        let timeout = self::timeout(timeout)?;
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

/// What a send or receive of memory is asked for.
struct Asked {
    sockno: c_int,
    buffer: usize,
    length: usize,
    flags: c_int,
    handles: (usize, usize),
    mhandle: usize,
}

fn transfer(used: Use, asked: &Asked) -> Result<ssize_t> {
    let library = Library::running()?;
    let known = match used {
        Use::Send => EXS_BLOCK | EXS_UNSIGNALED | libc::MSG_NOSIGNAL | libc::MSG_EOR,
        Use::Receive => EXS_BLOCK | EXS_UNSIGNALED | libc::MSG_WAITALL,
    };
    let block = flags(asked.flags, known, UNSUPPORTED)?;
    let socket = library.socket(asked.sockno)?;
    if asked.buffer == 0 || asked.length > EXS_LENGTH_MAX {
        return Err(INVALID);
    }
    // An empty message is one; an empty piece of a stream, and a receive of nothing, are not.
    if asked.length == 0 && (used == Use::Receive || !socket.messages) {
        return Err(INVALID);
    }
    let memory = memory_of(library, asked.mhandle)?;
    let wait_all = asked.flags & libc::MSG_WAITALL != 0;
    let nonblocking = socket.lock().nonblocking;
    let admission = match (block, nonblocking) {
        (true, true) => Admission::Immediate,
        (true, false) => Admission::Waiting,
        (false, _) => Admission::Queued,
    };
    let start = |target| {
        let transfer = Transfer {
            address: asked.buffer,
            length: asked.length,
            memory,
            region: None,
            mhandle: asked.mhandle,
            flag: match used {
                Use::Send => socket.messages,
                Use::Receive => wait_all && !socket.messages,
            },
        };
        match used {
            Use::Send => socket.send(transfer, admission, target),
            Use::Receive => socket.receive(transfer, admission, target),
        }
    };
    let event = run(
        library,
        block,
        asked.handles,
        asked.flags,
        Need::Queue,
        start,
    )?;
    Ok(event.map_or(0, |event| event.xfer().exs_evt_length as ssize_t))
}

/// Sends from memory.
#[unsafe(no_mangle)]
pub extern "C" fn exs_send(
    sockno: c_int,
    buffer: *const c_void,
    length: usize,
    flags: c_int,
    qhandle: usize,
    ahandle: usize,
    mhandle: usize,
) -> ssize_t {
    let asked = Asked {
        sockno,
        buffer: buffer as usize,
        length,
        flags,
        handles: (qhandle, ahandle),
        mhandle,
    };
    call(-1, || transfer(Use::Send, &asked))
}

/// Receives into memory.
#[unsafe(no_mangle)]
pub extern "C" fn exs_recv(
    sockno: c_int,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
    qhandle: usize,
    ahandle: usize,
    mhandle: usize,
) -> ssize_t {
    let asked = Asked {
        sockno,
        buffer: buffer as usize,
        length,
        flags,
        handles: (qhandle, ahandle),
        mhandle,
    };
    call(-1, || transfer(Use::Receive, &asked))
}

/// The body of the file transfers.
fn transfer_file(
    used: Use,
    sockno: c_int,
    (vector, count): (usize, c_int),
    flags: c_int,
    handles: (usize, usize),
) -> Result<Option<Event>> {
    let library = Library::running()?;
    let known = match used {
        Use::Send => EXS_BLOCK | EXS_UNSIGNALED | EXS_SHUT_WR,
        Use::Receive => EXS_BLOCK | EXS_UNSIGNALED,
    };
    let block = self::flags(flags, known, INVALID)?;
    let socket = library.socket(sockno)?;
    match used {
        Use::Send => socket.may_send()?,
        Use::Receive => socket.may_receive()?,
    }
    if handles.0 != 0 {
        library.queue(handles.0)?;
    }
    let limit = socket.lock().file_limit;
    let mut plan = file::plan(library, vector, count, used, limit)?;
    plan.shut |= flags & EXS_SHUT_WR != 0;
    let work = move |socket: &Arc<Socket>, target: Target| {
        let (moved, result) = match used {
            Use::Send => file::send(library, socket, plan),
            Use::Receive => file::receive(library, socket, &plan),
        };
        let kind = match used {
            Use::Send => EXS_EVT_SENDFILE,
            Use::Receive => EXS_EVT_RECVFILE,
        };
        let detail = EventDetail::Xferfile(EvtXferfile {
            exs_evt_xfervec: vector,
            exs_evt_xfervec_cnt: count,
            exs_evt_length: moved.bytes as i64,
            exs_evt_flags: moved.flags.bits(),
        });
        target.end(kind, sockno, result, detail);
    };
    let start = |target: Target| {
        if block {
            let (turn, turned) = mpsc::channel();
            socket.queue_file(used, Box::new(move || turn.send(()).unwrap_or(())))?;
            turned.recv().map_err(|_| Errno(libc::ECANCELED))?;
            work(&socket, target);
            return Ok(());
        }
        // The thread is there before the transfer is queued: a transfer that has its turn cannot lack one.
        let (turn, turned) = mpsc::channel::<()>();
        let own = Arc::clone(&socket);
        progress::spawn("exs-file", move || {
            if turned.recv().is_ok() {
                progress::guarded(|| work(&own, target));
            }
        })?;
        socket.queue_file(used, Box::new(move || turn.send(()).unwrap_or(())))
    };
    run(library, block, handles, flags, Need::Queue, start)
}

/// Sends files.
#[unsafe(no_mangle)]
pub extern "C" fn exs_sendfile(
    socket: c_int,
    sendvec: *mut XferFile,
    sendvec_cnt: c_int,
    flags: c_int,
    qhandle: usize,
    ahandle: usize,
) -> ssize_t {
    call(-1, || {
        let vector = (sendvec as usize, sendvec_cnt);
        transfer_file(Use::Send, socket, vector, flags, (qhandle, ahandle)).map(|_| 0)
    })
}

/// Receives into files.
#[unsafe(no_mangle)]
pub extern "C" fn exs_recvfile(
    socket: c_int,
    recvvec: *mut XferFile,
    recvvec_cnt: c_int,
    flags: c_int,
    qhandle: usize,
    ahandle: usize,
) -> ssize_t {
    call(-1, || {
        let vector = (recvvec as usize, recvvec_cnt);
        let event = transfer_file(Use::Receive, socket, vector, flags, (qhandle, ahandle))?;
        Ok(event.map_or(0, |event| event.xferfile().exs_evt_length as ssize_t))
    })
}

/// Shuts a connection down, in one direction or both.
#[unsafe(no_mangle)]
pub extern "C" fn exs_shutdown(
    sockno: c_int,
    how: c_int,
    flags: c_int,
    qhandle: usize,
    ahandle: usize,
) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let block = self::flags(flags, EXS_BLOCK | EXS_UNSIGNALED, INVALID)?;
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
pub extern "C" fn exs_close(sockno: c_int, flags: c_int, qhandle: usize, ahandle: usize) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let block = self::flags(flags, EXS_BLOCK | EXS_UNSIGNALED, INVALID)?;
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
pub extern "C" fn exs_fcntl_argument(sockno: c_int, cmd: c_int, argument: usize) -> c_int {
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
pub extern "C" fn exs_blocking_accept(
    sockno: c_int,
    addr: *mut sockaddr,
    addrlen: *mut socklen_t,
) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let listener = library.socket(sockno)?;
        if !addr.is_null() && addrlen.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        let room = if addr.is_null() {
            0
        } else {
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
            accept(
                library,
                &listener,
                vec![Accept::new(place, &element, target)],
                true,
            )
        })?;
        if !addrlen.is_null() {
            let length = event.accept().exs_evt_addrlen;
            memory::write_bytes(addrlen as usize, &length.to_ne_bytes())?;
        }
        Ok(event.accept().exs_evt_newsocket)
    })
}

/// Connects and waits.
#[unsafe(no_mangle)]
pub extern "C" fn exs_blocking_connect(
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

/// Sends and waits.
#[unsafe(no_mangle)]
pub extern "C" fn exs_blocking_send(
    sockno: c_int,
    buffer: *const c_void,
    max_bytes: usize,
    flags: c_int,
    mhandle: usize,
) -> ssize_t {
    exs_send(sockno, buffer, max_bytes, flags | EXS_BLOCK, 0, 0, mhandle)
}

/// Receives and waits.
#[unsafe(no_mangle)]
pub extern "C" fn exs_blocking_recv(
    sockno: c_int,
    buffer: *mut c_void,
    max_bytes: usize,
    flags: c_int,
    mhandle: usize,
) -> ssize_t {
    exs_recv(sockno, buffer, max_bytes, flags | EXS_BLOCK, 0, 0, mhandle)
}

/// Sends files and waits.
#[unsafe(no_mangle)]
pub extern "C" fn exs_blocking_sendfile(
    socket: c_int,
    sendvec: *mut XferFile,
    sendvec_cnt: c_int,
    flags: c_int,
) -> ssize_t {
    exs_sendfile(socket, sendvec, sendvec_cnt, flags | EXS_BLOCK, 0, 0)
}

/// Receives into files and waits.
#[unsafe(no_mangle)]
pub extern "C" fn exs_blocking_recvfile(
    socket: c_int,
    recvvec: *mut XferFile,
    recvvec_cnt: c_int,
    flags: c_int,
) -> ssize_t {
    exs_recvfile(socket, recvvec, recvvec_cnt, flags | EXS_BLOCK, 0, 0)
}

/// Closes and waits.
#[unsafe(no_mangle)]
pub extern "C" fn exs_blocking_close(sockno: c_int) -> c_int {
    exs_close(sockno, EXS_BLOCK, 0, 0)
}

/// Receives without registration, and waits.
#[unsafe(no_mangle)]
pub extern "C" fn exs_read(sockno: c_int, buffer: *mut c_void, max_bytes: usize) -> ssize_t {
    exs_recv(sockno, buffer, max_bytes, EXS_BLOCK, 0, 0, 0)
}

/// Sends without registration, and waits.
#[unsafe(no_mangle)]
pub extern "C" fn exs_write(sockno: c_int, buffer: *const c_void, max_bytes: usize) -> ssize_t {
    exs_send(sockno, buffer, max_bytes, EXS_BLOCK, 0, 0, 0)
}

/// Registers memory.
#[unsafe(no_mangle)]
pub extern "C" fn exs_mregister(addr: *mut c_void, size: usize, flags: c_int) -> usize {
    call(EXS_MHANDLE_INVALID, || {
        let library = Library::running()?;
        let known = EXS_MRF_SHARED | EXS_MRF_SEND_DISABLE | EXS_MRF_RECV_DISABLE;
        let end = (addr as usize).checked_add(size).ok_or(INVALID)?;
        // Sizes come as ssize_t from many a program: a negative one is no size.
        if addr.is_null() || size == 0 || end > isize::MAX as usize || flags & !known != 0 {
            return Err(INVALID);
        }
        let memory = Memory::register(library, addr as usize, size, flags)?;
        Ok(library.add_memory(Arc::new(memory)))
    })
}

/// Ends a registration.
#[unsafe(no_mangle)]
pub extern "C" fn exs_mderegister(mhandle: usize, flags: c_int) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        if flags != 0 {
            return Err(INVALID);
        }
        library.remove_memory(mhandle).map(|()| 0)
    })
}

/// Makes an event queue.
#[unsafe(no_mangle)]
pub extern "C" fn exs_qcreate(depth: c_int) -> usize {
    call(EXS_QHANDLE_INVALID, || {
        let library = Library::running()?;
        library.add_queue(Queue::new(self::depth(depth)?))
    })
}

fn depth(depth: c_int) -> Result<usize> {
    const DEFAULT: usize = 128;
    match depth {
        0 => Ok(DEFAULT),
        1..=EXS_QDEPTH_MAX => Ok(depth as usize),
        _ => Err(INVALID),
    }
}

/// Deletes an event queue.
#[unsafe(no_mangle)]
pub extern "C" fn exs_qdelete(qhandle: usize) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        library.delete_queue(qhandle).map(|()| 0)
    })
}

/// Takes events.
#[unsafe(no_mangle)]
pub extern "C" fn exs_qdequeue(
    qhandle: usize,
    evtvec: *mut Event,
    evtvec_cnt: c_int,
    timeout: *const timeval,
) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let queue = library.queue(qhandle)?;
        let most = evtvec_cnt.unsigned_abs() as usize;
        if most == 0 || most > EXS_EVTVEC_MAX {
            return Err(INVALID);
        }
        let least = if evtvec_cnt < 0 { most } else { 1 };
        let until = self::timeout(timeout)?.and_then(|wait| Instant::now().checked_add(wait));
        if evtvec.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        // The place is tried first, so that nothing waits for an event that has no place to go.
        memory::check(evtvec as usize, most * size_of::<Event>(), Use::Receive)?;
        let events = queue.take(least, most, until, &library)?;
        // SAFETY: the events' own bytes.
        let written = unsafe {
            memory::write_from(
                evtvec as usize,
                events.as_ptr().cast(),
                size_of_val(&events[..]),
            )
        };
        match written {
            Ok(()) => Ok(events.len() as c_int),
            Err(error) => {
                queue.give_back(events);
                Err(error)
            }
        }
    })
}

/// Changes an attribute of a queue.
#[unsafe(no_mangle)]
pub extern "C" fn exs_qmodify(
    qhandle: usize,
    attribute: c_int,
    value: *const c_void,
    size: usize,
) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let queue = library.queue(qhandle)?;
        let wanted = match attribute {
            EXS_QATTR_DEPTH | EXS_QATTR_WAIT => size_of::<c_int>(),
            EXS_QATTR_SIGNAL => size_of::<ExsSignal>(),
            _ => return Err(INVALID),
        };
        if size != wanted {
            return Err(INVALID);
        }
        let bytes = memory::read_bytes(value as usize, size)?;
        let number = || c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        match attribute {
            EXS_QATTR_DEPTH => {
                let depth = number();
                if depth < 1 {
                    return Err(INVALID);
                }
                queue.set_depth(self::depth(depth)?);
            }
            EXS_QATTR_WAIT => queue.set_wait(match number() {
                EXS_WAIT_ADAPTIVE => Wait::Adaptive,
                EXS_WAIT_NOTIFY => Wait::Notify,
                EXS_WAIT_BUSY_POLL => Wait::BusyPoll,
                _ => return Err(INVALID),
            }),
            _ => {
                // SAFETY: integers only, of which any bytes are good.
                let signal = unsafe { bytes.as_ptr().cast::<ExsSignal>().read_unaligned() };
                queue.set_signal(match signal.exs_sig_state {
                    EXS_SIG_DISABLE => None,
                    EXS_SIG_ENABLE if (1..=libc::SIGRTMAX()).contains(&signal.exs_sig_signo) => {
                        Some(Signal {
                            number: signal.exs_sig_signo,
                            value: signal.exs_sig_value,
                        })
                    }
                    _ => return Err(INVALID),
                });
            }
        }
        Ok(0)
    })
}

/// Tells an attribute of a queue.
#[unsafe(no_mangle)]
pub extern "C" fn exs_qstatus(
    qhandle: usize,
    attribute: c_int,
    value: *mut c_void,
    size: usize,
) -> c_int {
    call(-1, || {
        let library = Library::running()?;
        let queue = library.queue(qhandle)?;
        let (depth, events) = queue.depth();
        let bytes = match attribute {
            EXS_QATTR_DEPTH => (depth as c_int).to_ne_bytes().to_vec(),
            EXS_QATTR_EVENTS => (events as c_int).to_ne_bytes().to_vec(),
            EXS_QATTR_WAIT => match queue.wait() {
                Wait::Adaptive => EXS_WAIT_ADAPTIVE,
                Wait::Notify => EXS_WAIT_NOTIFY,
                Wait::BusyPoll => EXS_WAIT_BUSY_POLL,
            }
            .to_ne_bytes()
            .to_vec(),
            EXS_QATTR_SIGNAL => {
                let signal = queue.signal();
                let state = if signal.is_some() {
                    EXS_SIG_ENABLE
                } else {
                    EXS_SIG_DISABLE
                };
                let number = signal.map_or(0, |signal| signal.number);
                let value = signal.map_or(0, |signal| signal.value);
                let mut bytes = Vec::with_capacity(size_of::<ExsSignal>());
                bytes.extend(state.to_ne_bytes());
                bytes.extend(number.to_ne_bytes());
                bytes.extend(value.to_ne_bytes());
                bytes
            }
            _ => return Err(INVALID),
        };
        if size != bytes.len() {
            return Err(INVALID);
        }
        memory::write_bytes(value as usize, &bytes).map(|()| 0)
    })
}
