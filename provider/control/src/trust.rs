//! Which places other users cannot tamper with. A path is walked from the root, one descriptor at a
//! time, and each directory and symbolic link on it is looked at through its descriptor: it must
//! belong to root or to this user, and nobody else may be able to rename what is in it. So what is
//! opened at the end is what was checked, and its name goes on meaning the same thing.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// The most symbolic links on a path, as the kernel has it.
const MAX_LINKS: usize = 40;

/// Why a place cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Distrust {
    /// Something on the way does not exist.
    #[error("{} does not exist", .0.display())]
    Missing(PathBuf),
    /// Somebody else could put something of his there.
    #[error(
        "{} {how}: choose another directory with --runtime-dir or $FERROCE_RUNTIME_DIR",
        .path.display()
    )]
    Foreign {
        /// What is not to be trusted.
        path: PathBuf,
        /// Why.
        how: String,
    },
    /// It is of the wrong kind, or a system call failed.
    #[error("{}: {why}", .path.display())]
    Unusable {
        /// What.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl Distrust {
    pub(crate) fn unusable(path: &Path, why: impl ToString) -> Self {
        Self::Unusable {
            path: path.to_path_buf(),
            why: why.to_string(),
        }
    }
}

/// Opens the directory in which an absolute path's last part is, and returns it with that part.
/// With `make`, directories that are missing are made.
pub(crate) fn open_parent(path: &Path, make: bool) -> Result<(OwnedFd, OsString), Distrust> {
    let mut parts: VecDeque<OsString> = parts(path).collect();
    let name = match (parts.pop_back(), path.file_name()) {
        (Some(last), Some(name)) if last == name => last,
        _ => return Err(Distrust::unusable(path, "must end in a directory's name")),
    };

    let mut walk = Walk::from_root()?;
    let mut links = 0;
    while let Some(part) = parts.pop_front() {
        match walk.step(&part, make)? {
            None => {}
            Some(_) if links == MAX_LINKS => return Err(Distrust::unusable(path, Errno::LOOP)),
            Some(target) => {
                links += 1;
                if target.is_absolute() {
                    walk = Walk::from_root()?;
                }
                for part in self::parts(&target).rev().collect::<Vec<_>>() {
                    parts.push_front(part);
                }
            }
        }
    }

    Ok((walk.at, name))
}

/// Makes a directory into which this user gets, whatever the umask; `false`: it is there. In the
/// parent nobody else can put another in its place.
pub(crate) fn make_directory(parent: &OwnedFd, name: &OsStr, mode: Mode) -> Result<bool, Errno> {
    match rustix::fs::mkdirat(parent, name, mode) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(false),
        Err(errno) => return Err(errno),
    }
    let made = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let made = Mode::from_raw_mode(made.st_mode);
    if !made.contains(Mode::RWXU) {
        rustix::fs::chmodat(parent, name, made | Mode::RWXU, AtFlags::empty())?;
    }
    Ok(true)
}

/// The parts of a path that lead somewhere.
fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    })
}

/// A place on the way.
struct Walk {
    at: OwnedFd,
    path: PathBuf,
    /// The owner of the root directory: root, except in a user namespace where root has no number
    /// of its own.
    root: u32,
}

impl Walk {
    fn from_root() -> Result<Self, Distrust> {
        let path = PathBuf::from("/");
        let failed = |errno: Errno| Distrust::unusable(Path::new("/"), errno);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let at = rustix::fs::openat(CWD, &path, flags, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&at).map_err(failed)?;
        let walk = Self {
            at,
            path,
            root: stat.st_uid,
        };
        walk.check_directory(&walk.path, &stat)?;
        Ok(walk)
    }

    /// Goes into a directory, or returns where a symbolic link leads.
    fn step(&mut self, part: &OsStr, make: bool) -> Result<Option<PathBuf>, Distrust> {
        let path = match part == ".." {
            true => self.path.parent().unwrap_or(Path::new("/")).to_path_buf(),
            false => self.path.join(part),
        };
        let failed = |errno: Errno| Distrust::unusable(&path, errno);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&self.at, part, flags, Mode::empty());
        let opened = match open() {
            Err(Errno::NOENT) if make => {
                make_directory(&self.at, part, Mode::from_raw_mode(0o755)).map_err(failed)?;
                open()
            }
            opened => opened,
        };

        let opened = match opened {
            Err(Errno::NOENT) => return Err(Distrust::Missing(path)),
            opened => opened.map_err(failed)?,
        };

        let stat = rustix::fs::fstat(&opened).map_err(failed)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                self.check_owner(&path, &stat)?;
                let target = rustix::fs::readlinkat(&opened, "", Vec::new()).map_err(failed)?;
                Ok(Some(OsString::from_vec(target.into_bytes()).into()))
            }
            FileType::Directory => {
                self.check_directory(&path, &stat)?;
                self.at = opened;
                self.path = path;
                Ok(None)
            }
            _ => Err(failed(Errno::NOTDIR)),
        }
    }

    fn check_directory(&self, path: &Path, stat: &Stat) -> Result<(), Distrust> {
        self.check_owner(path, stat)?;
        let sticky = stat.st_mode & 0o1000 != 0;
        match sticky {
            true => Ok(()),
            false => private(path, stat),
        }
    }

    fn check_owner(&self, path: &Path, stat: &Stat) -> Result<(), Distrust> {
        match stat.st_uid == self.root {
            true => Ok(()),
            false => owned(path, stat),
        }
    }
}

/// Whether something belongs to root or to this user.
pub(crate) fn owned(path: &Path, stat: &Stat) -> Result<(), Distrust> {
    let uid = rustix::process::geteuid().as_raw();
    match stat.st_uid {
        0 => Ok(()),
        owner if owner == uid => Ok(()),
        owner => Err(Distrust::Foreign {
            path: path.to_path_buf(),
            how: format!("belongs to user {owner}, not to user {uid} or root"),
        }),
    }
}

/// Whether nobody but its owner may write to something.
pub(crate) fn private(path: &Path, stat: &Stat) -> Result<(), Distrust> {
    match stat.st_mode & 0o022 {
        0 => Ok(()),
        _ => Err(Distrust::Foreign {
            path: path.to_path_buf(),
            how: "can be written by other users (`chmod go-w` takes that away)".into(),
        }),
    }
}

/// Whether that is what a directory has under a name.
pub(crate) fn is_there(directory: &OwnedFd, name: &OsStr, stat: &Stat) -> bool {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|there| (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn message(path: &Path) -> String {
        open_parent(path, false).unwrap_err().to_string()
    }

    #[test]
    fn what_others_can_change_is_refused_wherever_it_is_on_the_path() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a/b/c");
        assert!(matches!(
            open_parent(&path, false).unwrap_err(),
            Distrust::Missing(missing) if missing == temp.path().join("a")
        ));

        let (parent, name) = open_parent(&path, true).unwrap();
        assert_eq!(name, "c");
        let there = fs::metadata(temp.path().join("a/b")).unwrap();
        assert_eq!(
            rustix::fs::fstat(&parent).unwrap().st_ino,
            std::os::unix::fs::MetadataExt::ino(&there)
        );

        let a = temp.path().join("a");
        for mode in [0o777, 0o770, 0o757] {
            fs::set_permissions(&a, Permissions::from_mode(mode)).unwrap();
            assert!(
                message(&path).contains("written by other users"),
                "{mode:o}"
            );
        }

        fs::set_permissions(&a, Permissions::from_mode(0o1777)).unwrap();
        open_parent(&path, false).unwrap();
        assert!(message(Path::new("/")).contains("name"));
        assert!(message(Path::new("/tmp/..")).contains("name"));
    }

    #[test]
    fn symbolic_links_are_followed_if_their_owner_is_trusted() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("a/b")).unwrap();
        symlink("a/../a/b", temp.path().join("near")).unwrap();
        symlink(temp.path().join("near"), temp.path().join("far")).unwrap();
        open_parent(&temp.path().join("far/c"), false).unwrap();
        symlink("loop", temp.path().join("loop")).unwrap();
        assert!(message(&temp.path().join("loop/c")).contains("symbolic links"));
        fs::write(temp.path().join("file"), "").unwrap();
        assert!(message(&temp.path().join("file/c")).contains("Not a directory"));
    }

    #[test]
    fn root_does_not_go_by_what_belongs_to_a_user() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can give a directory away");
            return;
        }

        let temp = tempfile::tempdir().unwrap();
        let (home, link) = (temp.path().join("home"), temp.path().join("link"));
        fs::create_dir_all(home.join("inner")).unwrap();
        symlink("home", &link).unwrap();
        chown(&home, Some(12345), None).unwrap();

        // A directory of root's in a directory of a user's: the user can put another in its place.
        assert!(message(&home.join("inner/c")).contains("belongs to user 12345"));
        chown(&home, Some(0), None).unwrap();
        open_parent(&link.join("c"), false).unwrap();
        std::os::unix::fs::lchown(&link, Some(12345), None).unwrap();
        assert!(message(&link.join("c")).contains("belongs to user 12345"));
    }
}
