//! The progress thread: one for the process. It takes the connection manager's events, completions
//! that nobody else looks for, and timers. It never waits for a socket's peer.

use std::sync::Arc;
use std::time::Instant;

use crate::attention::Watcher;
use crate::conn::Conn;
use crate::errno::{Errno, Result};
use crate::library::{CM, Library, WAKE};
use crate::listen;
use crate::proto::message::Hello;
use crate::socket::{Phase, Socket, unreachable_as};
use crate::verbs::CmEvent;

// enum rdma_cm_event_type
const ADDR_RESOLVED: i32 = 0;
const ADDR_ERROR: i32 = 1;
const ROUTE_RESOLVED: i32 = 2;
const ROUTE_ERROR: i32 = 3;
const CONNECT_REQUEST: i32 = 4;
const CONNECT_ERROR: i32 = 6;
const UNREACHABLE: i32 = 7;
const REJECTED: i32 = 8;
const ESTABLISHED: i32 = 9;
const DISCONNECTED: i32 = 10;
const DEVICE_REMOVAL: i32 = 11;
const TIMEWAIT_EXIT: i32 = 15;

/// Time for finding a route, in milliseconds.
const ROUTE_MS: i32 = 5000;

/// Starts the thread.
pub(crate) fn start(library: &'static Library) -> Result<()> {
    spawn("exs-progress", move || run(library))
}

/// Starts a thread of the library's, with all signals blocked: they are the application's.
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    // SAFETY: plain signal masks, of this thread, restored below.
    let old = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut old: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    };
    let started = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body);
    // SAFETY: the mask from above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) };
    started.map(drop).map_err(Errno::from)
}

fn run(library: &'static Library) {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 16];
    let mut watcher = Watcher::default();
    loop {
        let now = Instant::now();
        let (alone, watching) = watcher.watch(&library.attention, now);
        if alone {
            guarded(|| library.arm());
        }

        let (expired, next) = library.timers.expired(now);
        for key in expired {
            if let Some(socket) = library.by_key(key) {
                guarded(|| socket.overdue(library));
            }
        }

        let next = [next, watching].into_iter().flatten().min();
        let timeout = next.map_or(-1, |next| {
            next.as_micros().div_ceil(1000).min(60_000) as i32
        });

        // SAFETY: there is room for 16 events.
        let count = unsafe { libc::epoll_wait(library.epoll, events.as_mut_ptr(), 16, timeout) };
        for event in &events[..count.clamp(0, 16) as usize] {
            match event.u64 {
                CM => {
                    while let Some(event) = library.cm.next() {
                        guarded(|| handle(library, &event));
                    }
                }
                WAKE => {
                    let mut number = 0_u64;
                    // SAFETY: eight bytes from an eventfd.
                    unsafe { libc::read(library.wake, (&raw mut number).cast(), 8) };
                }
                device => guarded(|| completions(library, device)),
            }
        }
    }
}

/// Runs something whose panic must not end all progress: it is one event's, and the next may be
/// good.
pub(crate) fn guarded(work: impl FnOnce()) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
}

fn completions(library: &Library, device: u64) {
    let Some(device) = library.device_at(device) else {
        return;
    };
    while let Some(cq) = device.event() {
        cq.disarmed();
        // Who looks takes them, and sees to what comes when he looks no more: this thread would be
        // in his way.
        if library.attention.looked_for() {
            continue;
        }
        while library.poll(&cq, true) > 0 {}
        // While a thread looks itself, events would only wake this one for nothing.
        if !library.attention.attended() {
            cq.arm();
            while library.poll(&cq, true) > 0 {}
        }
    }
}

/// Takes an event of the connection manager.
fn handle(library: &Library, event: &CmEvent) {
    if event.kind == CONNECT_REQUEST {
        listen::request(library, event);
        return;
    }

    let Some(socket) = library.by_key(event.context) else {
        return;
    };

    match event.kind {
        ADDR_RESOLVED => address_resolved(&socket),
        ROUTE_RESOLVED => route_resolved(library, &socket),
        ESTABLISHED => established(library, &socket, event),
        ADDR_ERROR | ROUTE_ERROR => {
            let error = match event.status {
                status if status < 0 => unreachable_as(Errno(-status)),
                _ => Errno(libc::EHOSTUNREACH),
            };
            socket.connect_failed(error);
        }
        REJECTED => failed(library, &socket, Errno(libc::ECONNREFUSED)),
        UNREACHABLE => failed(library, &socket, Errno(libc::ETIMEDOUT)),
        CONNECT_ERROR => failed(library, &socket, Errno(libc::ECONNRESET)),
        DISCONNECTED | DEVICE_REMOVAL => {
            listen::established(library, &socket, true);
            socket.disconnected();
            socket.settle(library);
        }
        TIMEWAIT_EXIT => socket.settle(library),
        _ => {}
    }
}

fn failed(library: &Library, socket: &Arc<Socket>, error: Errno) {
    socket.connect_failed(error);
    // Where it was the accepting end that failed.
    listen::established(library, socket, false);
}

fn address_resolved(socket: &Socket) {
    let resolving = {
        let mut inner = socket.lock();
        match &mut inner.phase {
            Phase::Resolving(id, _) => id.resolve_route(ROUTE_MS),
            _ => Ok(()),
        }
    };
    if let Err(error) = resolving {
        socket.connect_failed(unreachable_as(error));
    }
}

fn route_resolved(library: &Library, socket: &Socket) {
    let mut inner = socket.lock();
    let (id, attempt) = match std::mem::replace(&mut inner.phase, Phase::Idle(None)) {
        Phase::Resolving(id, attempt) => (id, attempt),
        other => {
            inner.phase = other;
            return;
        }
    };

    let made = library
        .device(id.verbs())
        .and_then(|device| Conn::new(socket.key, socket.messages, id, device))
        .and_then(|mut conn| {
            conn.socket = inner.fd;
            conn.connect()?;
            Ok(conn)
        });

    match made {
        Ok(conn) => inner.phase = Phase::Connecting(Box::new(conn), attempt),
        Err(error) => {
            let fd = inner.fd;
            drop(inner);
            attempt.end(fd, Err(error));
        }
    }
}

fn established(library: &Library, socket: &Arc<Socket>, event: &CmEvent) {
    let mut inner = socket.lock();
    let (mut conn, attempt) = match std::mem::replace(&mut inner.phase, Phase::Dead) {
        Phase::Connecting(conn, attempt) => (conn, attempt),
        other => {
            inner.phase = other;
            drop(inner);
            listen::established(library, socket, true);
            return;
        }
    };

    let private = &event.private[..(event.private_length as usize).min(event.private.len())];
    let fd = inner.fd;
    let result = match Hello::parse(private) {
        Some(hello) if hello.messages == socket.messages => {
            conn.establish(&hello);
            inner.phase = Phase::Connected(conn);
            Ok(())
        }
        // Something that is not this library answered.
        _ => {
            drop(conn);
            inner.phase = Phase::Idle(None);
            Err(Errno(libc::EPROTO))
        }
    };

    drop(inner);
    attempt.end(fd, result);
}
