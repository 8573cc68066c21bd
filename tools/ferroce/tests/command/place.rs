//! Where the command is run: with programs, a runtime directory, settings and an address of its
//! own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

/// A directory laid out like cargo's, with a copy of the command in it, a runtime directory, and an
/// address that no other test has: they run side by side.
pub(crate) struct Place {
    pub temp: tempfile::TempDir,
    pub addr: String,
}

impl Place {
    /// `None` if the daemon has not been built.
    pub(crate) fn new() -> Option<Self> {
        let command = Path::new(env!("CARGO_BIN_EXE_ferroce"));
        let daemon = command.with_file_name("ferroced");
        if !daemon.is_file() {
            eprintln!("skipped: {} has not been built", daemon.display());
            return None;
        }

        let temp = tempfile::tempdir().unwrap();

        // By another process: a file that this one has open for writing is open in what other tests
        // start meanwhile, and cannot be run.
        let copied = Command::new("cp")
            .args([command, &daemon, temp.path()])
            .status()
            .unwrap();
        assert!(copied.success());
        static NEXT: AtomicU8 = AtomicU8::new(60);

        let addr = format!("127.0.7.{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let place = Self { temp, addr };

        // Not files that the dynamic linker would refuse aloud, but a library that it knows.
        for name in ["libferroce_shim.so", "libferroce_provider.so"] {
            fs::copy(libc(), place.temp.path().join(name)).unwrap();
        }
        Some(place)
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.temp.path().join("run")
    }

    pub(crate) fn ferroce(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.temp.path().join("ferroce"));
        command
            .args(arguments)
            .env("FERROCE_RUNTIME_DIR", self.dir())
            .env("XDG_CONFIG_HOME", self.temp.path().join("config"))
            .env_remove("LD_PRELOAD")
            .env_remove("RDMAV_DRIVERS")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.ferroce(arguments).output().unwrap()
    }

    /// Settings for daemons that are started on first use.
    pub(crate) fn configure(&self) {
        self.configure_at(&self.addr);
    }

    pub(crate) fn configure_at(&self, addr: &str) {
        let config = self.temp.path().join("config/ferroce");
        fs::create_dir_all(&config).unwrap();
        fs::write(
            config.join("ferroce.toml"),
            format!("addr = [\"{addr}\"]\n"),
        )
        .unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.ferroce(&["down"]).stderr(Stdio::null()).status();
    }
}

/// A shared library that any program here has loaded anyway.
fn libc() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut paths = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5));
    PathBuf::from(
        paths
            .find(|path| path.contains("/libgcc_s"))
            .expect("std needs libgcc_s"),
    )
}
