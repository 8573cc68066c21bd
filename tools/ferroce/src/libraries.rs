//! Where the shared objects are that programs load, and the names under which they load them.
//!
//! The dynamic linker and libibverbs open them by name, later, in each process that inherits the
//! environment. So the names are those of the files themselves, where ferroce is installed or
//! built, and trusted as this program is. Only the driver of a build directory needs other names:
//! libibverbs takes what RDMAV_DRIVERS names and appends `-rdmavNN.so`, with the number of its
//! private ABI, and the one provider serves them all. For these, links are made in the runtime
//! directory, in which nobody else can put anything.

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

const SHIM: &str = "libferroce-shim.so";
const SHIM_BUILT: &str = "libferroce_shim.so";
/// What the last part of the driver's path is in RDMAV_DRIVERS.
pub(crate) const DRIVER: &str = "libferroce";
/// The names that the shim has in LD_PRELOAD.
pub(crate) const PRELOADED: [&str; 2] = [SHIM, SHIM_BUILT];
const DRIVER_BUILT: &str = "libferroce_provider.so";

/// Finds them beside this program or in `../lib/ferroce`.
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

/// An installed driver, as libibverbs is told of it, and all files that it is made of.
pub(crate) struct Installed {
    pub name: PathBuf,
    pub files: Vec<PathBuf>,
}

/// The driver under its proper names beside the shim, without links that a runtime directory would
/// have to hold.
pub(crate) fn installed() -> Result<Installed, Error> {
    let exe = env::current_exe().map_err(Error::io("finding this program"))?;
    match both(&exe)? {
        (Found::Proper(shim), Found::Proper(place)) if shim == place => {
            let names = pabi::numbers().map(|number| place.join(pabi::driver_file(DRIVER, number)));
            Ok(Installed {
                files: names.chain([place.join(SHIM)]).collect(),
                name: place.join(DRIVER),
            })
        }
        _ => Err(Error::System(
            "this ferroce is a build directory's: install it where only root can write (`cargo xtask install --prefix /usr/local`), and \
             run that one"
                .to_owned(),
        )),
    }
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

/// The shim and the driver.
fn both(exe: &Path) -> Result<(Found, Found), Error> {
    let beside = exe.parent().unwrap_or(Path::new("/"));
    let mut places = vec![beside.to_path_buf()];
    places.extend(beside.parent().map(|prefix| prefix.join("lib/ferroce")));

    let shim = find_one(&places, SHIM_BUILT, vec![SHIM.to_owned()])?;
    let drivers = pabi::numbers().map(|number| pabi::driver_file(DRIVER, number));
    let driver = find_one(&places, DRIVER_BUILT, drivers.collect())?;
    Ok((shim, driver))
}

/// Where something was found.
enum Found {
    /// Under its proper names in this directory.
    Proper(PathBuf),
    /// As this file, which needs links with these names.
    Built(PathBuf, Vec<String>),
}

fn find_one(places: &[PathBuf], built: &str, proper: Vec<String>) -> Result<Found, Error> {
    for place in places {
        // In a build directory links of an earlier kind may lie about: what cargo made is newer.
        let file = place.join(built);
        if file.exists() {
            return Ok(Found::Built(file, proper));
        }
        if proper.iter().all(|name| place.join(name).exists()) {
            return Ok(Found::Proper(place.clone()));
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

        // One name short: a libibverbs would find no driver, so it is said at once.
        let last = temp.path().join(&names[names.len() - 1]);
        fs::remove_file(last).unwrap();
        assert!(find_from(&exe, &dir).is_err());
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
