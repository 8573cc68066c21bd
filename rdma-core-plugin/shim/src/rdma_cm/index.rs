//! The device's number in the kernel, which librdmacm is told with the addresses of an id.
//!
//! Who did not preload the shim has found the device in the image, by libibverbs, and knows no
//! number of it. librdmacm of rdma-core 33 takes a device for another one then, and for none. So
//! there is none to be told.

use ferroce_cabi::ucma::*;
use libc::{c_void, iovec};
use std::mem::{offset_of, size_of};

const NO_INDEX: u32 = !0;

/// Where the number is in the answer to a command with this body; `None`: it has none.
fn place(command: u32, option: u32) -> Option<usize> {
    match (command, option) {
        (RDMA_USER_CM_CMD_QUERY_ROUTE, _) => {
            Some(offset_of!(rdma_ucm_query_route_resp, ibdev_index))
        }
        (RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_ADDR | RDMA_USER_CM_QUERY_GID) => {
            Some(offset_of!(rdma_ucm_query_addr_resp, ibdev_index))
        }
        _ => None,
    }
}

/// Takes the number out of an answer that has been written.
///
/// # Safety
/// `body` is readable for `header.in` bytes, and `answer` writable.
pub(super) unsafe fn conceal(header: &rdma_ucm_cmd_hdr, body: *const c_void, answer: &iovec) {
    if usize::from(header.r#in) < size_of::<rdma_ucm_query>() {
        return;
    }
    // SAFETY: inside the command, as was just seen.
    let asked = unsafe { body.cast::<rdma_ucm_query>().read_unaligned() };
    let Some(at) = place(header.cmd, asked.option) else {
        return;
    };

    if answer.iov_len >= at + size_of_val(&NO_INDEX) {
        // SAFETY: inside the answer, whose place may be unaligned.
        unsafe {
            answer
                .iov_base
                .byte_add(at)
                .cast::<u32>()
                .write_unaligned(NO_INDEX)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concealed(cmd: u32, option: u32, answer: &mut [u32]) {
        let asked = rdma_ucm_query {
            response: 0,
            id: 1,
            option,
        };
        let header = rdma_ucm_cmd_hdr {
            cmd,
            r#in: size_of_val(&asked) as u16,
            out: size_of_val(answer) as u16,
        };
        let place = iovec {
            iov_base: answer.as_mut_ptr().cast(),
            iov_len: size_of_val(answer),
        };
        // SAFETY: both are there, as long as they say.
        unsafe { conceal(&header, (&raw const asked).cast(), &place) };
    }

    #[test]
    fn an_answer_about_a_device_has_no_number_of_it() {
        let at = offset_of!(rdma_ucm_query_addr_resp, ibdev_index) / 4;
        let mut answer = [7; size_of::<rdma_ucm_query_addr_resp>() / 4];
        concealed(RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_GID, &mut answer);
        let others = answer.iter().filter(|word| **word == 7).count();
        assert_eq!((answer[at], others), (NO_INDEX, answer.len() - 1));
    }

    /// Of a library that is older than the number, or asks for something else.
    #[test]
    fn other_answers_stay_as_they_are() {
        let short = offset_of!(rdma_ucm_query_addr_resp, ibdev_index) / 4;
        let mut answer = vec![7; short];
        concealed(RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_ADDR, &mut answer);
        let mut paths = vec![7; 200];
        concealed(RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_PATH, &mut paths);
        assert!(answer.iter().chain(&paths).all(|word| *word == 7));
    }
}
