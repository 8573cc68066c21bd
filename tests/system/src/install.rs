//! `cargo xtask install --prefix DIR`: programs to DIR/bin, libraries under their final names to
//! DIR/lib/ferroce, and the EXS library, manual pages, completions and the rest to their usual
//! places, by the table of `package/files.rs`.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{self, Path, PathBuf};

use anyhow::{Context, Result};

use crate::build;
use crate::package::files::{self, Content, File, Layout};
use crate::package::manual;
use crate::package::product::Build;
use crate::packages;

pub use crate::package::files::{MUSL, SUPPRESSIONS};

/// Builds and copies.
pub fn run(prefix: &Path) -> Result<()> {
    packages::ensure(packages::EXS)?;
    let product = build::product()?;
    let build = Build {
        manual: manual::of(&product, &build::scratch("manual")?)?,
        exs: build::exs()?,
        product,
    };
    for path in put_all(&build.files()?, &plain(prefix)?, prefix)? {
        println!("{}", path.display());
    }
    Ok(())
}

/// Copies what is built in `from`; answers what there is now below the prefix.
pub fn copy(from: &Path, prefix: &Path) -> Result<Vec<PathBuf>> {
    put_all(&files::product(from), &plain(prefix)?, prefix)
}

/// Copies the libraries for musl, as `cargo xtask portable` has put them below `from`, to where
/// containers with musl find them.
pub fn copy_musl(from: &Path, prefix: &Path) -> Result<Vec<PathBuf>> {
    put_all(&files::musl(from), &plain(prefix)?, prefix)
}

/// Copies what is no program or library and belongs to them all the same.
pub fn copy_data(prefix: &Path) -> Result<Vec<PathBuf>> {
    put_all(&files::data()?, &plain(prefix)?, prefix)
}

/// Copies the EXS library that is built in `from`, and what belongs to it; answers what there is
/// now below the prefix.
pub fn copy_exs(from: &Path, prefix: &Path) -> Result<Vec<PathBuf>> {
    put_all(&files::exs(from)?, &plain(prefix)?, prefix)
}

/// The layout of a prefix, which pkg-config has to be told in full.
fn plain(prefix: &Path) -> Result<Layout> {
    let whole = path::absolute(prefix).with_context(|| format!("{}", prefix.display()))?;
    let text = whole
        .to_str()
        .context("the prefix must be UTF-8 for pkg-config")?;
    Ok(Layout::plain(text))
}

/// Puts files where a layout has them below a prefix; answers where.
pub(crate) fn put_all(files: &[File], layout: &Layout, prefix: &Path) -> Result<Vec<PathBuf>> {
    files.iter().map(|file| put(file, layout, prefix)).collect()
}

/// Writes beside the target and renames, so that a running program or mapped library stays whole.
fn put(file: &File, layout: &Layout, prefix: &Path) -> Result<PathBuf> {
    let dir = prefix.join(layout.directory(file));
    fs::create_dir_all(&dir).with_context(|| format!("{}", dir.display()))?;
    let fresh = dir.join(format!(".{}.new", file.name));
    let written = || format!("{}", fresh.display());

    match &file.content {
        Content::Copy(from) => {
            fs::copy(from, &fresh)
                .with_context(|| format!("{} to {}", from.display(), written()))?;
        }
        Content::Template(from) => {
            let text = fs::read_to_string(from).with_context(|| format!("{}", from.display()))?;
            fs::write(&fresh, layout.filled(&text)).with_context(written)?;
        }
        Content::Link(to) => {
            let _ = fs::remove_file(&fresh);
            symlink(to, &fresh).with_context(written)?;
        }
    }
    if !matches!(file.content, Content::Link(_)) {
        fs::set_permissions(&fresh, Permissions::from_mode(file.mode())).with_context(written)?;
    }

    let target = dir.join(&file.name);
    fs::rename(&fresh, &target).with_context(|| format!("{}", target.display()))?;
    Ok(target)
}
