//! What the shim reads of the daemon's memory is laid out as the version of the frames says.

use std::os::unix::fs::FileExt;

use ferroce_cabi::ucma_frame::{CONNECTED, VERSION};
use ferroce_control::Generations;

#[test]
fn the_page_of_generations_is_that_of_the_version() {
    let page = Generations::create().unwrap();
    page.touch(5);
    page.set_connected(7, true);
    let file = std::fs::File::from(page.shared().try_clone().unwrap());
    let word = |index: u64| {
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, 4 * index).unwrap();
        u32::from_ne_bytes(bytes)
    };
    assert_eq!(VERSION, 3);
    assert_eq!(file.metadata().unwrap().len(), 2 * 4 * 65_536);
    assert_eq!(word(5), 1);
    assert_eq!(word(65_536 + 7), CONNECTED);
}
