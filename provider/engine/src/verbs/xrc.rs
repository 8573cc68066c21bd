//! XRC domains: the shared receive queues and target queue pairs that may meet.
//!
//! A domain is named by a file's inode, so that contexts of one process which open the same file
//! share it. It never spans processes: the memory of a receive request is memory of the process
//! that posted it, and no other can place data there. Where a program without `O_CREAT` opens the
//! domain of another process, there is none to be found (`EAGAIN`).

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferroce_control::faults::Verb;
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::hca::Hca;
use crate::verbs::context::Context;
use crate::verbs::descriptor;
use crate::verbs::handles::Kind;
use crate::verbs::limits;
use crate::verbs::qp::Qp;
use crate::verbs::shared_requests::SharedRequests;

/// What the openers of one domain share.
pub(crate) struct Domain {
    /// Device and inode of the file; `None` for a domain that is its opener's alone.
    file: Option<(u64, u64)>,
    srqs: Mutex<HashMap<u32, Arc<SharedRequests>>>,
    /// Target queue pairs, for those who open them by number.
    targets: Mutex<HashMap<u32, Arc<Qp>>>,
}

impl Domain {
    pub(crate) fn srq(&self, number: u32) -> Option<Arc<SharedRequests>> {
        self.srqs.lock().get(&number).cloned()
    }

    pub(super) fn add_srq(&self, srq: &Arc<SharedRequests>) {
        self.srqs.lock().insert(srq.number(), srq.clone());
    }

    pub(super) fn remove_srq(&self, number: u32) {
        self.srqs.lock().remove(&number);
    }

    pub(super) fn add_target(&self, qp: &Arc<Qp>) {
        self.targets.lock().insert(qp.qp_num(), qp.clone());
    }

    pub(super) fn remove_target(&self, number: u32) {
        self.targets.lock().remove(&number);
    }

    pub(crate) fn target(&self, number: u32) -> Option<Arc<Qp>> {
        self.targets.lock().get(&number).cloned()
    }
}

/// The domains of a process that have an opener.
pub(crate) type Domains = Mutex<Vec<(Arc<Domain>, u32)>>;

/// An XRC domain as one context opened it.
pub struct Xrcd {
    context: Arc<Context>,
    domain: Arc<Domain>,
    handle: u32,
    users: AtomicU32,
    closed: Mutex<bool>,
}

impl Context {
    /// Opens the XRC domain of the file behind `fd`, or one that cannot be shared. `oflags`:
    /// `O_CREAT` makes it if no context of this process has it open (else `EAGAIN`), `O_EXCL`
    /// refuses one that exists (`EINVAL`).
    pub fn open_xrcd(self: &Arc<Self>, fd: Option<RawFd>, oflags: i32) -> Result<Arc<Xrcd>> {
        self.hca().allows(Verb::OpenXrcd)?;
        Xrcd::open(self, fd, oflags)
    }
}

impl Xrcd {
    /// Opens the domain of the file behind `fd` (any mode), or a new one that nobody else can open.
    pub(crate) fn open(
        context: &Arc<Context>,
        fd: Option<RawFd>,
        oflags: i32,
    ) -> Result<Arc<Xrcd>> {
        if oflags & !(libc::O_CREAT | libc::O_EXCL) != 0 {
            return Err(Error::Invalid("oflags other than O_CREAT and O_EXCL"));
        }

        let looking = "looking at the XRC domain's file";
        let file = fd.map(|fd| descriptor::identify(fd, looking)).transpose()?;
        let hca = context.hca();
        let mut domains = hca.domains.lock();
        let room = domains.len() < limits::MAX_XRCD as usize;
        let known = file.and_then(|file| domains.iter_mut().find(|(d, _)| d.file == Some(file)));
        let domain = match known {
            Some(_) if oflags & libc::O_EXCL != 0 => {
                return Err(Error::Invalid("O_EXCL: the file has an XRC domain already"));
            }
            Some((domain, openers)) => {
                *openers += 1;
                domain.clone()
            }
            None if file.is_some() && oflags & libc::O_CREAT == 0 => {
                return Err(Error::Absent(
                    "no context of this process has an XRC domain open at this file",
                ));
            }
            None if !room => {
                return Err(Error::Full("XRC domains"));
            }
            None => {
                let domain = Arc::new(Domain {
                    file,
                    srqs: Mutex::default(),
                    targets: Mutex::default(),
                });
                domains.push((domain.clone(), 1));
                domain
            }
        };

        drop(domains);
        let xrcd = Arc::new(Xrcd {
            context: context.clone(),
            domain,
            handle: hca.new_handle(),
            users: AtomicU32::new(0),
            closed: Mutex::new(false),
        });
        context.shared().add(Kind::XrcDomain, xrcd.handle, &xrcd);
        Ok(xrcd)
    }

    /// A number that identifies this opening in the process.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Closes it (`EBUSY` while queue pairs or shared receive queues were made with it). The domain
    /// ends with its last opener.
    pub fn close(&self) -> Result<()> {
        let mut closed = self.closed.lock();
        if self.users.load(Ordering::Relaxed) != 0 {
            return Err(Error::Busy("XRC domain"));
        }

        if !std::mem::replace(&mut *closed, true) {
            self.context.shared().forget(Kind::XrcDomain, self.handle);
            let mut domains = self.hca().domains.lock();
            if let Some(i) = domains
                .iter()
                .position(|(d, _)| Arc::ptr_eq(d, &self.domain))
            {
                domains[i].1 -= 1;
                if domains[i].1 == 0 {
                    domains.swap_remove(i);
                }
            }
        }

        Ok(())
    }

    pub(crate) fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    fn hca(&self) -> &Arc<Hca> {
        self.context.hca()
    }

    pub(super) fn add_user(&self) -> Result<()> {
        let closed = self.closed.lock();
        if *closed {
            return Err(Error::Invalid("the XRC domain is closed"));
        }
        self.users.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn remove_user(&self) {
        self.users.fetch_sub(1, Ordering::Relaxed);
    }
}
