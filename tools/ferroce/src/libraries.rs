//! Where the shared objects are that programs load, and the names under which they load them.
//!
//! libibverbs takes the driver named in RDMAV_DRIVERS and appends `-rdmavNN.so`, with the number of its
//! private ABI; the one provider serves them all. Installed, the files have such names; as cargo builds
//! them they do not, so links are made in the runtime directory, and nowhere else.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ferroce_cabi::pabi;
use ferroce_control::RuntimeDir;

use crate::error::Error;

/// What goes into the environment of a program.
#[derive(Debug, PartialEq, Eq)]
pub struct Libraries {
    /// For LD_PRELOAD.
    pub shim: PathBuf,
    /// For RDMAV_DRIVERS: the path without `-rdmavNN.so`.
    pub driver: PathBuf,
}

const SHIM: &str = "libferroce-shim.so";
const SHIM_BUILT: &str = "libferroce_shim.so";
const DRIVER: &str = "libferroce";
const DRIVER_BUILT: &str = "libferroce_provider.so";

/// Finds them beside this program or in `../lib/ferroce`.
pub fn find(dir: &RuntimeDir) -> Result<Libraries, Error> {
    let exe = env::current_exe().map_err(Error::io("finding this program"))?;
    find_from(&exe, dir)
}

fn find_from(exe: &Path, dir: &RuntimeDir) -> Result<Libraries, Error> {
    let beside = exe.parent().unwrap_or(Path::new("/"));
    let mut places = vec![beside.to_path_buf()];
    places.extend(beside.parent().map(|prefix| prefix.join("lib/ferroce")));

    let shim = find_one(&places, SHIM_BUILT, vec![SHIM.to_owned()])?;
    let drivers = pabi::numbers().map(|number| pabi::driver_file(DRIVER, number));
    let driver = find_one(&places, DRIVER_BUILT, drivers.collect())?;
    Ok(Libraries {
        shim: shim.place(dir)?.join(SHIM),
        driver: driver.place(dir)?.join(DRIVER),
    })
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
                for name in names {
                    link(&lib, &name, &file).map_err(Error::io(format!(
                        "linking {} in {}",
                        file.display(),
                        lib.display()
                    )))?;
                }
                lib
            }
        };
        // The dynamic linker and libibverbs split their lists at these, and know no quoting.
        let text = place.to_string_lossy();
        if text.contains([' ', ':', ';']) {
            return Err(Error::Separator(place));
        }
        Ok(place)
    }
}

/// Makes or corrects a link; another `ferroce` may be doing the same.
fn link(lib: &Path, name: &str, target: &Path) -> io::Result<()> {
    let link = lib.join(name);
    if fs::read_link(&link).is_ok_and(|old| old == target) {
        return Ok(());
    }
    fs::create_dir_all(lib)?;
    let beside = lib.join(format!(".{name}.{}", std::process::id()));
    let _ = fs::remove_file(&beside);
    symlink(target, &beside)?;
    fs::rename(&beside, &link)
}

/// Appends to a list in an environment variable unless it is there already.
pub fn appended(old: Option<OsString>, item: &Path, separators: &[char]) -> OsString {
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
    fn a_build_directory_gets_links_in_the_runtime_directory() {
        let (temp, exe, dir) = fixture(&[
            "bin/ferroce",
            "bin/libferroce_shim.so",
            "bin/libferroce_provider.so",
            "bin/libferroce_provider.d",
        ]);
        for _ in 0..2 {
            let found = find_from(&exe, &dir).unwrap();
            assert_eq!(found.shim, dir.lib().join("libferroce-shim.so"));
            assert_eq!(found.driver, dir.lib().join("libferroce"));
        }
        for number in pabi::numbers() {
            let link = pabi::driver_file(&dir.lib().join("libferroce").to_string_lossy(), number);
            let target = fs::read_link(link).unwrap();
            assert_eq!(target, temp.path().join("bin/libferroce_provider.so"));
        }
        let links = 1 + pabi::numbers().count();
        assert_eq!(fs::read_dir(dir.lib()).unwrap().count(), links);
        assert_eq!(fs::read_dir(temp.path().join("bin")).unwrap().count(), 4);
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
