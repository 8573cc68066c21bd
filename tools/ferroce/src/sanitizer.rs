//! Sanitizers of gcc: their runtimes are shared libraries that have to come before all others, ours among them. A program built with
//! one names it among the libraries that it needs; clang's are part of the program.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use goblin::elf::Elf;

/// Names of the runtimes that want to be first, up to their version.
const RUNTIMES: [&str; 4] = ["libasan.so.", "libhwasan.so.", "liblsan.so.", "libtsan.so."];

/// The runtime that a program needs, by the name that the loader finds it by. Of what is no ELF file, a script say, nothing is known.
pub fn runtime(program: &OsStr) -> Option<String> {
    let bytes = fs::read(path_of(program)?).ok()?;
    let elf = Elf::parse(&bytes).ok()?;
    let needed = elf
        .libraries
        .iter()
        .find(|name| RUNTIMES.iter().any(|runtime| name.starts_with(runtime)))?;
    Some((*needed).to_owned())
}

/// Puts a runtime before what is preloaded already.
pub fn first(runtime: &str, preload: OsString) -> OsString {
    let named =
        |part: &[u8]| Path::new(OsStr::from_bytes(part)).file_name() == Some(runtime.as_ref());
    if preload
        .as_bytes()
        .split(|byte| matches!(byte, b':' | b' '))
        .any(named)
    {
        return preload;
    }
    let mut list = OsString::from(runtime);
    list.push(":");
    list.push(preload);
    list
}

/// ThreadSanitizer's options: it sees the threads and the memory of libraries that were not built with it, such as ours, and none of
/// their locks, so it is told to look at the program alone. What the user has set comes after, and so has the last word.
pub fn options(runtime: Option<&str>, set: Option<OsString>) -> Option<OsString> {
    if !runtime?.starts_with("libtsan") {
        return None;
    }
    let mut options = OsString::from("ignore_noninstrumented_modules=1");
    if let Some(set) = set {
        options.push(":");
        options.push(set);
    }
    Some(options)
}

/// Where `exec` finds a program.
fn path_of(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(program.into());
    }
    env::split_paths(&env::var_os("PATH")?)
        .map(|dir| dir.join(program))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_comes_first_and_once() {
        let list = first("libasan.so.8", "/a/shim.so".into());
        assert_eq!(list, "libasan.so.8:/a/shim.so");
        assert_eq!(first("libasan.so.8", list.clone()), list);
        let own = OsString::from("/usr/lib/libasan.so.8 /a/shim.so");
        assert_eq!(first("libasan.so.8", own.clone()), own);
    }

    #[test]
    fn thread_sanitizer_looks_at_the_program_alone() {
        let ours = "ignore_noninstrumented_modules=1";
        assert_eq!(options(Some("libtsan.so.2"), None), Some(ours.into()));
        let both = options(Some("libtsan.so.2"), Some("verbosity=1".into()));
        assert_eq!(both, Some(format!("{ours}:verbosity=1").into()));
        assert_eq!(options(Some("libasan.so.8"), None), None);
        assert_eq!(options(None, Some("verbosity=1".into())), None);
    }

    #[test]
    fn this_program_and_a_script_need_none() {
        let this = env::current_exe().unwrap();
        assert_eq!(runtime(this.as_os_str()), None);
        assert_eq!(
            runtime(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").as_ref()),
            None
        );
        assert_eq!(runtime("no such program".as_ref()), None);
    }
}
