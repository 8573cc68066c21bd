//! Where the shared objects are that programs load, and the names under which they load them.
//!
//! The dynamic linker and libibverbs open them by name, later, in each process that inherits the
//! environment. So the names are those of the files themselves, where ferroce is installed or
//! built, and trusted as this program is. Only the driver of a build directory needs other names,
//! and of what came as a Python wheel, which can hold no links: libibverbs takes what RDMAV_DRIVERS
//! names and appends `-rdmavNN.so`, with the number of its private ABI, and the one provider serves
//! them all. For these, links are made in the runtime directory, in which nobody else can put
//! anything.

use std::env;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ferroce_cabi::pabi;
use ferroce_control::RuntimeDir;
use rustix::fs::AtFlags;
use rustix::io::Errno;

use crate::error::Error;

/// What goes into the environment of a program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Libraries {
    /// For LD_PRELOAD.
    pub shim: PathBuf,
    /// For RDMAV_DRIVERS: the path without `-rdmavNN.so`.
    pub driver: PathBuf,
}

/// What the shim is installed as.
pub(crate) const SHIM: &str = "libferroce-shim.so";
const SHIM_BUILT: &str = "libferroce_shim.so";
/// What the last part of the driver's path is in RDMAV_DRIVERS.
pub(crate) const DRIVER: &str = "libferroce";
/// The names that the shim has in LD_PRELOAD.
pub(crate) const PRELOADED: [&str; 2] = [SHIM, SHIM_BUILT];
/// Links to the directory itself in which an installation has the libraries for containers: what
/// glibc puts for `$LIB` on most distributions.
const CONTAINERS: [&str; 2] = ["lib", "lib64"];
const DRIVER_BUILT: &str = "libferroce_provider.so";
/// The provider's file, to which the driver's names are links where it is installed.
const DRIVER_FILE: &str = "libferroce-provider.so";

/// Finds them beside this program or in one of [`LIB`] of the prefix.
pub(crate) fn find(dir: &RuntimeDir) -> Result<Libraries, Error> {
    let exe = env::current_exe().map_err(Error::io("finding this program"))?;
    find_from(&exe, dir)
}

/// Whether [`find`] would find them, without making links: for who is about to start a daemon,
/// which would be there for nothing.
pub(crate) fn check(dir: &RuntimeDir) -> Result<(), Error> {
    let exe = env::current_exe().map_err(Error::io("finding this program"))?;
    check_from(&exe, dir)
}

/// Whether both are there, without making links; returns the shim's file.
pub(crate) fn look() -> Result<PathBuf, Error> {
    let exe = env::current_exe().map_err(Error::io("finding this program"))?;
    let (shim, _) = both(&exe)?;
    Ok(match shim {
        Found::Built(file, _) => file,
        Found::Proper(place) => place.join(SHIM),
    })
}

/// The directory where they are installed, all under their proper names; a build directory and a
/// wheel have none.
fn installed_from(exe: &Path) -> Result<PathBuf, Error> {
    match both(exe)? {
        (Found::Proper(shim), Found::Proper(driver)) if shim == driver => Ok(shim),
        (Found::Built(file, _), _) | (_, Found::Built(file, _)) => Err(Error::NotInstalled(file)),
        (Found::Proper(place), _) => Err(Error::NotInstalled(place)),
    }
}

/// That directory, if it has the links that containers need.
pub(crate) fn for_containers() -> Result<PathBuf, Error> {
    let exe = env::current_exe().map_err(Error::io("finding this program"))?;
    for_containers_from(&exe)
}

fn for_containers_from(exe: &Path) -> Result<PathBuf, Error> {
    let place = installed_from(exe)?;
    let mut links = CONTAINERS.iter().map(|link| place.join(link));
    match links.all(|link| link.join(SHIM).exists()) {
        true => Ok(place),
        false => Err(Error::NotInstalled(place)),
    }
}

/// An installed driver, as libibverbs is told of it, and all files that it is made of.
pub(crate) struct Driver {
    pub name: PathBuf,
    pub files: Vec<PathBuf>,
}

/// The driver without links that a runtime directory would have to hold.
pub(crate) fn driver() -> Result<Driver, Error> {
    let exe = env::current_exe().map_err(Error::io("finding this program"))?;
    let place = installed_from(&exe)?;
    let names = pabi::numbers().map(|number| place.join(pabi::driver_file(DRIVER, number)));
    Ok(Driver {
        files: names.chain([place.join(SHIM)]).collect(),
        name: place.join(DRIVER),
    })
}

fn find_from(exe: &Path, dir: &RuntimeDir) -> Result<Libraries, Error> {
    let (shim, driver) = both(exe)?;
    let shim = match shim {
        Found::Built(file, _) if !has_separator(&file) => file,
        found => found.place(dir)?.join(SHIM),
    };
    Ok(Libraries {
        shim,
        driver: driver.place(dir)?.join(DRIVER),
    })
}

fn check_from(exe: &Path, dir: &RuntimeDir) -> Result<(), Error> {
    let (shim, driver) = both(exe)?;
    if !matches!(&shim, Found::Built(file, _) if !has_separator(file)) {
        shim.named(dir)?;
    }
    driver.named(dir).map(drop)
}

/// Where a prefix has libraries: as `cargo xtask install` and wheels put them, as Debian does with
/// an architecture's, and as Fedora and others do with those of 64 bits.
const LIB: [&str; 3] = ["lib", MULTIARCH, "lib64"];
const MULTIARCH: &str = if cfg!(target_arch = "aarch64") {
    "lib/aarch64-linux-gnu"
} else {
    "lib/x86_64-linux-gnu"
};

/// The shim and the driver.
fn both(exe: &Path) -> Result<(Found, Found), Error> {
    let beside = exe.parent().unwrap_or(Path::new("/"));
    let prefix = beside.parent().unwrap_or(Path::new("/"));
    let mut places = vec![beside.to_path_buf()];
    places.extend(LIB.map(|lib| prefix.join(lib).join("ferroce")));

    let shim = find_one(&places, &[SHIM_BUILT], vec![SHIM.to_owned()])?;
    let drivers = pabi::numbers().map(|number| pabi::driver_file(DRIVER, number));
    let driver = find_one(&places, &[DRIVER_BUILT, DRIVER_FILE], drivers.collect())?;
    Ok((shim, driver))
}

/// Where something was found.
enum Found {
    /// Under its proper names in this directory.
    Proper(PathBuf),
    /// As this file, which needs links with these names.
    Built(PathBuf, Vec<String>),
}

/// `built`: the names of a file that has not its proper names, that of a build directory first.
fn find_one(places: &[PathBuf], built: &[&str], proper: Vec<String>) -> Result<Found, Error> {
    for place in places {
        let mut built = built.iter().map(|name| place.join(name));

        // In a build directory links of an earlier kind may lie about: what cargo made is newer.
        if let Some(file) = built.next().filter(|file| file.exists()) {
            return Ok(Found::Built(file, proper));
        }
        if proper.iter().all(|name| place.join(name).exists()) {
            return Ok(Found::Proper(place.clone()));
        }
        if let Some(file) = built.find(|file| file.exists()) {
            return Ok(Found::Built(file, proper));
        }
    }
    Err(Error::NoLibrary {
        name: proper.into_iter().next_back().unwrap_or_default(),
        looked: places.to_vec(),
    })
}

impl Found {
    /// The directory where it has its proper name, or gets it.
    fn named(&self, dir: &RuntimeDir) -> Result<PathBuf, Error> {
        let place = match self {
            Self::Proper(place) => place.clone(),
            Self::Built(..) => dir.lib(),
        };
        match has_separator(&place) {
            true => Err(Error::Separator(place)),
            false => Ok(place),
        }
    }

    /// That directory; links are made if need be.
    fn place(self, dir: &RuntimeDir) -> Result<PathBuf, Error> {
        let lib = self.named(dir)?;
        if let Self::Built(file, names) = self {
            // Held, so that a daemon that leaves meanwhile does not take the directory away.
            let premises = dir.prepare()?;
            let failed = |errno: Errno| Error::io(lib.display().to_string())(errno.into());
            let directory = premises.directory("lib", true).map_err(failed)?;
            for name in names {
                link(&directory, &name, &file).map_err(failed)?;
            }
        }
        Ok(lib)
    }
}

/// The dynamic linker and libibverbs split their lists at these, and know no quoting.
fn has_separator(path: &Path) -> bool {
    path.to_string_lossy().contains([' ', ':', ';'])
}

/// Makes or corrects a link; another `ferroce` may be doing the same.
fn link(lib: &OwnedFd, name: &str, target: &Path) -> Result<(), Errno> {
    let old = rustix::fs::readlinkat(lib, name, Vec::new());
    if old.is_ok_and(|old| old.as_bytes() == target.as_os_str().as_bytes()) {
        return Ok(());
    }
    let beside = format!(".{name}.{}", std::process::id());
    let _ = rustix::fs::unlinkat(lib, &beside, AtFlags::empty());
    rustix::fs::symlinkat(target, lib, &beside)?;
    rustix::fs::renameat(lib, &beside, lib, name)
}

/// Appends to a list in an environment variable unless it is there already.
pub(crate) fn appended(old: Option<OsString>, item: &Path, separators: &[char]) -> OsString {
    let Some(mut list) = old.filter(|old| !old.is_empty()) else {
        return item.as_os_str().to_owned();
    };
    let text = list.to_string_lossy();
    if text.split(separators).any(|part| Path::new(part) == item) {
        return list;
    }
    list.push(":");
    list.push(item);
    list
}

#[cfg(test)]
mod tests;
