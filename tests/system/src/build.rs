//! Builds the product, in release mode as a rule, and says where the results are.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Once, OnceLock};

use anyhow::{Context, Result, bail};

use crate::packages::{self, which};

/// The packages whose results make up the product: first those that a program needs to see a
/// device, which take the least time to build.
pub const PRODUCT: [&str; 6] = [
    "ferroce",
    "ferroced",
    "ferroce-provider",
    "ferroce-shim",
    "ferroce-ibta",
    "ferroce-k8s-device-plugin",
];
/// How many of them these are.
const DEVICE: usize = 4;

/// All that is installed. They are asked of cargo together: the features of what they all depend on
/// follow from what is built at once, and each other choice would build most of it again.
pub(crate) const ALL: [&str; PRODUCT.len() + 2] = {
    let [ferroce, daemon, provider, shim, ibta, plugin] = PRODUCT;
    let [exs, direct] = [EXS.package, DIRECT.package];
    [ferroce, daemon, provider, shim, ibta, plugin, exs, direct]
};

/// The profile of `cargo test`.
pub(crate) const TESTED: &str = "unit";

/// The shared objects: as cargo names them, and under their final names. The provider has more
/// names, one for each version of libibverbs' private interface (`ferroce_cabi::pabi`).
pub const LIBRARIES: &[(&str, &str)] = &[
    ("libferroce_provider.so", DRIVER),
    ("libferroce_shim.so", "libferroce-shim.so"),
];

/// The provider, installed.
pub const DRIVER: &str = "libferroce-provider.so";

/// The programs.
pub const PROGRAMS: &[&str] = &[
    "ferroce",
    "ferroced",
    "ferroce-ibta",
    "ferroce-k8s-device-plugin",
];

/// Where cargo puts release builds: this very program is one.
pub fn release_dir() -> Result<PathBuf> {
    let exe = env::current_exe().context("the path of this program")?;
    Ok(exe
        .parent()
        .context("this program has no directory")?
        .to_path_buf())
}

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    const MANIFEST: &str = env!("CARGO_MANIFEST_DIR");
    Path::new(MANIFEST)
        .ancestors()
        .nth(2)
        .unwrap_or(Path::new("."))
}

/// `cargo`, as the one that started us.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    command
}

/// Has cargo fetch all dependencies now, if it has not yet, for builds where there is no network.
/// One that misses something then says so itself.
pub fn fetch() {
    static ONCE: Once = Once::new();

    ONCE.call_once(|| {
        let mut command = cargo();
        command.args(["fetch", "--locked", "--quiet"]);
        let _ = command.stderr(Stdio::null()).status();
    });
}

/// Builds the product and answers the directory that holds it. That may take minutes, in which
/// cargo shows how far it is. What it is built with is installed before, on Debian; elsewhere the
/// build says what is missing by its names there.
pub fn product() -> Result<PathBuf> {
    if which("apt-get").is_some() {
        packages::ensure(packages::BUILD)?;
    }

    built(&ALL, &[])
}

/// Builds what of it a program needs to see a device, likewise: all of it where all of it has been
/// built before.
pub fn device() -> Result<PathBuf> {
    let last = PRODUCT[PRODUCT.len() - 1];
    match release_dir()?.join(last).exists() {
        true => product(),
        false => built(&PRODUCT[..DEVICE], &[]),
    }
}

/// Builds some packages and answers the directory that holds the results.
pub fn packages(names: &[&str]) -> Result<PathBuf> {
    built(names, &["--quiet"])
}

/// Builds an example of a package, in the way of the group `unit`, whose build has all examples,
/// and answers where it is.
pub(crate) fn example(package: &str, name: &str) -> Result<PathBuf> {
    println!("xtask: building the example {name} of {package}");
    let mut command = cargo();
    command.args(["build", "--locked", "--quiet", "--profile", TESTED]);
    command.args(["--workspace", "--example", name]);
    succeeds(command)?;

    let target = release_dir()?;
    let target = target.parent().context("no target directory")?;
    Ok(target.join(TESTED).join("examples").join(name))
}

fn built(names: &[&str], options: &[&str]) -> Result<PathBuf> {
    let dir = release_dir()?;

    // In the mode that this program was built in: `cargo run --profile unit -p xtask` tries the
    // product with all checks.
    let profile = match dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => "release",
    };
    println!("xtask: building in {profile} mode: {}", names.join(" "));
    let mut command = cargo();
    command.args(["build", "--locked", "--profile", profile]);
    command.args(options);
    for name in names {
        command.args(["--package", name]);
    }
    succeeds(command)?;

    Ok(dir)
}

fn succeeds(mut command: Command) -> Result<()> {
    let status = command.status().context("cargo build")?;
    if !status.success() {
        bail!("cargo build failed: {status}");
    }

    Ok(())
}

/// A library of ours that programs are linked with: cargo makes an archive, as its own shared
/// objects have neither a soname nor symbol versions, and the library is linked of that.
#[derive(Debug)]
pub(crate) struct Linked {
    /// The package.
    pub package: &'static str,
    /// The archive that cargo makes of it.
    pub archive: &'static str,
    /// Its name at run time, and as it is linked with.
    pub soname: &'static str,
    pub name: &'static str,
    /// The versions of its symbols, in the workspace.
    map: &'static str,
    /// What of rdma-core it is linked with, as the compiler is told it.
    needs: &'static [&'static str],
}

/// The Extended Sockets library.
pub(crate) const EXS: Linked = Linked {
    package: "ferroce-exs",
    archive: "libexs.a",
    soname: EXS_SONAME,
    name: "libexs.so",
    map: "exs/libexs.map",
    needs: &["-lrdmacm", "-libverbs"],
};
/// What programs are linked against.
pub const EXS_SONAME: &str = "libexs.so.1";

/// What programs under test ask of a device beyond verbs.
pub(crate) const DIRECT: Linked = Linked {
    package: "ferroce-dv",
    archive: "libferroce.a",
    soname: "libferroce.so.1",
    name: "libferroce.so",
    map: "rdma-core-plugin/direct/libferroce.map",
    needs: &[],
};

/// Builds libexs and answers the directory that holds `libexs.so` and `libexs.so.1`.
pub fn exs() -> Result<PathBuf> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    EXS.built(&BUILT)
}

/// Builds libferroce and answers the directory that holds `libferroce.so` and `libferroce.so.1`.
pub fn direct() -> Result<PathBuf> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    DIRECT.built(&BUILT)
}

impl Linked {
    fn built(&self, once: &OnceLock<PathBuf>) -> Result<PathBuf> {
        if let Some(dir) = once.get() {
            return Ok(dir.clone());
        }
        let dir = self.build()?;
        Ok(once.get_or_init(|| dir).clone())
    }

    fn build(&self) -> Result<PathBuf> {
        let dir = built(&ALL, &["--quiet"])?;
        let archive = dir.join(self.archive);
        let library = dir.join(self.soname);
        let map = workspace().join(self.map);
        let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
        let newest = modified(&archive)?.max(modified(&map)?);
        if modified(&library).is_ok_and(|built| built > newest) {
            return Ok(dir);
        }

        // Under another name first: cases run beside each other, and one of them may be using it.
        let soname = self.soname;
        let unfinished = dir.join(format!("{soname}.{}", std::process::id()));
        let mut command = Command::new("cc");
        command
            .args(self.link(&archive, &unfinished))
            .args(self.needs)
            .args(["-lpthread", "-ldl", "-lm"]);

        let output = command.output().context("cc")?;
        if !output.status.success() {
            bail!(
                "linking {soname}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }

        let moved = |from: &Path, to: &Path| {
            fs::rename(from, to).with_context(|| format!("{}", to.display()))
        };
        moved(&unfinished, &library)?;
        std::os::unix::fs::symlink(soname, &unfinished)
            .with_context(|| format!("{}", unfinished.display()))?;
        moved(&unfinished, &dir.join(self.name))?;
        Ok(dir)
    }

    /// How a C compiler links it, but for the libraries that it needs.
    pub(crate) fn link(&self, archive: &Path, library: &Path) -> Vec<OsString> {
        let map = workspace().join(self.map);
        let mut words: Vec<OsString> = ["-shared", "-Wl,--gc-sections", "-Wl,--no-undefined"]
            .map(OsString::from)
            .into();
        words.push("-Wl,--build-id=sha1".into());
        words.push(format!("-Wl,-soname,{}", self.soname).into());
        words.push(format!("-Wl,--version-script={}", map.display()).into());
        words.extend(["-o".into(), library.into()]);
        words.extend(["-Wl,--whole-archive".into(), archive.into()]);
        words.push("-Wl,--no-whole-archive".into());
        words
    }
}

/// The user's directory for what is worth keeping between checkouts.
pub fn cache() -> Result<PathBuf> {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
    let user = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let user = user.filter(|dir| dir.is_absolute()).or_else(home);
    let dir = user
        .context("neither XDG_CACHE_HOME nor HOME")?
        .join("ferroce");
    fs::create_dir_all(&dir).with_context(|| format!("{}", dir.display()))?;
    Ok(dir)
}

/// A directory below the target directory for what a command leaves behind (logs, compiled C
/// programs).
pub fn scratch(name: &str) -> Result<PathBuf> {
    let dir = release_dir()?
        .parent()
        .context("no target directory")?
        .join("xtask")
        .join(name);
    fs::create_dir_all(&dir).with_context(|| format!("{}", dir.display()))?;
    Ok(dir)
}
