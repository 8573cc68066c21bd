//! Programs to which `LD_PRELOAD` means nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::place::Place;
use crate::text;

/// A program that ends with status 7, built with these options.
fn build(file: &Path, options: &[&str]) {
    let source = file.with_extension("c");
    fs::write(&source, "int main(void) { return 7; }\n").unwrap();
    let status = Command::new("cc")
        .args(options)
        .arg("-o")
        .args([file, &source])
        .status()
        .expect("a C compiler");
    assert!(status.success());
}

fn run(place: &Place, file: &Path) -> Output {
    let output = place.output(&["run", "--", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    output
}

#[test]
fn a_static_program_is_run_after_a_sentence() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let file = place.temp.path().join("program");
    for options in [&["-static"][..], &["-static-pie"]] {
        build(&file, options);
        let words = text(&run(&place, &file).stderr);
        let expected = format!("ferroce: {} is statically linked", file.display());
        assert!(words.starts_with(&expected), "{words}");
        assert_eq!(words.lines().count(), 1, "{words}");
    }

    build(&file, &[]);
    assert_eq!(text(&run(&place, &file).stderr), "");
}

#[test]
fn so_is_one_that_becomes_another_user_or_group() {
    let Some(place) = Place::new() else { return };
    place.configure();
    let file = place.temp.path().join("program");
    build(&file, &[]);

    // One's own identity is no other.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6755)).unwrap();
    assert_eq!(text(&run(&place, &file).stderr), "");

    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give a file away");
        return;
    }

    let place_mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.temp.path(), place_mode).unwrap();

    for (user, group, mode, expected) in [
        (Some(12345), None, 0o4755, "is setuid to user 12345"),
        (None, Some(12345), 0o2755, "is setgid to group 12345"),
    ] {
        std::os::unix::fs::chown(&file, Some(0), Some(0)).unwrap();
        std::os::unix::fs::chown(&file, user, group).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let words = text(&run(&place, &file).stderr);
        assert!(words.contains(expected), "{words}");
        assert_eq!(words.lines().count(), 1, "{words}");
    }
}
