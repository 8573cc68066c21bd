//! What is packaged or installed, as it was built.

use std::path::PathBuf;

use anyhow::Result;

use super::files::{self, File};

/// What is packaged.
pub(crate) struct Build {
    /// The directory of programs and libraries, as cargo names them.
    pub product: PathBuf,
    /// The directory of libexs.
    pub exs: PathBuf,
    /// The directory of what the programs have written of themselves.
    pub manual: PathBuf,
}

impl Build {
    /// All files.
    pub(crate) fn files(&self) -> Result<Vec<File>> {
        let mut files = files::product(&self.product);
        files.extend(files::data()?);
        files.extend(files::exs(&self.exs)?);
        files.extend(files::manual(&self.manual)?);
        Ok(files)
    }
}
