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
    /// The directory where it has its proper name; links are made if need be.
    fn place(self, dir: &RuntimeDir) -> Result<PathBuf, Error> {
        let place = match self {
            Self::Proper(place) => place,
            Self::Built(file, names) => {
                let lib = dir.lib();
                // Held, so that a daemon that leaves meanwhile does not take the directory away.
                let premises = dir.prepare()?;
                let failed = |errno: Errno| Error::io(lib.display().to_string())(errno.into());
                let directory = premises.directory("lib", true).map_err(failed)?;
                for name in names {
                    link(&directory, &name, &file).map_err(failed)?;
                }
                lib
            }
        };

        match has_separator(&place) {
            true => Err(Error::Separator(place)),
            false => Ok(place),
        }
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
mod tests {
    use super::*;
    use std::fs;

    fn fixture(files: &[&str]) -> (tempfile::TempDir, PathBuf, RuntimeDir) {
        let temp = tempfile::tempdir().unwrap();
        for file in files {
            let path = temp.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let exe = temp.path().join("bin/ferroce");
        let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
        (temp, exe, dir)
    }

    #[test]
    fn an_installed_prefix_needs_no_links() {
        let names: Vec<_> = pabi::numbers()
            .map(|number| pabi::driver_file("lib/ferroce/libferroce", number))
            .collect();
        let mut files = vec!["bin/ferroce", "lib/ferroce/libferroce-shim.so"];
        files.extend(names.iter().map(String::as_str));
        let (temp, exe, dir) = fixture(&files);
        let found = find_from(&exe, &dir).unwrap();
        assert_eq!(
            found.shim,
            temp.path().join("lib/ferroce/libferroce-shim.so")
        );

        assert_eq!(found.driver, temp.path().join("lib/ferroce/libferroce"));
        assert!(!dir.path().exists());

        // One name short, and no file to give it: a libibverbs would find no driver, so it is said
        // at once.
        let last = temp.path().join(&names[names.len() - 1]);
        fs::remove_file(last).unwrap();
        assert!(find_from(&exe, &dir).is_err());
    }

    #[test]
    fn every_place_of_a_prefix_is_looked_at() {
        for lib in LIB {
            let place = |name: &str| format!("{lib}/ferroce/{name}");
            let (shim, driver) = (place(SHIM), place(DRIVER_FILE));
            let (temp, exe, dir) = fixture(&["bin/ferroce", &shim, &driver]);
            let found = find_from(&exe, &dir).unwrap();
            assert_eq!(found.shim, temp.path().join(shim));
            // Without links beside it, as from a wheel.
            assert_eq!(found.driver, dir.lib().join("libferroce"));
            for number in pabi::numbers() {
                let link = pabi::driver_file(&found.driver.to_string_lossy(), number);
                assert_eq!(fs::read_link(link).unwrap(), temp.path().join(&driver));
            }
        }
    }

    #[test]
    fn containers_get_what_is_installed_with_its_links() {
        let names: Vec<_> = pabi::numbers()
            .map(|number| pabi::driver_file("lib/ferroce/libferroce", number))
            .collect();
        let mut files = vec!["bin/ferroce", "lib/ferroce/libferroce-shim.so"];
        files.extend(names.iter().map(String::as_str));
        let (temp, exe, _) = fixture(&files);
        let place = temp.path().join("lib/ferroce");
        let error = for_containers_from(&exe).unwrap_err().to_string();
        assert!(error.contains("cargo xtask install"), "{error}");

        for link in CONTAINERS {
            std::os::unix::fs::symlink(".", place.join(link)).unwrap();
        }
        assert_eq!(for_containers_from(&exe).unwrap(), place);

        let (_temp, built, _) = fixture(&[
            "bin/ferroce",
            "bin/libferroce_shim.so",
            "bin/libferroce_provider.so",
        ]);
        let error = for_containers_from(&built).unwrap_err().to_string();
        assert!(error.contains("libferroce_shim.so"), "{error}");
    }

    #[test]
    fn the_driver_of_a_build_directory_gets_a_link_in_the_runtime_directory() {
        let (temp, exe, dir) = fixture(&[
            "bin/ferroce",
            "bin/libferroce_shim.so",
            "bin/libferroce_provider.so",
            "bin/libferroce_provider.d",
        ]);

        for _ in 0..2 {
            let found = find_from(&exe, &dir).unwrap();
            assert_eq!(found.shim, temp.path().join("bin/libferroce_shim.so"));
            assert_eq!(found.driver, dir.lib().join("libferroce"));
        }

        for number in pabi::numbers() {
            let link = pabi::driver_file(&dir.lib().join("libferroce").to_string_lossy(), number);
            let target = fs::read_link(link).unwrap();
            assert_eq!(target, temp.path().join("bin/libferroce_provider.so"));
        }

        let links = pabi::numbers().count();
        assert_eq!(fs::read_dir(dir.lib()).unwrap().count(), links);
        assert_eq!(fs::read_dir(temp.path().join("bin")).unwrap().count(), 4);
    }

    #[test]
    fn a_path_that_no_list_can_hold_is_reached_by_links() {
        let (temp, exe, dir) = fixture(&[
            "a b/ferroce",
            "a b/libferroce_shim.so",
            "a b/libferroce_provider.so",
        ]);
        let found = find_from(
            &temp.path().join("a b").join(exe.file_name().unwrap()),
            &dir,
        );
        assert_eq!(found.unwrap().shim, dir.lib().join("libferroce-shim.so"));
    }

    #[test]
    fn what_is_missing_is_named_with_where_it_was_looked_for() {
        let (temp, exe, dir) = fixture(&["bin/ferroce", "bin/libferroce_shim.so"]);
        let message = find_from(&exe, &dir).unwrap_err().to_string();
        assert!(message.contains("libferroce-rdmav"), "{message}");
        assert!(message.contains(&temp.path().join("lib/ferroce").display().to_string()));
    }

    #[test]
    fn lists_are_kept() {
        let item = Path::new("/x/libferroce-shim.so");
        let separators = [':', ' '];
        let after = |old: &str| appended(Some(old.into()), item, &separators);
        assert_eq!(appended(None, item, &separators), "/x/libferroce-shim.so");
        assert_eq!(after(""), "/x/libferroce-shim.so");
        assert_eq!(after("libasan.so"), "libasan.so:/x/libferroce-shim.so");
        assert_eq!(
            after("a.so /x/libferroce-shim.so"),
            "a.so /x/libferroce-shim.so"
        );
    }
}
