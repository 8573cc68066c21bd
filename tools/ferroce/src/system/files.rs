//! Files of `/etc` that are made, and unmade: never one that somebody else has there, and nothing
//! of what somebody has changed since.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::manifest::{Made, Manifest};
use crate::error::Error;

/// Makes a file, and the directories on the way to it.
pub(super) fn make(manifest: &mut Manifest, path: &Path, text: &str) -> Result<(), Error> {
    let failed = || Error::io(path.display().to_string());
    if path.symlink_metadata().is_ok() {
        return Err(Error::System(format!(
            "{} is there already, and not of `ferroce system enable`: move it away",
            path.display()
        )));
    }

    let missing: Vec<_> = path
        .ancestors()
        .skip(1)
        .take_while(|above| !above.exists())
        .collect();
    for directory in missing.into_iter().rev() {
        note(manifest, Made::Directory(directory.to_path_buf()))?;
        fs::create_dir(directory).map_err(failed())?;
    }

    note(manifest, Made::File(path.to_path_buf(), text.to_owned()))?;
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(failed())
}

/// Puts lines at the end of a file that may be there.
pub(super) fn append(manifest: &mut Manifest, path: &Path, lines: &str) -> Result<(), Error> {
    let failed = || Error::io(path.display().to_string());
    let old = match fs::read_to_string(path) {
        Ok(old) => old,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return make(manifest, path, lines);
        }
        Err(error) => return Err(failed()(error)),
    };
    if let Some(line) = old
        .lines()
        .find(|line| line.trim().starts_with("SYSFS_PATH="))
    {
        return Err(Error::System(format!(
            "{} has a line of somebody's already: {line}",
            path.display()
        )));
    }

    // A last line without an end gets one, which is ours then.
    let lines = match old.is_empty() || old.ends_with('\n') {
        true => lines.to_owned(),
        false => format!("\n{lines}"),
    };
    note(manifest, Made::Lines(path.to_path_buf(), lines.clone()))?;
    replace(path, &format!("{old}{lines}")).map_err(failed())
}

fn note(manifest: &mut Manifest, made: Made) -> Result<(), Error> {
    manifest.made.push(made);
    manifest.write()
}

/// Gives a file another text, at once, and leaves it its owner and mode.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let file = fs::canonicalize(path)?;
    let status = fs::metadata(&file)?;
    let mut name = file.file_name().unwrap_or_default().to_os_string();
    name.push(".ferroce-new");
    let fresh = file.with_file_name(name);
    let _ = fs::remove_file(&fresh);
    let mut new = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&fresh)?;
    new.write_all(text.as_bytes())?;
    std::os::unix::fs::fchown(&new, Some(status.uid()), Some(status.gid()))?;
    new.set_permissions(status.permissions())?;
    new.sync_all()?;
    fs::rename(&fresh, &file)
}

/// Makes a directory, unless it is there.
pub(super) fn make_directory(path: &str) -> Result<(), Error> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(Error::io(path)(error)),
        _ => Ok(()),
    }
}

/// Removes a directory, if it is there and nothing is in it.
pub(super) fn remove_if_empty(path: &str) -> Result<(), Error> {
    match fs::remove_dir(path) {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Err(Error::io(path)(error))
        }
        _ => Ok(()),
    }
}

/// Undoes what was made, if it is still there as it was made. Says what has been left alone, and
/// why.
pub(super) fn unmake(made: &Made) -> Result<Option<String>, Error> {
    let changed = |path: &Path| Some(format!("{} was changed, and stays", path.display()));
    let (path, result) = match made {
        Made::Directory(path) => (path, fs::remove_dir(path).map(|()| None)),
        Made::File(path, text) => match fs::read_to_string(path) {
            // One that was just begun when all ended is ours, too.
            Ok(there) if text.starts_with(&there) => (path, fs::remove_file(path).map(|()| None)),
            Ok(_) => return Ok(changed(path)),
            Err(error) => (path, Err(error)),
        },
        Made::Lines(path, lines) => match fs::read_to_string(path) {
            Ok(there) => match there.rfind(lines.as_str()) {
                Some(at) => {
                    let rest = &there[at + lines.len()..];
                    let left = format!("{}{rest}", &there[..at]);
                    (path, replace(path, &left).map(|()| None))
                }
                None => return Ok(None),
            },
            Err(error) => (path, Err(error)),
        },
    };

    match result {
        // Of an attempt that ended before it was made, or somebody has removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(None),
        other => other.map_err(Error::io(path.display().to_string())),
    }
}

/// Whether a file is such that nobody but root can change it, or put another in its place.
pub(super) fn is_roots(path: &Path) -> Result<(), Error> {
    let real = fs::canonicalize(path).map_err(Error::io(path.display().to_string()))?;
    for part in real.ancestors() {
        let status = fs::metadata(part).map_err(Error::io(part.display().to_string()))?;
        if status.uid() != 0 || status.mode() & 0o022 != 0 {
            return Err(Error::System(format!(
                "{} can be changed by others than root, and all users' programs would load {}: install ferroce where only root can \
                 write (`cargo xtask install --prefix /usr/local`), and run that one",
                part.display(),
                real.display()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_has_changed_stays() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        let made = Made::File(path.clone(), "ours\n".into());
        assert_eq!(unmake(&made).unwrap(), None);
        fs::write(&path, "ours\nand theirs\n").unwrap();
        assert!(unmake(&made).unwrap().unwrap().contains("stays"));
        fs::write(&path, "our").unwrap();
        assert_eq!(unmake(&made).unwrap(), None);
        assert!(!path.exists());

        let directory = temp.path().join("directory");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("theirs"), "").unwrap();
        let made = Made::Directory(directory.clone());
        assert_eq!(unmake(&made).unwrap(), None);
        fs::remove_file(directory.join("theirs")).unwrap();
        unmake(&made).unwrap();
        assert!(!directory.exists());
    }

    #[test]
    fn lines_go_and_the_rest_of_a_file_stays() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("environment");
        for before in ["", "A=1", "A=1\n"] {
            let end = if before == "A=1" { "\nX=2\n" } else { "X=2\n" };
            let made = Made::Lines(path.clone(), end.into());
            fs::write(&path, format!("{before}{end}B=3\n")).unwrap();
            unmake(&made).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{before}B=3\n"));
            assert_eq!(unmake(&made).unwrap(), None);
        }
    }
}
