//! What Debian's Python has a package of it do when it is installed and removed: compile the
//! sources, and take away what was compiled, of which dpkg knows nothing.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

use super::write;

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
