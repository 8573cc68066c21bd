//! The image in a runtime directory: it is compared with what is there, so that only what changed
//! is written, and each file at once.
//!
//! Others have files in the directory too. What is ours is listed in a file, before it is made, so
//! that the daemon after one that died knows what to remove. Nothing else is removed or replaced,
//! and directories only when they are empty. They are opened one after the other, so that nothing
//! leads out of the runtime directory.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use ferroce_control::Premises;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::DaemonError;
use crate::sysfs::{Node, Tree, View, render};

/// The list of the image's files: a path in each line.
const LIST: &str = "ferroced.image";
/// What a file is called before it is at its place.
const NEW: &str = ".new-ferroced.image";

/// The image in a runtime directory.
#[derive(Debug)]
pub(crate) struct Image {
    root: OwnedFd,
    path: PathBuf,
    /// Whether all users may look at it.
    open: bool,
    /// What is there, and listed.
    written: Tree,
}

impl Image {
    /// An empty image, which all users of the machine may look at if it is `open`. What a daemon
    /// that died has left of its own is removed.
    pub(crate) fn create(premises: &Premises, open: bool) -> Result<Self, DaemonError> {
        let path = premises.path().to_path_buf();
        let root = premises.descriptor().try_clone_to_owned();
        let image = Self {
            root: root.map_err(DaemonError::file(&path))?,
            path,
            open,
            written: Tree::new(),
        };
        image.unlink(NEW)?;
        image.erase(&image.listed()?)?;
        image.unlink(LIST)?;
        Ok(image)
    }

    /// Makes the image show `view`.
    pub(crate) fn show(&mut self, view: &View<'_>) -> Result<(), DaemonError> {
        self.turn_into(render(view))
    }

    fn turn_into(&mut self, tree: Tree) -> Result<(), DaemonError> {
        let gone = self.written.keys().filter(|path| !tree.contains_key(*path));
        let gone: BTreeSet<PathBuf> = gone.cloned().collect();
        let new = tree.keys().filter(|path| !self.written.contains_key(*path));
        let new: Vec<&PathBuf> = new.collect();
        let mut walk = Walk::from(&self.root);
        for path in &new {
            if walk.has(path).map_err(self.failed(path))? {
                return Err(DaemonError::InTheWay {
                    path: self.path.join(path),
                });
            }
        }

        if !gone.is_empty() {
            self.erase(&gone)?;
            self.written.retain(|path, _| !gone.contains(path));
        }

        if !gone.is_empty() || !new.is_empty() {
            self.list(tree.keys())?;
        }

        let mut walk = Walk::from(&self.root);
        for (path, node) in tree {
            if self.written.get(&path) != Some(&node) {
                self.put(&mut walk, &path, &node)
                    .map_err(DaemonError::file(self.path.join(&path)))?;
                self.written.insert(path, node);
            }
        }

        Ok(())
    }

    /// What a file has now that somebody else may have written, at most a page of it.
    pub(crate) fn contents(&self, path: &Path) -> io::Result<Vec<u8>> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut walk = Walk::from(&self.root);
        let file = rustix::fs::openat(walk.parent(path, None)?, name, flags, Mode::empty())?;
        let mut bytes = Vec::new();
        File::from(file).take(4096).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// A file may have anything in it now: it is written anew the next time.
    pub(crate) fn forget(&mut self, path: &Path) {
        if let Some(node) = self.written.get_mut(path) {
            *node = Node::File(String::new());
        }
    }

    /// Removes it, with the directories of what could not be written.
    pub(crate) fn remove(&mut self) -> Result<(), DaemonError> {
        let mut ours = self.listed().unwrap_or_default();
        ours.extend(std::mem::take(&mut self.written).into_keys());
        self.erase(&ours)?;
        self.unlink(LIST)
    }

    fn failed(&self, path: &Path) -> impl FnOnce(Errno) -> DaemonError {
        let path = self.path.join(path);
        move |errno| DaemonError::file(path)(errno.into())
    }

    /// Writes beside the place and renames, so that a reader sees the old text or the new.
    fn put(&self, walk: &mut Walk<'_>, path: &Path, node: &Node) -> io::Result<()> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let modes = self.modes();
        self.put_in(walk.parent(path, Some(modes))?, name, node, modes)
    }

    fn modes(&self) -> Modes {
        match self.open {
            true => Modes::EVERYBODYS,
            false => Modes::OWN,
        }
    }

    fn put_in(&self, parent: &OwnedFd, name: &OsStr, node: &Node, modes: Modes) -> io::Result<()> {
        let put = self.make(node, modes).and_then(|()| {
            rustix::fs::renameat(&self.root, NEW, parent, name).map_err(io::Error::from)
        });
        if put.is_err() {
            let _ = rustix::fs::unlinkat(&self.root, NEW, AtFlags::empty());
        }
        put
    }

    fn make(&self, node: &Node, modes: Modes) -> io::Result<()> {
        match node {
            Node::File(text) | Node::Setting(text) => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let new = rustix::fs::openat(&self.root, NEW, flags, Mode::RUSR | Mode::WUSR)?;
                // Whatever the umask.
                let writable = matches!(node, Node::Setting(_));
                let own = if writable { Mode::WUSR } else { Mode::empty() };
                rustix::fs::fchmod(&new, modes.file | own)?;
                File::from(new).write_all(text.as_bytes())
            }
            Node::Link(target) => Ok(rustix::fs::symlinkat(target, &self.root, NEW)?),
        }
    }

    /// Writes down what is ours.
    fn list<'a>(&self, paths: impl Iterator<Item = &'a PathBuf>) -> Result<(), DaemonError> {
        let text: String = paths.map(|path| format!("{}\n", path.display())).collect();
        self.put_in(&self.root, LIST.as_ref(), &Node::File(text), Modes::OWN)
            .map_err(DaemonError::file(self.path.join(LIST)))
    }

    /// What a daemon has written down. What cannot be its own is passed over.
    fn listed(&self) -> Result<BTreeSet<PathBuf>, DaemonError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.root, LIST, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(BTreeSet::new()),
            Err(errno) => return Err(self.failed(LIST.as_ref())(errno)),
        };
        let mut text = Vec::new();
        // Far longer than any.
        file.take(1 << 24)
            .read_to_end(&mut text)
            .map_err(DaemonError::file(self.path.join(LIST)))?;
        let text = String::from_utf8_lossy(&text);
        let paths = text.lines().map(PathBuf::from);
        Ok(paths.filter(|path| is_of_image(path)).collect())
    }

    /// Removes files, and then the directories on the way to them that have nothing else in them.
    fn erase(&self, paths: &BTreeSet<PathBuf>) -> Result<(), DaemonError> {
        let mut walk = Walk::from(&self.root);
        let mut directories = BTreeSet::new();
        for path in paths {
            walk.unlink(path, AtFlags::empty())
                .map_err(self.failed(path))?;
            let above = path.ancestors().skip(1);
            directories.extend(above.filter(|above| !above.as_os_str().is_empty()));
        }
        // What is in a directory comes after it.
        for path in directories.into_iter().rev() {
            walk.unlink(path, AtFlags::REMOVEDIR)
                .map_err(self.failed(path))?;
        }
        Ok(())
    }

    fn unlink(&self, name: &str) -> Result<(), DaemonError> {
        match rustix::fs::unlinkat(&self.root, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.failed(name.as_ref())(errno)),
        }
    }
}

/// Who may do what with what is made.
#[derive(Clone, Copy)]
struct Modes {
    file: Mode,
    directory: Mode,
}

impl Modes {
    const OWN: Self = Self {
        file: Mode::from_raw_mode(0o400),
        directory: Mode::from_raw_mode(0o700),
    };
    const EVERYBODYS: Self = Self {
        file: Mode::from_raw_mode(0o444),
        directory: Mode::from_raw_mode(0o755),
    };
}

/// Whether a path is below one of the image's two directories.
fn is_of_image(path: &Path) -> bool {
    let mut parts = path.components();
    let first =
        matches!(parts.next(), Some(Component::Normal(first)) if first == "sys" || first == "dev");
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    first && parts.clone().next().is_some() && parts.all(plain)
}

/// Goes to directories below the root, by descriptors. Symbolic links lead nowhere.
struct Walk<'a> {
    root: &'a OwnedFd,
    /// Where it was last: what comes next is mostly in the same place.
    last: Option<(PathBuf, OwnedFd)>,
}

impl<'a> From<&'a OwnedFd> for Walk<'a> {
    fn from(root: &'a OwnedFd) -> Self {
        Self { root, last: None }
    }
}

impl Walk<'_> {
    /// Opens the directory that a path is in; with `make`, makes what is missing of it.
    fn parent(&mut self, path: &Path, make: Option<Modes>) -> Result<&OwnedFd, Errno> {
        let parent = path.parent().unwrap_or(Path::new(""));
        if parent.as_os_str().is_empty() {
            return Ok(self.root);
        }
        if self.last.as_ref().is_none_or(|(last, _)| last != parent) {
            let opened = open(self.root, parent, make)?;
            self.last = Some((parent.to_path_buf(), opened));
        }
        Ok(self.last.as_ref().map_or(self.root, |(_, opened)| opened))
    }

    /// Whether there is anything.
    fn has(&mut self, path: &Path) -> Result<bool, Errno> {
        let parent = match self.parent(path, None) {
            Err(Errno::NOENT) => return Ok(false),
            parent => parent?,
        };
        let name = path.file_name().ok_or(Errno::INVAL)?;
        match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Removes a file, or an empty directory. What is of another kind, and so not ours, stays.
    fn unlink(&mut self, path: &Path, flags: AtFlags) -> Result<(), Errno> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let parent = self.parent(path, None);
        match parent.and_then(|parent| rustix::fs::unlinkat(parent, name, flags)) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY) => Ok(()),
            other => other,
        }
    }
}

fn open(root: &OwnedFd, path: &Path, make: Option<Modes>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = None;
    for part in path.components() {
        let Component::Normal(part) = part else {
            return Err(Errno::INVAL);
        };
        let from = at.as_ref().unwrap_or(root).as_fd();
        let opened = match (rustix::fs::openat(from, part, flags, Mode::empty()), make) {
            (Err(Errno::NOENT), Some(modes)) => {
                rustix::fs::mkdirat(from, part, Mode::RWXU)?;
                let made = rustix::fs::openat(from, part, flags, Mode::empty())?;
                rustix::fs::fchmod(&made, modes.directory)?;
                made
            }
            (opened, _) => opened?,
        };
        at = Some(opened);
    }

    at.ok_or(Errno::INVAL)
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
