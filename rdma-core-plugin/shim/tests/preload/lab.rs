//! An image of sysfs and devfs made by hand, and programs, mostly in C, that are run with the shim
//! over it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A runtime directory with an image.
pub(crate) struct Lab {
    directory: tempfile::TempDir,
}

/// The shared object that cargo built with this test.
pub(crate) fn shim() -> PathBuf {
    let mut directory = std::env::current_exe().unwrap();
    directory.pop();
    let beside = directory.join("libferroce_shim.so");
    if beside.exists() {
        beside
    } else {
        directory.with_file_name("libferroce_shim.so")
    }
}

impl Lab {
    /// An image of one device with two GIDs, the second of them empty.
    pub(crate) fn new() -> Lab {
        let lab = Lab {
            directory: tempfile::tempdir().unwrap(),
        };
        lab.file("sys/class/infiniband_verbs/abi_version", "6\n");
        lab.file("sys/class/infiniband_verbs/uverbs0/ibdev", "ferroce0\n");
        let port = "sys/class/infiniband/ferroce0/ports/1";
        lab.file(&format!("{port}/state"), "4: ACTIVE\n");
        lab.file(
            &format!("{port}/gids/0"),
            "0000:0000:0000:0000:0000:ffff:7f00:0001\n",
        );

        lab.file(
            &format!("{port}/gids/1"),
            "0000:0000:0000:0000:0000:0000:0000:0000\n",
        );

        lab.file(&format!("{port}/gid_attrs/types/0"), "RoCE v2\n");
        lab.file(&format!("{port}/gid_attrs/ndevs/0"), "lo\n");
        let device = lab.path().join("dev/infiniband");
        fs::create_dir_all(&device).unwrap();
        symlink("/dev/null", device.join("uverbs0")).unwrap();
        lab
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A program with the shim preloaded.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_PRELOAD", shim())
            .env("FERROCE_RUNTIME_DIR", self.path());
        command
    }

    /// Makes a shared library out of C.
    pub(crate) fn library(&self, soname: &str, text: &str, map: &str) -> PathBuf {
        self.library_with(soname, text, map, &[])
    }

    /// The same, with options for the compiler.
    pub(crate) fn library_with(
        &self,
        soname: &str,
        text: &str,
        map: &str,
        options: &[&str],
    ) -> PathBuf {
        let [source, versions, library] =
            ["library.c", "library.map", soname].map(|name| self.path().join(name));
        fs::write(&source, text).unwrap();
        fs::write(&versions, map).unwrap();
        let mut cc = Command::new("cc");
        cc.args(options);
        cc.args(["-shared", "-fPIC", "-o"])
            .args([&library, &source]);
        cc.arg(format!("-Wl,-soname,{soname}"));
        if !map.is_empty() {
            cc.arg(format!("-Wl,--version-script,{}", versions.display()));
        }
        succeeds(cc);
        library
    }

    /// Compiles and runs a C program whose `main` is `body`; it must print "done".
    pub(crate) fn c(&self, body: &str) -> Output {
        self.linked(body, &[])
    }

    /// The same, linked with libraries.
    pub(crate) fn linked(&self, body: &str, libraries: &[&Path]) -> Output {
        let program = self.compiled(body, libraries);
        Lab::run(self.command(&program))
    }

    /// The same without the shim, of which `SHIM` and `LAB` say where it and the image are.
    pub(crate) fn without(&self, body: &str, libraries: &[&Path]) -> Output {
        let mut command = Command::new(self.compiled(body, libraries));
        command.env("SHIM", shim()).env("LAB", self.path());
        command.env_remove("FERROCE_RUNTIME_DIR");
        Lab::run(command)
    }

    fn compiled(&self, body: &str, libraries: &[&Path]) -> PathBuf {
        let source = self.path().join("program.c");
        let program = self.path().join("program");
        fs::write(
            &source,
            format!("{HEAD}\nint main(void) {{\n{body}\nputs(\"done\");\nreturn 0;\n}}\n"),
        )
        .unwrap();

        let mut cc = Command::new("cc");
        cc.args(["-D_GNU_SOURCE", "-Wall", "-Werror", "-O2"]);
        cc.args(["-D_FORTIFY_SOURCE=2", "-o"])
            .args([&program, &source]);
        cc.args(libraries);
        cc.arg(format!("-Wl,-rpath,{}", self.path().display()));
        succeeds(cc);
        program
    }

    fn run(mut command: Command) -> Output {
        let out = command.output().unwrap();
        assert!(
            out.status.success() && out.stdout.ends_with(b"done\n") && out.stderr.is_empty(),
            "{}: {}{}",
            out.status,
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );

        out
    }
}

fn succeeds(mut command: Command) {
    let out = command.output().expect("a C compiler");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
}

const HEAD: &str = r#"
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(x) do { if (!(x)) { fprintf(stderr, "line %d: %s: %s\n", __LINE__, #x, strerror(errno)); exit(1); } } while (0)
#define IBDEV "/sys/class/infiniband_verbs/uverbs0/ibdev"
__attribute__((unused)) static void expect(int fd, const char *want) {
    char text[64] = "";
    CHECK(fd >= 0);
    CHECK(read(fd, text, sizeof text - 1) >= 0);
    CHECK(strcmp(text, want) == 0);
    CHECK(close(fd) == 0);
}
"#;
