//! Captures that the program under test takes itself: what `ferroce capture` writes, into a file of
//! the program's, by a thread of its own.

use std::fs::File;
use std::io::BufWriter;
use std::os::fd::OwnedFd;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;

use ferroce_cabi::direct::{FERROCE_DV_CAPTURE_BOTH, FERROCE_DV_CAPTURE_VERBS};
use ferroce_cabi::{ibv_context, ibv_qp};
use ferroce_capture::{Ended, Error, Filter, Item, Output, Pcapng, Session};
use ferroce_control::capture::CaptureWish;
use ferroce_control::{Client, threads};

use crate::device;
use crate::failure::Failure;
use crate::faults;
use crate::provider;

/// Bytes that a program's ring holds.
const ROOM: u32 = 16 << 20;
/// Bytes that are kept of a packet: all.
const WHOLE: u32 = 1 << 17;
/// Stack of the thread, in bytes.
const STACK: usize = 512 << 10;

/// How much a capture has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Packets that were written.
    pub packets: u64,
    /// Packets and events that found no room, and are not in it.
    pub dropped: u64,
}

/// A capture under way. It ends when this is dropped.
#[derive(Debug)]
pub struct Capture {
    stop: Arc<AtomicBool>,
    /// How it ended: what was captured, and what went wrong.
    ended: Receiver<(Captured, Result<(), Failure>)>,
    thread: Option<JoinHandle<()>>,
    /// Whose the thread is.
    process: u32,
}

impl Capture {
    /// Ends it; what was sent and received before is in the file when this returns.
    ///
    /// # Errors
    /// `ENODEV`: the daemon has gone, and the capture is what there was until then; what writing to
    /// the file has failed with; `EIO`: it is the parent's, in a forked child.
    pub fn stop(mut self) -> Result<Captured, Failure> {
        let (captured, ended) = self.end();
        ended.map(|()| captured)
    }

    /// Likewise, with what was captured in any case.
    pub(crate) fn end(&mut self) -> (Captured, Result<(), Failure>) {
        let failed = |why| (Captured::default(), Err(Failure::new(libc::EIO, why)));
        if self.process != process::id() {
            return failed("the capture is the parent's of this process");
        }

        self.stop.store(true, Ordering::Relaxed);
        let ended = self.ended.recv();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        ended.unwrap_or_else(|_| failed("internal error: the capture's thread has ended"))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.end().1;
        }
    }
}

/// Begins a capture of the device, or of one queue pair. All that this program sends and receives
/// from now on is in it.
///
/// # Safety
/// `context` is null or an open context, `qp` null or one of its queue pairs.
pub(crate) unsafe fn start(
    context: *mut ibv_context,
    qp: *mut ibv_qp,
    out: OwnedFd,
    flags: u32,
) -> Result<Capture, Failure> {
    if flags & !(FERROCE_DV_CAPTURE_VERBS | FERROCE_DV_CAPTURE_BOTH) != 0 {
        let why = format!("{flags:#x}: a flag of captures that there is not");
        return Err(Failure::new(libc::EINVAL, why));
    }

    // SAFETY: as the caller promises.
    let provider = unsafe { provider::of_context(context) }?;
    // SAFETY: likewise.
    let qp = unsafe { faults::number(context, qp) }?;
    // SAFETY: likewise.
    let mut client = unsafe { faults::client(provider, context) }?;
    let device = client.status()?.device;
    let mut file = Pcapng::begin(Box::new(BufWriter::new(File::from(out))), &device.name)?;
    // What cannot be written to is found out now.
    file.flush()?;

    client.capture(CaptureWish {
        room: ROOM,
        snap: WHOLE,
        verbs: flags & FERROCE_DV_CAPTURE_VERBS != 0,
    })?;
    // SAFETY: likewise.
    Failure::of(unsafe { (provider.catch_up)(context) }, device::WORDS)?;

    let both = flags & FERROCE_DV_CAPTURE_BOTH != 0;
    let qps: Vec<u32> = qp.into_iter().collect();
    run(client, file, move || Filter::new(qps, Vec::new(), both))
}

/// Has a thread write what is captured.
fn run(
    mut client: Client,
    file: Pcapng,
    filter: impl FnOnce() -> Filter + Send + 'static,
) -> Result<Capture, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let (end, ended) = mpsc::channel();
    let told = stop.clone();
    let work = move || {
        let mut out = Out(file);
        let mut session = Session::new(filter(), u64::MAX);
        let result = session.begin(&mut client);
        let result = result.and_then(|()| session.run(&mut client, &told, None, &mut out));
        let captured = Captured {
            packets: session.shown(),
            dropped: session.lost(),
        };

        let written = out.0.statistics(captured.packets, captured.dropped);
        let written = written.and_then(|()| out.0.flush());
        let result = result.and_then(|ended| written.map(|()| ended));
        let result = match result {
            Ok(Ended::Gone) => Err(Failure::new(
                libc::ENODEV,
                "the daemon has gone: what was captured until then is written",
            )),
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::from(error)),
        };
        // Whoever has let go of it wants no answer.
        let _ = end.send((captured, result));
    };

    // A file that nobody reads any more is an error for this thread, not a signal for the program.
    let thread = threads::spawn("ferroce-capture", STACK, &[], work);
    let thread = thread.map_err(|error| {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        Failure::new(errno, format!("starting a thread: {error}"))
    })?;
    Ok(Capture {
        stop,
        ended,
        thread: Some(thread),
        process: process::id(),
    })
}

struct Out(Pcapng);

impl Output for Out {
    fn put(&mut self, item: &Item) -> Result<(), Error> {
        self.0.put(item)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.0.flush()
    }

    /// A program whose ring makes no sense is left out, and nobody here is told of others.
    fn complain(&mut self, _: &str) {}
}
