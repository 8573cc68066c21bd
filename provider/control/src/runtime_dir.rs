//! Where a daemon and its clients meet. This module decides the place and whether it may be
//! trusted; it never looks into what lies there.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::ControlError;

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
    /// `$XDG_RUNTIME_DIR/ferroce`, else `/run/ferroce` for root and `/tmp/ferroce-UID` for others.
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
            .or_else(|| {
                set("XDG_RUNTIME_DIR")
                    .filter(|p| p.is_absolute())
                    .map(|p| p.join("ferroce"))
            })
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

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The daemon's `SOCK_SEQPACKET` socket.
    pub fn socket(&self) -> PathBuf {
        self.path.join("ferroced.sock")
    }

    /// The connection manager's `SOCK_SEQPACKET` socket, to which the shim carries rdma_cm commands.
    pub fn rdma_cm(&self) -> PathBuf {
        self.path.join("rdma_cm.sock")
    }

    /// The umad server's `SOCK_SEQPACKET` socket, to which the shim carries what is done with umad files.
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

    /// Checks that the directory exists, is no symbolic link, and belongs to this user or to root.
    ///
    /// `/tmp` is anybody's: without this check another user could plant a directory there and be
    /// handed our processes.
    pub fn check(&self) -> Result<(), ControlError> {
        match fs::symlink_metadata(&self.path) {
            Ok(meta) => self.trusted(&meta),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(ControlError::NotRunning {
                socket: self.socket(),
            }),
            Err(e) => Err(self.refuse(e.to_string())),
        }
    }

    /// Creates the directory (mode 0700) if it is missing, and checks it as [`check`](Self::check)
    /// does if it is there. Access for group and others is taken away.
    pub fn prepare(&self) -> Result<(), ControlError> {
        if let Some(parent) = self.path.parent() {
            fs::create_dir_all(parent)
                .map_err(|e| self.refuse(format!("cannot create {}: {e}", parent.display())))?;
        }
        match DirBuilder::new().mode(0o700).create(&self.path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => {
                return Err(self.refuse(format!(
                    "cannot be created: {e}; choose another with --runtime-dir or \
                     $FERROCE_RUNTIME_DIR"
                )));
            }
        }
        let meta = fs::symlink_metadata(&self.path).map_err(|e| self.refuse(e.to_string()))?;
        self.trusted(&meta)?;
        if meta.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(&self.path, fs::Permissions::from_mode(0o700))
                .map_err(|e| self.refuse(format!("cannot be made private: {e}")))?;
        }
        Ok(())
    }

    fn trusted(&self, meta: &fs::Metadata) -> Result<(), ControlError> {
        let uid = rustix::process::geteuid().as_raw();
        if meta.file_type().is_symlink() {
            return Err(self.refuse("is a symbolic link; give the directory it points to".into()));
        }
        if !meta.is_dir() {
            return Err(self.refuse("is not a directory".into()));
        }
        if meta.uid() != uid && meta.uid() != 0 {
            return Err(self.refuse(format!(
                "belongs to user {}, not to user {uid}; choose another with --runtime-dir or \
                 $FERROCE_RUNTIME_DIR",
                meta.uid()
            )));
        }
        Ok(())
    }

    fn refuse(&self, reason: String) -> ControlError {
        ControlError::Directory {
            path: self.path.clone(),
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepare_makes_it_private_and_refuses_symlinks_and_files() {
        let temp = tempfile::tempdir().unwrap();
        let dir = RuntimeDir::resolve(Some(&temp.path().join("a/b")));
        assert!(matches!(dir.check(), Err(ControlError::NotRunning { .. })));
        dir.prepare().unwrap();
        dir.check().unwrap();
        assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o700);

        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        dir.prepare().unwrap();
        assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o700);

        let link = temp.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        let error = RuntimeDir::resolve(Some(&link)).prepare().unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        assert_eq!(error.errno(), 13);

        let file = temp.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(RuntimeDir::resolve(Some(&file)).prepare().is_err());
    }

    #[test]
    fn a_foreign_directory_is_refused() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can give a directory away");
            return;
        }
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("foreign");
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        let dir = RuntimeDir::resolve(Some(&path));
        assert!(
            dir.prepare()
                .unwrap_err()
                .to_string()
                .contains("belongs to user 12345")
        );
        assert!(dir.check().is_err());
    }
}
