//! File transfers: a vector of files and memory goes out, or is filled, in order.
//!
//! Files pass through a few registered buffers, so that memory stays flat whatever their size, and so that a file that
//! is cut short meanwhile is an error rather than a fault.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use crate::abi::{
    EXS_FDVEC, EXS_IOVEC, EXS_PATHVEC, EXS_SHUT_WR, EXS_XFERVEC_MAX, Event, EvtFlags, EvtXfer,
    XferFile,
};
use crate::errno::{Errno, Result};
use crate::library::Library;
use crate::memory::{self, Memory, Use};
use crate::queue::{Queue, Target};
use crate::socket::{Admission, Socket, Transfer};
use crate::verbs::Mr;

/// Buffers of one transfer, and their size.
const BUFFERS: usize = 4;
const CHUNK: usize = 1 << 20;

/// A part of a transfer.
pub enum Extent {
    /// The application's memory.
    Memory {
        address: usize,
        length: usize,
        mhandle: usize,
        memory: Option<Arc<Memory>>,
    },
    /// A part of a file. Received without a length: to the end of what comes.
    File {
        file: File,
        offset: u64,
        length: Option<u64>,
    },
}

/// A checked vector.
pub struct Plan {
    pub extents: Vec<Extent>,
    /// Shut down for writing afterwards.
    pub shut: bool,
}

/// What came of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    pub bytes: u64,
    pub flags: EvtFlags,
}

/// Reads and checks a vector; nothing has happened when it fails.
pub fn plan(library: &Library, vector: usize, count: i32, used: Use, limit: u64) -> Result<Plan> {
    let count = usize::try_from(count).map_err(|_| Errno(libc::EINVAL))?;
    if count == 0 || count > EXS_XFERVEC_MAX || vector == 0 {
        return Err(Errno(libc::EINVAL));
    }
    let mut extents = Vec::with_capacity(count);
    let mut shut = false;
    for index in 0..count {
        let bytes = memory::read_bytes(
            vector + index * size_of::<XferFile>(),
            size_of::<XferFile>(),
        )?;
        // SAFETY: integers only, of which any bytes are good.
        let element = unsafe { bytes.as_ptr().cast::<XferFile>().read_unaligned() };
        let (extent, flags) = extent(library, &element, used)?;
        let known = if used == Use::Send { EXS_SHUT_WR } else { 0 };
        if flags & !known != 0 {
            return Err(Errno(libc::EINVAL));
        }
        shut |= flags & EXS_SHUT_WR != 0;
        extents.push(extent);
    }
    if used == Use::Send && limit > 0 {
        let total: u64 = extents.iter().map(Extent::length).sum();
        if total > limit {
            return Err(Errno(libc::EFBIG));
        }
    }
    Ok(Plan { extents, shut })
}

fn extent(library: &Library, element: &XferFile, used: Use) -> Result<(Extent, i32)> {
    match element.exs_xfv_type {
        EXS_IOVEC => {
            // SAFETY: integers only, of which any bytes are good.
            let iov = unsafe { element.exs_xfv.exs_iov };
            if iov.exs_iov_base == 0 || iov.exs_iov_len == 0 {
                return Err(Errno(libc::EINVAL));
            }
            let extent = Extent::Memory {
                address: iov.exs_iov_base,
                length: iov.exs_iov_len,
                mhandle: iov.exs_iov_mhandle,
                memory: crate::api::memory_of(library, iov.exs_iov_mhandle)?,
            };
            Ok((extent, 0))
        }
        EXS_FDVEC => {
            // SAFETY: as above.
            let fdv = unsafe { element.exs_xfv.exs_fdv };
            let file = borrow(fdv.exs_fildes)?;
            let extent = part(file, fdv.exs_offset, fdv.exs_length, used)?;
            Ok((extent, fdv.exs_flags))
        }
        EXS_PATHVEC => {
            // SAFETY: as above.
            let pathv = unsafe { element.exs_xfv.exs_pathv };
            let file = open(pathv.exs_path, pathv.exs_offset, used)?;
            let extent = part(file, pathv.exs_offset, pathv.exs_length, used)?;
            Ok((extent, pathv.exs_flags))
        }
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// A descriptor of the application's, as one of our own.
fn borrow(fd: i32) -> Result<File> {
    if fd < 0 {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: the file is not closed here; whether the descriptor is open the call finds out.
    let theirs = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    theirs
        .try_clone()
        .map_err(|error| match Errno::from(error) {
            Errno(libc::EBADF) => Errno(libc::EINVAL),
            error => error,
        })
}

fn open(path: usize, offset: i64, used: Use) -> Result<File> {
    if path == 0 {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: the application gives a string.
    let path = unsafe { CStr::from_ptr(path as *const _) };
    let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
    let mut options = OpenOptions::new();
    // Not to wait for the other end of a FIFO, which is refused anyway.
    options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    match used {
        Use::Send => options.read(true),
        Use::Receive => options.write(true).create(true).mode(0o666),
    };
    let file = options
        .open(path)
        .map_err(|error| match Errno::from(error) {
            Errno(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ELOOP) => {
                Errno(libc::EINVAL)
            }
            // A directory, or a FIFO without a reader, cannot be written; nor could it be mapped.
            Errno(libc::EISDIR | libc::ENXIO) => Errno(libc::ENODEV),
            error => error,
        })?;
    if used == Use::Receive && file.metadata()?.is_file() {
        let offset = u64::try_from(offset).map_err(|_| Errno(libc::EINVAL))?;
        file.set_len(offset)?;
    }
    Ok(file)
}

/// Checks what is asked of a file.
fn part(file: File, offset: i64, length: usize, used: Use) -> Result<Extent> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Errno(libc::ENODEV));
    }
    // SAFETY: asks for the flags of a descriptor of ours.
    let access = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) } & libc::O_ACCMODE;
    let barred = match used {
        Use::Send => libc::O_WRONLY,
        Use::Receive => libc::O_RDONLY,
    };
    if access == barred {
        return Err(Errno(libc::EACCES));
    }
    let offset = u64::try_from(offset).map_err(|_| Errno(libc::EINVAL))?;
    let asked = (length > 0).then_some(length as u64);
    let length = match used {
        Use::Send => {
            let size = metadata.len();
            let rest = size.checked_sub(offset).ok_or(Errno(libc::EINVAL))?;
            if asked.is_some_and(|asked| asked > rest) {
                return Err(Errno(libc::EINVAL));
            }
            Some(asked.unwrap_or(rest))
        }
        Use::Receive => asked,
    };
    Ok(Extent::File {
        file,
        offset,
        length,
    })
}

impl Extent {
    fn length(&self) -> u64 {
        match self {
            Self::Memory { length, .. } => *length as u64,
            Self::File { length, .. } => length.unwrap_or(0),
        }
    }
}

/// The registered buffers of a transfer, and the private queue on which their operations end.
struct Ring<'a> {
    library: &'static Library,
    socket: &'a Arc<Socket>,
    queue: Arc<Queue>,
    // Before the memory it is of.
    region: Option<Arc<Mr>>,
    memory: Vec<u8>,
    /// Operations started and not ended, in order: the buffer, if it is one of ours.
    flying: VecDeque<Option<usize>>,
    free: Vec<usize>,
}

impl<'a> Ring<'a> {
    fn new(library: &'static Library, socket: &'a Arc<Socket>) -> Self {
        Self {
            library,
            socket,
            queue: Queue::new(BUFFERS),
            region: None,
            memory: Vec::new(),
            flying: VecDeque::new(),
            free: (0..BUFFERS).collect(),
        }
    }

    /// The buffers, made at the first use.
    fn region(&mut self) -> Result<Arc<Mr>> {
        if let Some(region) = &self.region {
            return Ok(Arc::clone(region));
        }
        self.memory = vec![0; BUFFERS * CHUNK];
        let device = self.socket.device()?;
        // SAFETY: it is used through raw pointers while operations have it, and looked at when they are over.
        let region = unsafe {
            device.register(
                self.memory.as_mut_ptr() as usize,
                self.memory.len(),
                true,
                true,
            )
        }?;
        let region = Arc::new(region);
        self.region = Some(Arc::clone(&region));
        Ok(region)
    }

    fn address(&self, buffer: usize) -> usize {
        self.memory.as_ptr() as usize + buffer * CHUNK
    }

    /// A buffer that no operation has.
    fn buffer(&mut self, buffer: usize, length: usize) -> &mut [u8] {
        &mut self.memory[buffer * CHUNK..][..length]
    }

    fn target(&self) -> Result<Target> {
        Target::new(Some(Arc::clone(&self.queue)), 0, true)
    }

    /// Waits for the oldest operation: its buffer and its event.
    fn wait(&mut self) -> Result<(Option<usize>, EvtXfer)> {
        let event = wait_one(self.library, &self.queue)?;
        let buffer = self.flying.pop_front().flatten();
        self.free.extend(buffer);
        match event.exs_evt_errno {
            0 => Ok((buffer, event.xfer())),
            code => Err(Errno(code)),
        }
    }

    /// Waits for all that is flying, whatever becomes of it: the buffers must not go before.
    fn land(&mut self) {
        while !self.flying.is_empty() {
            let _ = self.wait();
        }
    }
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        self.land();
    }
}

/// Waits for one event of a private queue, through signals.
pub fn wait_one(library: &'static Library, queue: &Queue) -> Result<Event> {
    loop {
        match queue.take(1, 1, None, &library) {
            Ok(events) => {
                if let Some(event) = events.first() {
                    return Ok(*event);
                }
            }
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Sends a plan, whose turn has come.
pub fn send(library: &'static Library, socket: &Arc<Socket>, plan: Plan) -> (Moved, Result<()>) {
    let mut moved = Moved::default();
    let mut ring = Ring::new(library, socket);
    let queued = send_extents(&mut ring, &mut moved, &plan.extents);
    if queued.is_err() && socket.messages {
        // The message has no end yet, and the next one must not be taken for the rest of it.
        let _ = submit(&mut ring, 1, 0, None, true, Use::Send);
    }
    socket.file_over(Use::Send);
    let mut result = queued;
    while !ring.flying.is_empty() {
        match ring.wait() {
            Ok((_, xfer)) => moved.bytes += xfer.exs_evt_length as u64,
            Err(error) => result = result.and(Err(error)),
        }
    }
    if plan.shut && result.is_ok() {
        let shut = Target::new(Some(Arc::clone(&ring.queue)), 0, true)
            .and_then(|target| socket.shutdown(false, true, target));
        result = shut.and_then(|()| match wait_one(library, &ring.queue)?.exs_evt_errno {
            0 => Ok(()),
            code => Err(Errno(code)),
        });
    }
    (moved, result)
}

fn send_extents(ring: &mut Ring<'_>, moved: &mut Moved, extents: &[Extent]) -> Result<()> {
    let mut left: u64 = extents.iter().map(Extent::length).sum();
    if left == 0 && ring.socket.messages {
        return submit(ring, 1, 0, None, true, Use::Send);
    }
    for extent in extents {
        match extent {
            Extent::Memory {
                address,
                length,
                mhandle,
                memory,
            } => {
                left -= *length as u64;
                let transfer = Transfer {
                    address: *address,
                    length: *length,
                    memory: memory.clone(),
                    region: None,
                    mhandle: *mhandle,
                    flag: left == 0 && ring.socket.messages,
                };
                let target = ring.target()?;
                ring.socket.send(transfer, Admission::File, target)?;
                ring.flying.push_back(None);
            }
            Extent::File {
                file,
                offset,
                length,
            } => {
                let region = ring.region()?;
                let end = offset + length.unwrap_or(0);
                let mut at = *offset;
                while at < end {
                    while ring.free.is_empty() {
                        let (_, xfer) = ring.wait()?;
                        moved.bytes += xfer.exs_evt_length as u64;
                    }
                    let buffer = ring.free.pop().ok_or(Errno(libc::EIO))?;
                    let length = (end - at).min(CHUNK as u64) as usize;
                    if let Err(error) = file.read_exact_at(ring.buffer(buffer, length), at) {
                        ring.free.push(buffer);
                        // Somebody has cut the file short.
                        return Err(Errno::from(error));
                    }
                    at += length as u64;
                    left -= length as u64;
                    let last = left == 0 && ring.socket.messages;
                    let place = ring.address(buffer);
                    let sent = submit(ring, place, length, Some(&region), last, Use::Send);
                    if sent.is_err() {
                        ring.free.push(buffer);
                        return sent;
                    }
                    if let Some(flying) = ring.flying.back_mut() {
                        *flying = Some(buffer);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Starts an operation on memory of our own.
fn submit(
    ring: &mut Ring<'_>,
    address: usize,
    length: usize,
    region: Option<&Arc<Mr>>,
    flag: bool,
    used: Use,
) -> Result<()> {
    let transfer = Transfer {
        address,
        length,
        memory: None,
        region: region.cloned(),
        mhandle: 0,
        flag,
    };
    let target = ring.target()?;
    match used {
        Use::Send => ring.socket.send(transfer, Admission::File, target)?,
        Use::Receive => ring.socket.receive(transfer, Admission::File, target)?,
    }
    ring.flying.push_back(None);
    Ok(())
}

/// Where the bytes of a receive go.
struct Job<'a> {
    file: Option<(&'a File, u64)>,
    length: usize,
}

/// Receives a plan, whose turn has come.
pub fn receive(
    library: &'static Library,
    socket: &Arc<Socket>,
    plan: &Plan,
) -> (Moved, Result<()>) {
    let mut moved = Moved::default();
    let mut ring = Ring::new(library, socket);
    let result = receive_extents(&mut ring, &mut moved, &plan.extents);
    if result.is_err() && !ring.flying.is_empty() {
        // Bytes that belong here would get lost: the sender must know that its file does not arrive.
        let _ = socket.shutdown(true, false, Target::none());
    }
    ring.land();
    socket.file_over(Use::Receive);
    (moved, result)
}

fn receive_extents(ring: &mut Ring<'_>, moved: &mut Moved, extents: &[Extent]) -> Result<()> {
    // Of a message nothing is posted ahead: the next buffer would take the next message.
    let ahead = if ring.socket.messages { 1 } else { BUFFERS };
    let mut jobs: VecDeque<Job<'_>> = VecDeque::new();
    let mut over = false;
    let mut extents = extents.iter().peekable();
    let mut at = 0;
    loop {
        while !over && jobs.len() < ahead {
            let Some(extent) = extents.peek() else { break };
            match extent {
                Extent::Memory {
                    address,
                    length,
                    mhandle,
                    memory,
                } => {
                    extents.next();
                    let transfer = Transfer {
                        address: *address,
                        length: *length,
                        memory: memory.clone(),
                        region: None,
                        mhandle: *mhandle,
                        flag: !ring.socket.messages || extents.peek().is_some(),
                    };
                    let target = ring.target()?;
                    ring.socket.receive(transfer, Admission::File, target)?;
                    ring.flying.push_back(None);
                    jobs.push_back(Job {
                        file: None,
                        length: *length,
                    });
                }
                Extent::File {
                    file,
                    offset,
                    length,
                } => {
                    let left = length.map_or(u64::MAX, |length| length - at);
                    let region = ring.region()?;
                    let Some(buffer) = ring.free.pop() else { break };
                    let length = left.min(CHUNK as u64) as usize;
                    let place = offset + at;
                    at += length as u64;
                    let exhausted = length as u64 == left;
                    if exhausted {
                        extents.next();
                        at = 0;
                    }
                    let last = extents.peek().is_none();
                    let address = ring.address(buffer);
                    let flag = !ring.socket.messages || !last;
                    if let Err(error) =
                        submit(ring, address, length, Some(&region), flag, Use::Receive)
                    {
                        ring.free.push(buffer);
                        return Err(error);
                    }
                    if let Some(flying) = ring.flying.back_mut() {
                        *flying = Some(buffer);
                    }
                    jobs.push_back(Job {
                        file: Some((file, place)),
                        length,
                    });
                }
            }
        }
        let Some(job) = jobs.pop_front() else {
            return Ok(());
        };
        let (buffer, xfer) = match ring.wait() {
            // What was posted ahead of the end finds nothing.
            Err(_) if over => continue,
            other => other?,
        };
        let got = xfer.exs_evt_length;
        if let (Some((file, place)), Some(buffer)) = (job.file, buffer) {
            file.write_all_at(ring.buffer(buffer, got), place)?;
        }
        moved.bytes += got as u64;
        let flags = xfer.exs_evt_flags;
        moved.flags.truncated |= flags & libc::MSG_TRUNC != 0;
        moved.flags.end |= flags & libc::MSG_EOR != 0;
        moved.flags.eof |= flags & crate::abi::EXS_EVF_EOF != 0;
        over |= moved.flags.end || moved.flags.eof || moved.flags.truncated || got < job.length;
    }
}
