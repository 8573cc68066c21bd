//! Huge pages for the tests that want some: lent for the time of the tests where the kernel lets
//! us, as it does root outside of containers.

use std::fs;

const NUMBER: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const WANTED: &str = "32";

/// Takes back at its end what it had to ask for.
pub(crate) struct HugePages {
    lent: bool,
}

impl HugePages {
    /// Asks the kernel for some unless there are any.
    pub(crate) fn lend() -> HugePages {
        let lent = number() == 0 && fs::write(NUMBER, WANTED).is_ok();
        HugePages { lent }
    }

    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        number() > 0
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        if self.lent {
            let _ = fs::write(NUMBER, "0");
        }
    }
}

fn number() -> u64 {
    fs::read_to_string(NUMBER)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}
