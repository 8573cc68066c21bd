//! The Python package: its files; and what Debian's Python has a package do when it is installed
//! and removed: compile the sources, and take away what was compiled, of which dpkg knows nothing.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

use super::files::{Content, File, Part, Place, listed};
use super::write;
use crate::build;

/// The files of Python's package.
pub(super) fn files() -> Result<Vec<File>> {
    let sources = build::workspace().join("tools/python");
    let mut files = vec![
        File {
            part: Part::Python,
            place: Place::PythonMetadata,
            name: "METADATA".to_owned(),
            content: Content::Template(sources.join("METADATA.in")),
        },
        File::copy(
            Part::Python,
            Place::PythonMetadata,
            "entry_points.txt",
            sources.join("entry_points.txt"),
        ),
    ];
    for (name, path) in listed(&sources.join("ferroce"))? {
        // Not what Python has compiled there.
        if path.is_file() {
            files.push(File::copy(Part::Python, Place::Python, &name, path));
        }
    }
    Ok(files)
}

/// Writes the scripts of a package.
pub(super) fn scripts(package: &str, control: &Path) -> Result<()> {
    for (name, does) in [
        ("postinst", format!("py3compile -p {package}")),
        ("prerm", format!("py3clean -p {package}")),
    ] {
        let file = control.join(name);
        write(&file, &format!("#!/bin/sh\nset -e\n{does}\n"))?;
        fs::set_permissions(&file, Permissions::from_mode(0o755))
            .with_context(|| format!("{}", file.display()))?;
    }
    Ok(())
}
