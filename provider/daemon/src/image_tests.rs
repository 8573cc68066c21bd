use super::*;
use ferroce_control::RuntimeDir;
use std::fs;
use std::os::unix::fs::symlink;

fn tree(paths: &[&str]) -> Tree {
    let node = |path: &&str| match path.ends_with("link") {
        true => Node::Link("/dev/null".into()),
        false => Node::File(format!("{path}\n")),
    };
    paths.iter().map(|path| (path.into(), node(path))).collect()
}

/// All that is below a directory, without what every runtime directory has.
fn below(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_path_buf()];
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(at).unwrap().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                left.push(path.clone());
            }
            let path = path.strip_prefix(dir).unwrap().display().to_string();
            found.push(path);
        }
    }

    found.retain(|path| path != ".ferroce-runtime");
    found.sort();
    found
}

const FIRST: [&str; 4] = ["dev/infiniband/link", "sys/a/b/one", "sys/a/b/two", "sys/c"];

#[test]
fn what_is_somebodys_stays_and_what_is_ours_goes() {
    let temp = tempfile::tempdir().unwrap();
    let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
    let premises = dir.prepare().unwrap();
    let mine = [
        "dev/infiniband/mine",
        "dev/mine",
        "sys/a/b/mine",
        "sys/mine",
    ];

    let left = |dir: &RuntimeDir| {
        let mut left = below(dir.path());
        left.retain(|path| dir.path().join(path).is_file());
        left
    };

    for dies in [false, true] {
        let mut image = Image::create(&premises, false).unwrap();
        image.turn_into(tree(&FIRST)).unwrap();
        for path in mine {
            fs::write(dir.path().join(path), "mine").unwrap();
        }
        fs::create_dir(dir.path().join("sys/empty")).unwrap();
        image.turn_into(tree(&FIRST[..2])).unwrap();
        assert!(!dir.path().join("sys/c").exists());
        match dies {
            false => image.remove().unwrap(),
            // The next one finds what it has left, cut short as a write is.
            true => {
                drop(image);
                fs::write(dir.path().join(NEW), "half a li").unwrap();
                Image::create(&premises, false).unwrap();
            }
        }

        assert_eq!(left(&dir), mine);
        assert!(dir.path().join("sys/empty").is_dir());
        for path in mine {
            fs::remove_file(dir.path().join(path)).unwrap();
        }
        fs::remove_dir(dir.path().join("sys/empty")).unwrap();
    }

    let mut image = Image::create(&premises, false).unwrap();
    image.turn_into(tree(&FIRST)).unwrap();
    image.remove().unwrap();
    assert_eq!(below(dir.path()), [""; 0]);
}

#[test]
fn what_is_in_the_way_is_named_and_not_replaced() {
    let temp = tempfile::tempdir().unwrap();
    let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
    let premises = dir.prepare().unwrap();
    fs::create_dir_all(dir.path().join("sys/a/b")).unwrap();
    let two = dir.path().join("sys/a/b/two");
    fs::write(&two, "mine").unwrap();
    let mut image = Image::create(&premises, false).unwrap();
    let error = image.turn_into(tree(&FIRST)).unwrap_err().to_string();
    assert!(error.contains("sys/a/b/two is in the way"), "{error}");
    image.remove().unwrap();
    assert_eq!(fs::read_to_string(&two).unwrap(), "mine");
    assert_eq!(below(dir.path()).len(), 4);
    fs::remove_file(&two).unwrap();
    image.turn_into(tree(&FIRST)).unwrap();
    image.remove().unwrap();
    assert_eq!(below(dir.path()), [""; 0]);
}

/// As in the kernel's sysfs, only what can be set can be written, by its owner.
#[test]
fn what_is_shown_is_not_for_writing() {
    use std::os::unix::fs::PermissionsExt;

    let temp = tempfile::tempdir().unwrap();
    let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
    let premises = dir.prepare().unwrap();
    let mut tree = tree(&FIRST);
    tree.insert("sys/set".into(), Node::Setting("text\n".into()));
    for (open, wanted) in [(false, [0o400, 0o600]), (true, [0o444, 0o644])] {
        let mut image = Image::create(&premises, open).unwrap();
        image.turn_into(tree.clone()).unwrap();
        let mode = |path: &str| {
            let metadata = fs::metadata(dir.path().join(path)).unwrap();
            metadata.permissions().mode() & 0o777
        };
        assert_eq!(["sys/c", "sys/set"].map(mode), wanted);

        // What was written is seen, and goes.
        let path = Path::new("sys/set");
        fs::write(dir.path().join(path), "other").unwrap();
        assert_eq!(image.contents(path).unwrap(), b"other");
        image.forget(path);
        image.turn_into(tree.clone()).unwrap();
        assert_eq!(image.contents(path).unwrap(), b"text\n");
        image.remove().unwrap();
    }
}

/// A list that somebody has written names what it likes, and a link in a directory's place
/// leads where it likes.
#[test]
fn nothing_leads_out_of_the_directory() {
    let temp = tempfile::tempdir().unwrap();
    let dir = RuntimeDir::resolve(Some(&temp.path().join("run")));
    let premises = dir.prepare().unwrap();
    let outside = temp.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("one"), "mine").unwrap();
    fs::create_dir_all(dir.path().join("sys/a")).unwrap();
    symlink(&outside, dir.path().join("sys/a/b")).unwrap();
    fs::create_dir(dir.path().join("sys/c")).unwrap();
    fs::write(dir.path().join("ferroced.lock"), "").unwrap();
    let list = format!(
        "sys/a/b/one\n{}/one\nsys/../../outside/one\n../outside/one\nferroced.lock\nsys/c\nsys\n\n/\n",
        outside.display()
    );
    fs::write(dir.path().join(LIST), list).unwrap();
    Image::create(&premises, false).unwrap();
    assert!(outside.join("one").is_file() && dir.path().join("ferroced.lock").is_file());
    assert!(fs::symlink_metadata(dir.path().join("sys/a/b")).is_ok());
    assert!(dir.path().join("sys/c").is_dir() && !dir.path().join(LIST).exists());
}
