use super::*;
use std::fs;

fn fixture(files: &[&str]) -> (tempfile::TempDir, PathBuf, RuntimeDir) {
    let temp = tempfile::tempdir().unwrap();
    for file in files {
        let path = temp.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let exe = temp.path().join("bin/ferroce");
    let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
    (temp, exe, dir)
}

#[test]
fn an_installed_prefix_needs_no_links() {
    let names: Vec<_> = pabi::numbers()
        .map(|number| pabi::driver_file("lib/ferroce/libferroce", number))
        .collect();
    let mut files = vec!["bin/ferroce", "lib/ferroce/libferroce-shim.so"];
    files.extend(names.iter().map(String::as_str));
    let (temp, exe, dir) = fixture(&files);
    let found = find_from(&exe, &dir).unwrap();
    assert_eq!(
        found.shim,
        temp.path().join("lib/ferroce/libferroce-shim.so")
    );

    assert_eq!(found.driver, temp.path().join("lib/ferroce/libferroce"));
    assert!(!dir.path().exists());

    // One name short, and no file to give it: a libibverbs would find no driver, so it is said
    // at once.
    let last = temp.path().join(&names[names.len() - 1]);
    fs::remove_file(last).unwrap();
    assert!(find_from(&exe, &dir).is_err());
}

#[test]
fn every_place_of_a_prefix_is_looked_at() {
    for lib in LIB {
        let place = |name: &str| format!("{lib}/ferroce/{name}");
        let (shim, driver) = (place(SHIM), place(DRIVER_FILE));
        let (temp, exe, dir) = fixture(&["bin/ferroce", &shim, &driver]);
        let found = find_from(&exe, &dir).unwrap();
        assert_eq!(found.shim, temp.path().join(shim));
        // Without links beside it, as from a wheel.
        assert_eq!(found.driver, dir.lib().join("libferroce"));
        for number in pabi::numbers() {
            let link = pabi::driver_file(&found.driver.to_string_lossy(), number);
            assert_eq!(fs::read_link(link).unwrap(), temp.path().join(&driver));
        }
    }
}

#[test]
fn containers_get_what_is_installed_with_its_links() {
    let names: Vec<_> = pabi::numbers()
        .map(|number| pabi::driver_file("lib/ferroce/libferroce", number))
        .collect();
    let mut files = vec!["bin/ferroce", "lib/ferroce/libferroce-shim.so"];
    files.extend(names.iter().map(String::as_str));
    let (temp, exe, _) = fixture(&files);
    let place = temp.path().join("lib/ferroce");
    let error = for_containers_from(&exe).unwrap_err().to_string();
    assert!(error.contains("cargo xtask install"), "{error}");

    for link in CONTAINERS {
        std::os::unix::fs::symlink(".", place.join(link)).unwrap();
    }
    assert_eq!(for_containers_from(&exe).unwrap(), place);

    let (_temp, built, _) = fixture(&[
        "bin/ferroce",
        "bin/libferroce_shim.so",
        "bin/libferroce_provider.so",
    ]);
    let error = for_containers_from(&built).unwrap_err().to_string();
    assert!(error.contains("libferroce_shim.so"), "{error}");
}

#[test]
fn the_driver_of_a_build_directory_gets_a_link_in_the_runtime_directory() {
    let (temp, exe, dir) = fixture(&[
        "bin/ferroce",
        "bin/libferroce_shim.so",
        "bin/libferroce_provider.so",
        "bin/libferroce_provider.d",
    ]);

    for _ in 0..2 {
        let found = find_from(&exe, &dir).unwrap();
        assert_eq!(found.shim, temp.path().join("bin/libferroce_shim.so"));
        assert_eq!(found.driver, dir.lib().join("libferroce"));
    }

    for number in pabi::numbers() {
        let link = pabi::driver_file(&dir.lib().join("libferroce").to_string_lossy(), number);
        let target = fs::read_link(link).unwrap();
        assert_eq!(target, temp.path().join("bin/libferroce_provider.so"));
    }

    let links = pabi::numbers().count();
    assert_eq!(fs::read_dir(dir.lib()).unwrap().count(), links);
    assert_eq!(fs::read_dir(temp.path().join("bin")).unwrap().count(), 4);
}

#[test]
fn a_path_that_no_list_can_hold_is_reached_by_links() {
    let (temp, exe, dir) = fixture(&[
        "a b/ferroce",
        "a b/libferroce_shim.so",
        "a b/libferroce_provider.so",
    ]);
    let found = find_from(
        &temp.path().join("a b").join(exe.file_name().unwrap()),
        &dir,
    );
    assert_eq!(found.unwrap().shim, dir.lib().join("libferroce-shim.so"));
}

#[test]
fn a_directory_that_no_list_can_hold_is_refused_before_anything_is_made() {
    let built = ["bin/libferroce_shim.so", "bin/libferroce_provider.so"];
    let (temp, exe, dir) = fixture(&built);
    check_from(&exe, &dir).unwrap();
    for name in ["a b", "a:b", "a;b"] {
        let dir = RuntimeDir::resolve(Some(&temp.path().join(name)));
        for refused in [check_from(&exe, &dir), find_from(&exe, &dir).map(drop)] {
            assert!(matches!(refused, Err(Error::Separator(_))), "{name}");
        }
        assert!(!dir.path().exists(), "{name}");
    }
}

#[test]
fn what_is_missing_is_named_with_where_it_was_looked_for() {
    let (temp, exe, dir) = fixture(&["bin/ferroce", "bin/libferroce_shim.so"]);
    let message = find_from(&exe, &dir).unwrap_err().to_string();
    assert!(message.contains("libferroce-rdmav"), "{message}");
    assert!(message.contains(&temp.path().join("lib/ferroce").display().to_string()));
}

#[test]
fn lists_are_kept() {
    let item = Path::new("/x/libferroce-shim.so");
    let separators = [':', ' '];
    let after = |old: &str| appended(Some(old.into()), item, &separators);
    assert_eq!(appended(None, item, &separators), "/x/libferroce-shim.so");
    assert_eq!(after(""), "/x/libferroce-shim.so");
    assert_eq!(after("libasan.so"), "libasan.so:/x/libferroce-shim.so");
    assert_eq!(
        after("a.so /x/libferroce-shim.so"),
        "a.so /x/libferroce-shim.so"
    );
}
