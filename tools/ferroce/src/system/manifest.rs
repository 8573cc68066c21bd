//! What `enable` has made and how the device is configured, on disk. An entry is written before
//! what it stands for is made, so that whoever undoes it, also after half of it, knows all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Where it is.
const PATH: &str = "/var/lib/ferroce/system.toml";
/// For who finds it.
const HEAD: &str =
    "# Of `ferroce system enable`, for `ferroce system disable`: leave it as it is.\n";

/// Something that was made.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Made {
    /// A directory, which goes if it is empty by then.
    Directory(PathBuf),
    /// A file with this text.
    File(PathBuf, String),
    /// Lines at the end of somebody's file.
    Lines(PathBuf, String),
}

/// All of it.
#[derive(Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Manifest {
    /// Whose members may use the device.
    pub group: String,
    /// The addresses to serve.
    pub addr: Vec<String>,
    /// The interface whose addresses to serve.
    pub netdev: Option<String>,
    /// Whether systemd starts the device.
    pub systemd: bool,
    /// In the order in which it was made.
    pub made: Vec<Made>,
}

impl Manifest {
    /// Where it is.
    pub(super) fn path() -> &'static Path {
        Path::new(PATH)
    }

    /// What is on disk, if there is anything.
    pub(super) fn read() -> Result<Option<Self>, Error> {
        let failed = |why: String| Error::System(format!("{PATH}: {why}"));
        let text = match fs::read_to_string(PATH) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error.to_string())),
        };
        toml::from_str(&text)
            .map(Some)
            .map_err(|error| failed(error.message().to_owned()))
    }

    /// What is on disk; without it there is nothing to start.
    pub(super) fn of_enabled() -> Result<Self, Error> {
        Self::read()?.ok_or_else(|| {
            Error::System(
                "the machine has no device of ferroce's: `ferroce system enable` gives it one"
                    .to_owned(),
            )
        })
    }

    /// Writes it, whole or not at all.
    pub(super) fn write(&self) -> Result<(), Error> {
        let text = toml::to_string(self).map_err(|error| Error::System(error.to_string()))?;
        let fresh = Path::new(PATH).with_extension("new");
        let directory = Path::new(PATH).parent().unwrap_or(Path::new("/"));
        let written = fs::create_dir_all(directory)
            .and_then(|()| fs::File::create(&fresh))
            .and_then(|mut file| {
                file.write_all(HEAD.as_bytes())?;
                file.write_all(text.as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&fresh, PATH));
        written.map_err(Error::io(PATH))
    }

    /// Removes it and its directory: all is undone.
    pub(super) fn remove() -> Result<(), Error> {
        fs::remove_file(PATH).map_err(Error::io(PATH))?;
        let directory = Path::new(PATH).parent().unwrap_or(Path::new("/"));
        match fs::remove_dir(directory) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => {
                Err(Error::io(directory.display().to_string())(error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let manifest = Manifest {
            group: "rdma".into(),
            addr: vec!["127.0.0.1".into()],
            netdev: None,
            systemd: true,
            made: vec![
                Made::Directory("/a".into()),
                Made::File("/a/b".into(), "text\n\"more\"\n".into()),
                Made::Lines("/c".into(), "X=1\n".into()),
            ],
        };
        let text = toml::to_string(&manifest).unwrap();
        assert_eq!(toml::from_str::<Manifest>(&text).unwrap(), manifest);
    }
}
