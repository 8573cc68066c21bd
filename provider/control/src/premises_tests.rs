//! Tests of `premises`.

use super::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

#[test]
fn a_directory_is_made_shared_and_removed_by_the_last() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a/run");
    let first = Premises::take(&path).unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o700
    );

    let second = Premises::take(&path).unwrap();
    drop(first);
    assert!(path.join(MARKER).is_file());
    fs::write(path.join("file"), "").unwrap();
    drop(second);

    // What is there and not ours stays, and so does the directory; it goes on being ours.
    assert!(path.join("file").is_file());
    let third = Premises::take(&path).unwrap();
    fs::remove_file(path.join("file")).unwrap();
    drop(third);
    assert!(!path.exists() && temp.path().join("a").is_dir());
}

#[test]
fn an_empty_directory_is_left_as_it_was() {
    let temp = tempfile::tempdir().unwrap();
    fs::set_permissions(temp.path(), Permissions::from_mode(0o755)).unwrap();
    drop(Premises::take(temp.path()).unwrap());
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    let mode = fs::metadata(temp.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[test]
fn what_is_somebodys_is_refused_and_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    for name in ["lib", "sys", "dev"] {
        fs::create_dir(temp.path().join(name)).unwrap();
    }
    let message = Premises::take(temp.path()).unwrap_err().to_string();
    assert!(message.contains("is not empty"), "{message}");
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 3);

    for (name, text) in [("other", "whatever"), ("linked", "")] {
        let path = temp.path().join(name);
        fs::create_dir(&path).unwrap();
        match text {
            "" => symlink("/dev/null", path.join(MARKER)).unwrap(),
            text => fs::write(path.join(MARKER), text).unwrap(),
        }
        Premises::take(&path).unwrap_err();
    }

    for path in ["/", "/tmp", "/usr"] {
        Premises::take(Path::new(path)).unwrap_err();
    }
}

#[test]
fn links_are_removed_and_files_are_not() {
    let temp = tempfile::tempdir().unwrap();
    let premises = Premises::take(&temp.path().join("run")).unwrap();
    premises.directory("lib", true).unwrap();
    let lib = premises.path().join("lib");
    for name in ["libferroce-x", "other"] {
        symlink("/nowhere", lib.join(name)).unwrap();
    }
    fs::write(lib.join("libferroce-file"), "").unwrap();
    premises
        .remove_links("lib", |name| name.starts_with("libferroce"))
        .unwrap();
    assert!(lib.join("libferroce-file").is_file());
    assert!(fs::symlink_metadata(lib.join("other")).is_ok());
    assert!(fs::symlink_metadata(lib.join("libferroce-x")).is_err());
    fs::remove_dir_all(&lib).unwrap();

    // A link in the directory's place leads nowhere.
    symlink(temp.path(), &lib).unwrap();
    premises.remove_links("lib", |_| true).unwrap_err();
}

#[test]
fn many_come_and_go_at_once() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("run");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let premises = Premises::take(&path).unwrap();
                    premises
                        .open("file", OFlags::CREATE | OFlags::RDWR)
                        .unwrap();
                    let _ = premises.remove("file");
                }
            });
        }
    });

    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}
