//! Where a daemon and its clients meet. This module decides the place and whether it may be
//! trusted; it never looks into what lies there.

use std::env;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use crate::premises::{self, Premises};
use crate::trust::{self, Distrust};
use crate::{ControlError, seqpacket};

/// The name of the daemon's socket.
pub(crate) const SOCKET: &str = "ferroced.sock";

/// The environment variable that names the runtime directory.
const VARIABLE: &str = "FERROCE_RUNTIME_DIR";

/// A runtime directory: one `ferroced`, its socket, and the images of `/sys` and `/dev` that the
/// shim shows to programs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RuntimeDir {
    path: PathBuf,
}

impl RuntimeDir {
    /// The directory to use: `explicit` if given, else `$FERROCE_RUNTIME_DIR`, else
    /// `$XDG_RUNTIME_DIR/ferroce` if that belongs to this user, else `/run/ferroce` for root and
    /// `/tmp/ferroce-UID` for others.
    ///
    /// Nothing is created or checked. Relative paths are taken from the working directory.
    pub fn resolve(explicit: Option<&Path>) -> Self {
        let set = |name: &str| {
            env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };

        let path = explicit
            .map(Path::to_path_buf)
            .or_else(|| set(VARIABLE))
            .or_else(|| own_runtime_dir().map(|p| p.join("ferroce")))
            .unwrap_or_else(|| {
                let uid = rustix::process::geteuid().as_raw();
                if uid == 0 {
                    PathBuf::from("/run/ferroce")
                } else {
                    PathBuf::from(format!("/tmp/ferroce-{uid}"))
                }
            });

        // Programs change their working directory, and the path is handed to children.
        let path = std::path::absolute(&path).unwrap_or(path);
        Self { path }
    }

    /// The directory of the device that a program sees which was not told of any other: as
    /// [`resolve`](Self::resolve) without `explicit`, but that of `SYSFS_PATH` comes before the
    /// user's own.
    pub fn of_programs() -> Self {
        match env::var_os(VARIABLE).is_none_or(|value| value.is_empty()) {
            true => Self::of_sysfs().unwrap_or_else(|| Self::resolve(None)),
            false => Self::resolve(None),
        }
    }

    /// The directory whose image of `/sys` is the one that `SYSFS_PATH` names, by which libibverbs
    /// finds the machine's own device; `None`: it is not set, or names something else.
    pub fn of_sysfs() -> Option<Self> {
        let sysfs = env::var_os("SYSFS_PATH").map(PathBuf::from)?;
        let path = (sysfs.is_absolute() && sysfs.ends_with("sys")).then(|| sysfs.parent())??;
        let ours = path.join(premises::MARKER).exists();
        ours.then(|| Self {
            path: path.to_path_buf(),
        })
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The daemon's `SOCK_SEQPACKET` socket.
    pub fn socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }

    /// The connection manager's `SOCK_SEQPACKET` socket, to which the shim carries rdma_cm
    /// commands.
    pub fn rdma_cm(&self) -> PathBuf {
        self.path.join("rdma_cm.sock")
    }

    /// The umad server's `SOCK_SEQPACKET` socket, to which the shim carries what is done with umad
    /// files.
    pub fn umad(&self) -> PathBuf {
        self.path.join("umad.sock")
    }

    /// The `SOCK_SEQPACKET` socket whose connections are programs' `NETLINK_RDMA` sockets.
    pub fn netlink(&self) -> PathBuf {
        self.path.join("netlink.sock")
    }

    /// The file that a running daemon holds locked.
    pub fn lock(&self) -> PathBuf {
        self.path.join("ferroced.lock")
    }

    /// The log of a daemon that runs in the background.
    pub fn log(&self) -> PathBuf {
        self.path.join("ferroced.log")
    }

    /// The image of `/sys`.
    pub fn sysfs(&self) -> PathBuf {
        self.path.join("sys")
    }

    /// The image of `/dev`.
    pub fn dev(&self) -> PathBuf {
        self.path.join("dev")
    }

    /// Where the command puts links to shared objects under the names that libibverbs wants.
    pub fn lib(&self) -> PathBuf {
        self.path.join("lib")
    }

    /// What says how a device was configured: a daemon that has died is started again with it.
    pub fn settings(&self) -> PathBuf {
        self.path.join("ferroced.toml")
    }

    /// Uses the directory, from which everything in it can be removed that is ferroce's: makes it
    /// (mode 0700), or takes one that is ferroce's or empty, without changing anything about it.
    ///
    /// Refuses what other users could change: the directory and all above it must belong to root or
    /// to this user, and nobody else may be able to rename what is in them. Refuses a symbolic
    /// link, and a directory with somebody's files.
    pub fn prepare(&self) -> Result<Premises, ControlError> {
        Premises::take(&self.path).map_err(|why| self.refuse(why))
    }

    /// Connects to a socket of the directory. What is at the other end belongs to this user or to
    /// root: the directory is checked as in [`prepare`](Self::prepare), and so is who answers.
    pub fn connect(&self, socket: &str) -> Result<OwnedFd, ControlError> {
        let not_running = || ControlError::NotRunning {
            socket: self.path.join(socket),
        };
        let directory = trust::open_parent(&self.path, false)
            .and_then(|(parent, name)| {
                premises::open_directory(&parent, &name, &self.path, OFlags::PATH)
            })
            .map_err(|why| self.refuse(why))?;

        let connected = match seqpacket::connect_in(&directory, &self.path, socket) {
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR) => return Err(not_running()),
            Err(Errno::ACCESS) => return Err(self.not_for_us(&directory, socket)),
            connected => connected.map_err(ControlError::io("connecting to ferroced"))?,
        };
        let peer = seqpacket::peer(&connected).map_err(ControlError::io("asking who answers"))?;
        let uid = rustix::process::geteuid().as_raw();
        match peer.uid == 0 || peer.uid == uid {
            true => Ok(connected),
            false => Err(ControlError::Directory {
                path: self.path.clone(),
                reason: format!(
                    "a process of user {} answers there, not one of user {uid} or root",
                    peer.uid
                ),
            }),
        }
    }

    /// The device is for others.
    fn not_for_us(&self, directory: &OwnedFd, socket: &str) -> ControlError {
        let file = rustix::fs::statat(directory, socket, AtFlags::SYMLINK_NOFOLLOW);
        let reason = match file {
            Ok(file) if file.st_mode & 0o020 != 0 => {
                let group = group_name(file.st_gid);
                format!(
                    "Permission denied: the device is for members of group {group}, and you are not one (`usermod --append \
                     --groups {group} NAME` as root makes NAME one, who then logs in again; `id` shows one's groups)"
                )
            }
            _ => "Permission denied: the device is for its owner".to_owned(),
        };
        ControlError::Directory {
            path: self.path.clone(),
            reason,
        }
    }

    fn refuse(&self, why: Distrust) -> ControlError {
        let reason = match why {
            Distrust::Missing(_) => {
                return ControlError::NotRunning {
                    socket: self.socket(),
                };
            }
            Distrust::Foreign { path, how } if path == self.path => {
                format!("{how}: choose another with --runtime-dir or $FERROCE_RUNTIME_DIR")
            }
            Distrust::Unusable { path, why } if path == self.path => why,
            other => other.to_string(),
        };

        ControlError::Directory {
            path: self.path.clone(),
            reason,
        }
    }
}

/// The name of a group as `/etc/group` has it, or else its number.
fn group_name(gid: u32) -> String {
    let number = gid.to_string();
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let mut entries = groups.lines().map(|line| line.split(':'));
    let name = entries.find_map(|mut entry| {
        let name = entry.next()?;
        (entry.nth(1)? == number).then(|| name.to_owned())
    });
    name.unwrap_or(number)
}

/// A directory that the environment names for this user, as it is said to be: it is no other
/// user's, as it is after `su` or `sudo -E`.
fn own_runtime_dir() -> Option<PathBuf> {
    let path = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)?;
    let uid = rustix::process::geteuid().as_raw();
    let own = fs::metadata(&path).is_ok_and(|meta| meta.uid() == uid);
    (path.is_absolute() && own).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_not_there_is_not_running_and_what_is_not_ours_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::resolve(Some(&temp.path().join("a/b")));
        let error = dir.connect(SOCKET).unwrap_err();
        assert!(matches!(error, ControlError::NotRunning { .. }), "{error}");
        let premises = dir.prepare().unwrap();
        let error = dir.connect(SOCKET).unwrap_err();
        assert!(matches!(error, ControlError::NotRunning { .. }), "{error}");
        let _listener = seqpacket::listen(&dir.socket(), 1).unwrap();
        dir.connect(SOCKET).unwrap();

        let link = temp.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();

        for refused in [
            RuntimeDir::resolve(Some(&link)).prepare().map(drop),
            RuntimeDir::resolve(Some(&link)).connect(SOCKET).map(drop),
        ] {
            let error = refused.unwrap_err();
            assert!(error.to_string().contains("symbolic link"), "{error}");
            assert_eq!(error.errno(), 13);
        }

        let file = temp.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(RuntimeDir::resolve(Some(&file)).prepare().is_err());

        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o770)).unwrap();
        let error = dir.connect(SOCKET).unwrap_err();
        assert!(error.to_string().contains("other users"), "{error}");
        drop(premises);
    }

    #[test]
    fn a_foreign_directory_is_refused_and_so_is_who_answers() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can give a directory away");
            return;
        }
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("foreign");
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        let dir = RuntimeDir::resolve(Some(&path));
        for refused in [dir.prepare().map(drop), dir.connect(SOCKET).map(drop)] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("belongs to user 12345"), "{error}");
        }
    }
}
