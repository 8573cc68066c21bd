//! The files of the Python package.

use anyhow::Result;

use super::files::{Content, File, Part, Place, listed};
use crate::build;

/// Sources, and what pip and pytest read.
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
