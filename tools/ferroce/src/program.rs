//! The program that is to be run, as its file shows it; and whether the dynamic linker will load
//! the shim into it. Linux and glibc leave `LD_PRELOAD` out of account for programs that get other
//! rights than who starts them has (`AT_SECURE`).

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use goblin::elf::Elf;
use goblin::elf::header::{ET_DYN, ET_EXEC};
use rustix::fs::{OFlags, StatVfsMountFlags};

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP_EXECUTES: u32 = 0o010;
/// Where a file's capabilities are.
const CAPABILITIES: &str = "security.capability";
/// Of the longest `struct vfs_ns_cap_data`.
const CAPABILITIES_LEN: usize = 24;

/// A program's file and what is in it.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    file: File,
    pub(crate) bytes: Vec<u8>,
}

/// Why a program sees no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blind {
    Static,
    /// Its owner, who is another user.
    SetUid(u32),
    /// Its group, which is another one.
    SetGid(u32),
    Capabilities,
}

/// Who starts a program, as far as that decides what it may.
#[derive(Clone, Copy, Debug)]
struct Starter {
    uid: u32,
    gid: u32,
    /// `PR_SET_NO_NEW_PRIVS`: setuid and setgid mean nothing.
    no_new_privileges: bool,
}

impl Program {
    /// Finds and reads it as `exec` will; `None`: it cannot be read, which need not keep it from
    /// being executed.
    pub(crate) fn find(name: &OsStr) -> Option<Self> {
        let path = path_of(name)?;
        // Who opens a FIFO would wait for its other end.
        let mut file = File::options()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(&path)
            .ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        Some(Self { path, file, bytes })
    }

    /// Why the shim will not be loaded into it. Of what is no ELF file, a script say, nothing is
    /// known: who reads it may be anything.
    pub(crate) fn blind(&self) -> Option<Blind> {
        let elf = Elf::parse(&self.bytes).ok()?;
        if is_static(&elf) {
            return Some(Blind::Static);
        }

        let mount = rustix::fs::fstatvfs(&self.file).ok();
        if mount.is_some_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOSUID)) {
            return None;
        }
        let starter = Starter::this();
        let capabilities = || has_capabilities(&self.file) && starter.uid != 0;
        starter
            .changed_by(&self.file.metadata().ok()?)
            .or_else(|| capabilities().then_some(Blind::Capabilities))
    }

    /// That in words, with what to do.
    pub(crate) fn warning(&self) -> Option<String> {
        let why = self.blind()?;
        Some(format!("{} {why}", self.path.display()))
    }
}

impl fmt::Display for Blind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const IGNORED: &str = "the dynamic linker ignores LD_PRELOAD for it, and it will see no \
                               device of ferroce's";

        match self {
            Self::Static => f.write_str(
                "is statically linked: LD_PRELOAD means nothing to it, and it will see no device \
                 of ferroce's; link it dynamically",
            ),
            Self::SetUid(uid) => write!(
                f,
                "is setuid to user {uid}: {IGNORED}; run a copy without that bit, or `ferroce run` \
                 as that user"
            ),
            Self::SetGid(gid) => write!(
                f,
                "is setgid to group {gid}: {IGNORED}; run a copy without that bit, or `ferroce \
                 run` with that group (`sg`)"
            ),
            Self::Capabilities => write!(
                f,
                "has file capabilities: {IGNORED}; run a copy, which has none, with the \
                 capabilities that it needs made ambient (`setpriv --ambient-caps`)"
            ),
        }
    }
}

impl Starter {
    fn this() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mut lines = status.lines();
        Self {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            no_new_privileges: lines.any(|line| line == "NoNewPrivs:\t1"),
        }
    }

    /// Whether a file's mode gives the program another user or group.
    fn changed_by(&self, file: &Metadata) -> Option<Blind> {
        self.changed(file.mode(), file.uid(), file.gid())
    }

    fn changed(&self, mode: u32, uid: u32, gid: u32) -> Option<Blind> {
        // Without leave to execute for the group the bit has another meaning.
        let group = SET_GID | GROUP_EXECUTES;
        if self.no_new_privileges {
            None
        } else if mode & SET_UID != 0 && uid != self.uid {
            Some(Blind::SetUid(uid))
        } else if mode & group == group && gid != self.gid {
            Some(Blind::SetGid(gid))
        } else {
            None
        }
    }
}

/// It names no dynamic linker, and is none itself: that has a name for others to need it by, and
/// can be run with a program as its argument.
fn is_static(elf: &Elf<'_>) -> bool {
    let executable = matches!(elf.header.e_type, ET_EXEC | ET_DYN);
    executable && elf.interpreter.is_none() && elf.soname.is_none()
}

/// Whether a program gets capabilities by its file: any at all, or those that it is left, at once.
fn has_capabilities(file: &File) -> bool {
    let mut value = [0; CAPABILITIES_LEN];
    let read = rustix::fs::fgetxattr(file, CAPABILITIES, &mut value);
    read.is_ok_and(|len| gives_capabilities(&value[..len]))
}

/// `struct vfs_cap_data`, of whatever revision: a word of flags, the lowest of which is
/// "effective", then permitted and inheritable capabilities, 32 of each at a time.
fn gives_capabilities(value: &[u8]) -> bool {
    let word = |i: usize| {
        let bytes = value.get(4 * i..4 * i + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let flags = word(0).unwrap_or(0);
    flags & 1 != 0
        || [1, 3]
            .into_iter()
            .any(|i| word(i).is_some_and(|set| set != 0))
}

/// Where `exec` finds a program.
fn path_of(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(program.into());
    }
    env::split_paths(&env::var_os("PATH")?)
        .map(|dir| dir.join(program))
        .find(|path: &PathBuf| Path::is_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_another_user_or_group_is_told() {
        let user = Starter {
            uid: 1000,
            gid: 100,
            no_new_privileges: false,
        };
        assert_eq!(user.changed(0o755, 0, 0), None);
        assert_eq!(user.changed(0o4755, 0, 0), Some(Blind::SetUid(0)));
        assert_eq!(user.changed(0o4755, 1000, 0), None);
        assert_eq!(user.changed(0o2755, 0, 7), Some(Blind::SetGid(7)));
        assert_eq!(user.changed(0o2755, 0, 100), None);
        assert_eq!(user.changed(0o2745, 0, 7), None);
        let bound = Starter {
            no_new_privileges: true,
            ..user
        };
        assert_eq!(bound.changed(0o6755, 0, 0), None);
    }

    #[test]
    fn capabilities_count_if_there_are_any() {
        let value = |flags: u32, permitted: u32, inheritable: u32| {
            let words = [0x0200_0000 | flags, permitted, inheritable, 0, 0];
            words.map(u32::to_le_bytes).concat()
        };
        assert!(gives_capabilities(&value(1, 0x2000, 0)));
        assert!(gives_capabilities(&value(0, 0x2000, 0)));
        assert!(gives_capabilities(&value(1, 0, 0)));
        assert!(!gives_capabilities(&value(0, 0, 0x2000)));
        assert!(!gives_capabilities(b""));
    }

    #[test]
    fn this_program_and_a_script_are_nothing_special() {
        let this = env::current_exe().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        for name in [this.as_os_str(), script.as_ref()] {
            assert_eq!(Program::find(name).unwrap().blind(), None);
        }
        assert!(Program::find("no such program".as_ref()).is_none());
    }

    #[test]
    fn nobody_waits_at_a_fifo() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        assert!(Program::find(path.as_os_str()).is_none());
    }
}
