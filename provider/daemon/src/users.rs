//! Who may use the device: its owner and root alone, or a group of users, or everybody. Who the
//! others are is asked of the kernel at each socket, and the file of the socket says it, too.
//!
//! What a user of the device may do is decided where it is asked for; here is only who he is.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;

use ferroce_control::seqpacket;
use rustix::fs::{Gid, Mode};
use rustix::io::Errno;

use crate::DaemonError;

/// What [`Users::named`] takes for all users of the machine.
pub(crate) const EVERYONE: &str = "everyone";

/// Who may use the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Users {
    /// The daemon's own user, and root.
    Own,
    /// These, and the members of a group.
    Group(u32),
    /// All users of the machine.
    Everyone,
}

/// Whose programs somebody is told of; by default everybody's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Whose(Option<u32>);

impl Whose {
    /// Everybody's.
    #[cfg(test)]
    pub(crate) const ALL: Whose = Whose(None);

    /// Whether those of this user are among them.
    pub(crate) fn include(self, uid: u32) -> bool {
        self.0.is_none_or(|own| own == uid)
    }

    /// Whether they are all users'.
    pub(crate) fn are_all(self) -> bool {
        self.0.is_none()
    }
}

impl Users {
    /// Those whom a setting names: a group, or `everyone`; nobody else without one.
    pub(crate) fn named(setting: Option<&str>) -> Result<Self, DaemonError> {
        match setting {
            None => Ok(Self::Own),
            Some(EVERYONE) => Ok(Self::Everyone),
            Some(name) => group(name).map(Self::Group),
        }
    }

    /// Whether there are several.
    pub(crate) fn are_several(self) -> bool {
        self != Self::Own
    }

    /// Whether this one of them administers the device. `root` and the daemon's user do.
    pub(crate) fn administers(uid: u32) -> bool {
        uid == 0 || uid == rustix::process::geteuid().as_raw()
    }

    /// Whose programs, and what these have, a user is told of: root and the daemon's user of all,
    /// others of their own.
    pub(crate) fn seen_by(uid: u32) -> Whose {
        Whose((!Self::administers(uid)).then_some(uid))
    }

    /// Whether who has connected is one of them.
    pub(crate) fn have(self, socket: &OwnedFd, uid: u32) -> bool {
        match self {
            _ if Self::administers(uid) => true,
            Self::Own => false,
            Self::Group(gid) => {
                seqpacket::peer_groups(socket).is_ok_and(|groups| groups.contains(&gid))
            }
            Self::Everyone => true,
        }
    }

    /// Lets them at a socket's file, which the daemon's user alone can open so far.
    pub(crate) fn let_at(self, path: &Path) -> Result<(), DaemonError> {
        let (group, mode) = match self {
            Self::Own => return Ok(()),
            Self::Group(gid) => (Some(Gid::from_raw(gid)), 0o660),
            Self::Everyone => (None, 0o666),
        };
        let changed = match group {
            Some(group) => rustix::fs::chown(path, None, Some(group)),
            None => Ok(()),
        };
        changed
            .and_then(|()| rustix::fs::chmod(path, Mode::from_raw_mode(mode)))
            .map_err(|errno| DaemonError::file(path)(errno.into()))
    }
}

/// The number of a group, by its name or itself a number.
fn group(name: &str) -> Result<u32, DaemonError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }

    let missing = || {
        DaemonError::Setting(format!(
            "there is no group `{name}`: make it (`groupadd --system {name}`), or name another; `{EVERYONE}` is all users"
        ))
    };
    let wanted = CString::new(name).map_err(|_| missing())?;
    let mut text = vec![0; 1 << 16];
    // SAFETY: all zeros is such a structure: pointers and numbers.
    let mut entry: libc::group = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();

    // SAFETY: a NUL-terminated name, and room for the entry and for as much text as is said.
    let failed = unsafe {
        libc::getgrnam_r(
            wanted.as_ptr(),
            &raw mut entry,
            text.as_mut_ptr(),
            text.len(),
            &raw mut found,
        )
    };

    match (failed, found.is_null()) {
        (0, false) => Ok(entry.gr_gid),
        (0, true) => Err(missing()),
        (errno, _) => Err(DaemonError::os(format!("looking for group `{name}`"))(
            Errno::from_raw_os_error(errno),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};

    #[test]
    fn groups_are_found_by_name_or_number() {
        assert_eq!(Users::named(None).unwrap(), Users::Own);
        assert_eq!(Users::named(Some("everyone")).unwrap(), Users::Everyone);
        assert_eq!(Users::named(Some("root")).unwrap(), Users::Group(0));
        assert_eq!(Users::named(Some("4711")).unwrap(), Users::Group(4711));
        for name in ["no-such-group", "no\0group", ""] {
            let error = Users::named(Some(name)).unwrap_err().to_string();
            assert!(error.contains("there is no group"), "{error}");
        }
    }

    #[test]
    fn a_user_is_told_of_his_own_programs_and_who_administers_of_all() {
        let own = rustix::process::geteuid().as_raw();
        let (user, other) = (own + 1, own + 2);
        assert!(Users::seen_by(user).include(user) && !Users::seen_by(user).include(other));
        assert!(!Users::seen_by(user).include(own) && !Users::seen_by(user).are_all());
        for administers in [0, own] {
            let all = Users::seen_by(administers);
            assert!(all.include(user) && all.include(other) && all.are_all());
        }
    }

    #[test]
    fn who_has_connected_is_known_by_his_groups() {
        let pair = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        );
        let (socket, _other) = pair.unwrap();
        let own = rustix::process::getegid().as_raw();
        let stranger = rustix::process::geteuid().as_raw() + 1;
        let absent = (1..).find(|gid| {
            let mine = rustix::process::getgroups().unwrap();
            *gid != own && !mine.iter().any(|group| group.as_raw() == *gid)
        });
        assert!(Users::Group(own).have(&socket, stranger));
        assert!(!Users::Group(absent.unwrap()).have(&socket, stranger));
        assert!(Users::Everyone.have(&socket, stranger) && !Users::Own.have(&socket, stranger));
        assert!(Users::Own.have(&socket, stranger - 1));
    }
}
