//! Holds what a kernel header says against assertions in C.

use std::path::Path;
use std::process::Command;

/// Compiles `source`, which is made of `_Static_assert`s over `header`; and once more with `right`
/// replaced by `wrong`, which must not compile, as otherwise the test could not fail.
pub(crate) fn agrees(header: &str, source: &str, right: &str, wrong: &str) {
    if !Path::new("/usr/include").join(header).exists() {
        eprintln!("SKIPPED: <{header}> is not installed (libibverbs-dev)");
        return;
    }
    compiles(source).unwrap();
    let changed = source.replacen(right, wrong, 1);
    assert_ne!(changed, source);
    assert!(compiles(&changed).is_err());
}

fn compiles(source: &str) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("layout.c");
    std::fs::write(&file, source).unwrap();
    let output = Command::new("cc")
        .args(["-std=c11", "-fsyntax-only"])
        .arg(&file)
        .output()
        .expect("a C compiler");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
