//! Sanitizers that a program was built with. Their runtimes insist on coming before all other
//! libraries, ours among them: gcc's, and clang's with `-shared-libsan`, are shared libraries that
//! the program names among those that it needs; clang's are otherwise part of the program, which
//! exports their functions.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use goblin::elf::Elf;

use crate::program::Program;

/// Names of the runtimes that want to be first, up to their version or architecture.
const RUNTIMES: [&str; 7] = [
    "libasan.so.",
    "libhwasan.so.",
    "liblsan.so.",
    "libtsan.so.",
    "libclang_rt.asan",
    "libclang_rt.hwasan",
    "libclang_rt.tsan",
];
/// A function of ThreadSanitizer's runtime, whosever it is.
const THREADS: &str = "__tsan_init";

/// What a program needs for its sanitizer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sanitizer {
    /// The runtime that must come first, by the name that the loader finds it by.
    pub runtime: Option<String>,
    /// It is ThreadSanitizer.
    threads: bool,
}

/// What a program was built with. Of what is no ELF file, a script say, nothing is known.
pub(crate) fn of(program: Option<&Program>) -> Sanitizer {
    let elf = program.and_then(|program| Elf::parse(&program.bytes).ok());
    elf.map(|elf| named_in(&elf)).unwrap_or_default()
}

fn named_in(elf: &Elf<'_>) -> Sanitizer {
    let wants = |name: &&&str| RUNTIMES.iter().any(|runtime| name.starts_with(runtime));
    let runtime = elf
        .libraries
        .iter()
        .find(wants)
        .map(|name| (*name).to_owned());
    let mut symbols = elf.dynsyms.iter();
    let threads = symbols.any(|symbol| elf.dynstrtab.get_at(symbol.st_name) == Some(THREADS));
    Sanitizer { runtime, threads }
}

impl Sanitizer {
    /// ThreadSanitizer's options: it sees the threads and the memory of libraries that were not
    /// built with it, such as ours, and none of their locks, so it is told to look at the program
    /// alone. What the user has set comes after, and so has the last word.
    pub(crate) fn options(&self, set: Option<OsString>) -> Option<OsString> {
        if !self.threads {
            return None;
        }
        let mut options = OsString::from("ignore_noninstrumented_modules=1");
        if let Some(set) = set {
            options.push(":");
            options.push(set);
        }
        Some(options)
    }
}

/// Puts a runtime before what is preloaded already.
pub(crate) fn first(runtime: &str, preload: OsString) -> OsString {
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
        let threads = Sanitizer {
            runtime: None,
            threads: true,
        };
        assert_eq!(threads.options(None), Some(ours.into()));
        let both = threads.options(Some("verbosity=1".into()));
        assert_eq!(both, Some(format!("{ours}:verbosity=1").into()));
        assert_eq!(
            Sanitizer::default().options(Some("verbosity=1".into())),
            None
        );
    }

    #[test]
    fn this_program_and_a_script_need_none() {
        let this = std::env::current_exe().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        for name in [this.as_os_str(), script.as_ref()] {
            let program = Program::find(name).unwrap();
            assert_eq!(of(Some(&program)), Sanitizer::default());
        }
        assert_eq!(of(None), Sanitizer::default());
    }
}
