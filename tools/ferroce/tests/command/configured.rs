//! What is configured: files with settings, and what is wrong with them; runtime directories.

use std::fs;

use crate::place::Place;
use crate::text;

#[test]
fn the_receive_buffer_is_shown_as_it_is_configured() {
    let Some(place) = Place::new() else { return };
    let file = place.temp.path().join("own.toml");
    let file = file.to_str().unwrap();
    let up = || place.output(&["up", "--addr", &place.addr, "--config", file]);
    for wrong in ["0", "-1", "1073741824"] {
        fs::write(file, format!("name = \"a\"\nreceive_buffer = {wrong}\n")).unwrap();
        let refused = up();
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let words = text(&refused.stderr);
        let why = format!("{file}:2:18: receive_buffer is {wrong}: it can be 4096 to 1073741823");
        assert!(words.contains(&why), "{words}");
    }

    fs::write(file, "receive_buffer = 65536\n").unwrap();
    let up = up();
    assert!(up.status.success(), "{up:?}");
    let status = text(&place.output(&["status"]).stdout);
    assert!(status.contains("receive buffer 64 KiB,"), "{status}");
}

#[test]
fn no_daemon_is_started_where_programs_cannot_be_told_of_it() {
    let Some(place) = Place::new() else { return };
    place.configure();
    for words in [&["run", "--", "true"][..], &["env"]] {
        for name in ["a b", "a:b", "a;b"] {
            let dir = place.temp.path().join(name);
            let mut command = place.ferroce(words);
            let refused = command.env("FERROCE_RUNTIME_DIR", &dir).output().unwrap();
            assert_eq!(refused.status.code(), Some(1), "{refused:?}");
            assert!(text(&refused.stderr).contains("LD_PRELOAD"), "{refused:?}");
            assert!(!dir.exists(), "{name}: {refused:?}");
        }
    }
}
