//! GID tables, which libibverbs asks the kernel for, past the provider: the shim asks here.

use crate::command_fd;
use crate::guard::quietly;
use crate::stand_in;
use ferroce_cabi::uverbs::{self, SHIM_QUERY_GID};
use ferroce_cabi::{IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V2, ibv_gid, ibv_gid_entry};
use ferroce_engine::Gid;
use libc::c_int;

/// Has the shim ask for entries, if there is one.
pub(crate) fn register() {
    // SAFETY: it takes such a function.
    unsafe { stand_in::tell_shim::<uverbs::query_gid>(SHIM_QUERY_GID, query_gid) };
}

unsafe extern "C" fn query_gid(
    cmd_fd: c_int,
    port: u32,
    index: u32,
    entry: *mut ibv_gid_entry,
) -> c_int {
    quietly(libc::EIO, || {
        let Some(context) = command_fd::context(cmd_fd) else {
            return -1;
        };
        let hca = context.hca();
        // What the daemon tells its parent is not a child's to take.
        if hca.is_inherited() {
            return -1;
        }
        let gid = match hca.gid_entry(port, index) {
            Ok(gid) => gid,
            Err(error) => return error.errno(),
        };
        let gid_type = match gid {
            Some(_) if hca.info().ib_ports == 0 => IBV_GID_TYPE_ROCE_V2,
            _ => IBV_GID_TYPE_IB,
        };
        let Gid { raw, ifindex } = gid.unwrap_or_default();
        let found = ibv_gid_entry {
            gid: ibv_gid { raw },
            gid_index: index,
            port_num: port,
            gid_type,
            ndev_ifindex: ifindex,
        };
        // SAFETY: the place of an entry, as the caller promises.
        unsafe { entry.write(found) };
        0
    })
}
