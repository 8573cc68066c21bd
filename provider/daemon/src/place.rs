//! What the daemon has on disk: the runtime directory with its lock, and the image in it.

use std::fs;
use std::io;
use std::path::Path;

use ferroce_control::RuntimeDir;

use crate::DaemonError;
use crate::config::Config;
use crate::image::Image;
use crate::lock::Lock;
use crate::sysfs::View;
use crate::users::Users;

/// The runtime directory, held.
#[derive(Debug)]
pub(crate) struct Place {
    dir: RuntimeDir,
    image: Image,
    lock: Option<Lock>,
}

impl Place {
    /// A directory that is locked, with an empty image.
    pub(crate) fn new(dir: RuntimeDir, lock: Lock, users: Users) -> Result<Self, DaemonError> {
        let image = Image::create(lock.premises(), users.are_several())?;
        Ok(Self {
            dir,
            image,
            lock: Some(lock),
        })
    }

    /// Where it is.
    pub(crate) fn dir(&self) -> &RuntimeDir {
        &self.dir
    }

    /// Brings the image up to date.
    pub(crate) fn show(&mut self, view: &View<'_>) -> Result<(), DaemonError> {
        self.image.show(view)
    }

    /// What a file of the image has now that programs may write.
    pub(crate) fn contents(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.image.contents(path)
    }

    /// Has a file of the image written anew the next time.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.image.forget(path);
    }

    /// Leaves word of how the device is configured, for who finds that this daemon has died.
    pub(crate) fn remember(&self, config: &Config) -> Result<(), DaemonError> {
        match &self.lock {
            Some(lock) => lock.remember(config),
            None => Ok(()),
        }
    }

    /// Removes the sockets and the image.
    pub(crate) fn clean_up(&mut self) {
        let dir = &self.dir;
        for socket in [dir.socket(), dir.rdma_cm(), dir.umad(), dir.netlink()] {
            let _ = fs::remove_file(socket);
        }
        if let Err(error) = self.image.remove() {
            tracing::warn!(%error, "cannot clean up");
        }
        if let Some(lock) = &self.lock {
            lock.remove_links();
        }
    }

    /// Lets others have the directory. `well`: the daemon was to leave.
    pub(crate) fn leave(&mut self, well: bool) {
        match &mut self.lock {
            Some(lock) if well => lock.forget(),
            // It has died, as it were: its log is to be read, and who finds it gone shall start it
            // again as it was.
            Some(lock) => lock.keep_log(),
            None => {}
        }
        self.lock = None;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Nobody has left it: the daemon has not started.
        if self.lock.is_some() {
            self.clean_up();
        }
    }
}
