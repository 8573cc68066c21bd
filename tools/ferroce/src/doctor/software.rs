//! The libraries that programs load.

use super::Check;
use crate::libibverbs::{self, Libibverbs};
use crate::libraries;

pub(super) fn checks() -> Vec<Check> {
    vec![ours(), libibverbs(), librdmacm()]
}

fn ours() -> Check {
    const NAME: &str = "ferroce";
    match libraries::look() {
        Ok(shim) => {
            let version = env!("CARGO_PKG_VERSION");
            Check::ok(NAME, format!("{version}, {}", shim.display()))
        }
        Err(error) => Check::bad(
            NAME,
            error.to_string(),
            "`ferroce run` can start no program",
        ),
    }
}

fn libibverbs() -> Check {
    const NAME: &str = "libibverbs";

    match Libibverbs::find() {
        Err(why) => Check::bad(
            NAME,
            why,
            "install rdma-core's (libibverbs1 of Debian, libibverbs of Fedora), unless programs \
             bring their own",
        ),
        Ok(found) if found.version.is_err() => Check::bad(
            NAME,
            found.to_string(),
            "no program that uses it sees the device: another rdma-core is needed, or a newer \
             ferroce",
        ),
        Ok(found) => Check::ok(NAME, found.to_string()),
    }
}

fn librdmacm() -> Check {
    const NAME: &str = "librdmacm";
    match libibverbs::librdmacm() {
        Ok(path) => Check::ok(NAME, path),
        Err(why) => Check::note(
            NAME,
            why,
            "programs that connect by IP address need it: librdmacm1 of Debian, librdmacm of Fedora",
        ),
    }
}
