//! rdma-core's own test suite: where it comes from and how it is laid out to run.
//!
//! Debian ships it with python3-pyverbs as documentation, the larger files gzipped. It is unpacked
//! as it is, file by file; nothing in it is changed. Tests of other vendors' devices stay behind.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::apt;
use crate::build;

/// The package, and where it has the suite.
const PACKAGE: &str = "python3-pyverbs";
const SHIPPED: &str = "usr/share/doc/rdma-core/tests";

/// Tests of other vendors' devices stay behind.
const VENDORS: &[&str] = &["test_mlx5", "test_efa", "test_cuda"];
/// Tests of the connection manager, which are for addresses and not for devices: group `cm` runs
/// them by themselves.
const CONNECTIONS: &str = "test_rdmacm";

/// The suite, unpacked into a directory that goes with this.
pub(crate) struct Suite {
    dir: TempDir,
}

impl Suite {
    /// Unpacks the suite that is installed; where the package's documentation was left out, as in
    /// many containers, a copy of the package is fetched for it, and kept.
    pub(crate) fn unpack() -> Result<Suite> {
        Self::unpack_without(|name| name.starts_with(CONNECTIONS))
    }

    /// The same with the tests of the connection manager, and none but these.
    pub(crate) fn unpack_connections() -> Result<Suite> {
        Self::unpack_without(|name| name.starts_with("test_") && !name.starts_with(CONNECTIONS))
    }

    /// The tests of one file, `test_mr` for example, compiled: who runs Python slowly loads and
    /// compiles no others.
    pub(crate) fn unpack_module(module: &str) -> Result<Suite> {
        let file = format!("{module}.py");
        let other = |name: &str| name.starts_with("test_") && name.trim_end_matches(".gz") != file;
        let suite = Self::unpack_without(other)?;
        if !suite.tests().join(&file).exists() {
            bail!("{PACKAGE} has no {file} below /{SHIPPED}");
        }
        let compiled = Command::new("/usr/bin/python3")
            .args(["-m", "compileall", "-q", "."])
            .current_dir(suite.tests())
            .status()
            .context("compiling the suite")?;
        match compiled.success() {
            true => Ok(suite),
            false => bail!("Python does not compile {file}"),
        }
    }

    /// All of it.
    pub(crate) fn unpack_all() -> Result<Suite> {
        Self::unpack_without(|_| false)
    }

    fn unpack_without(left_out: impl Fn(&str) -> bool) -> Result<Suite> {
        let dir = tempfile::Builder::new()
            .prefix("ferroce-pyverbs-")
            .tempdir()?;
        let suite = Suite { dir };
        suite.copy(&shipped()?, left_out)?;
        if !suite.tests().join("run_tests.py").exists() {
            bail!("{PACKAGE} has no run_tests.py below /{SHIPPED}");
        }
        Ok(suite)
    }

    /// The directory to run it in. Its name is part of the tests' names.
    pub(crate) fn tests(&self) -> PathBuf {
        self.dir.path().join("tests")
    }

    fn copy(&self, from: &Path, left_out: impl Fn(&str) -> bool) -> Result<()> {
        fs::create_dir(self.tests())?;

        for entry in fs::read_dir(from).with_context(|| format!("{}", from.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if left_out(&name) || VENDORS.iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            match name.strip_suffix(".gz") {
                Some(plain) => gunzip(&path, &self.tests().join(plain))?,
                None => {
                    fs::copy(&path, self.tests().join(&*name))?;
                }
            }
        }

        Ok(())
    }
}

/// Fetches what would have to be fetched later, for those who have no network then.
///
/// # Errors
///
/// Where the package is not installed, or cannot be fetched.
pub(crate) fn fetch() -> Result<()> {
    shipped().map(drop)
}

/// The directory that the package has it in.
fn shipped() -> Result<PathBuf> {
    let installed = Path::new("/").join(SHIPPED);
    if is_whole(&installed) {
        return Ok(installed);
    }

    let kept = build::cache()?.join("suites");
    fs::create_dir_all(&kept).with_context(|| format!("{}", kept.display()))?;
    let ours = kept.join(version()?);
    if !is_whole(&ours.join(SHIPPED)) {
        // Under another name until it is whole: others may be at it, too.
        let unfinished = tempfile::tempdir_in(&kept)?;
        apt::fetch(PACKAGE, unfinished.path())?;
        let renamed = fs::rename(unfinished.path(), &ours);
        if !is_whole(&ours.join(SHIPPED)) {
            renamed.with_context(|| format!("{}", ours.display()))?;
            bail!("{PACKAGE} has no suite below /{SHIPPED}");
        }
    }

    Ok(ours.join(SHIPPED))
}

/// The installed package's.
fn version() -> Result<String> {
    let asked = Command::new("dpkg-query")
        .args(["--show", "--showformat", "${Version}", PACKAGE])
        .output()
        .context("dpkg-query")?;
    match asked.status.success() {
        true => Ok(String::from_utf8_lossy(&asked.stdout).into_owned()),
        false => bail!("{PACKAGE} is not installed"),
    }
}

/// A package installed without its documentation may leave an empty directory.
fn is_whole(dir: &Path) -> bool {
    ["run_tests.py", "run_tests.py.gz"]
        .iter()
        .any(|name| dir.join(name).exists())
}

fn gunzip(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("gzip")
        .arg("-dc")
        .arg(from)
        .stdin(Stdio::null())
        .stdout(File::create(to)?)
        .status()
        .context("gzip")?;
    if !status.success() {
        bail!("gzip -dc {}: {status}", from.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_unpacked_under_their_names_and_vendors_tests_left_out() {
        let shipped = tempfile::tempdir().unwrap();
        for name in ["run_tests.py", "test_mlx5_cq.py", "base.py"] {
            fs::write(shipped.path().join(name), name).unwrap();
        }
        let gzip = Command::new("gzip")
            .arg(shipped.path().join("base.py"))
            .status();
        assert!(gzip.unwrap().success());
        assert!(is_whole(shipped.path()));
        let suite = Suite {
            dir: tempfile::tempdir().unwrap(),
        };
        suite.copy(shipped.path(), |_| false).unwrap();
        assert_eq!(
            fs::read_to_string(suite.tests().join("base.py")).unwrap(),
            "base.py"
        );

        assert!(suite.tests().join("run_tests.py").exists());
        assert!(!suite.tests().join("test_mlx5_cq.py").exists());
    }
}
