//! Access to the consumer's memory that survives its being unmapped.
//!
//! Registration checks that a range is mapped, but nothing keeps the program from unmapping it afterwards. An adapter would
//! go on with the pages it pinned; here the access would fault. So every access to registered memory is made by a few
//! instructions of known address, and a handler for SIGSEGV and SIGBUS turns a fault in them into an error. All other
//! faults go where they went before. The signals are unblocked in each thread that comes here (`fault_mask`). Where the program replaces
//! the handler, where the thread blocks the signal anew, or on processors without this code, such a fault ends the process as any wild
//! access does. What has been mapped there since is no fault, and is reached.

use std::sync::Once;

/// The access faulted: the memory is no longer mapped with the rights it was registered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault;

/// Whether a fault in an access becomes an error rather than the end of the process.
pub(crate) const EFFECTIVE: bool = cfg!(target_arch = "x86_64");

/// Makes the guard effective in this process.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(imp::install);
}

/// Makes the guard effective in the calling thread, which each calls before it makes guarded accesses. Costs next to nothing after the first time.
pub(crate) fn admit_thread() {
    #[cfg(target_arch = "x86_64")]
    crate::fault_mask::admit();
}

/// Copies `len` bytes in address order.
///
/// # Safety
/// One side is the engine's own and valid for `len` bytes; the other is in a registered range. They do not overlap.
#[inline]
pub(crate) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    unsafe { imp::copy(dst, src, len) }
}

/// Reads a byte of every page of `len` bytes (at least 1), so that a reader need not expect a fault.
///
/// # Safety
/// The range is in a registered range.
#[inline]
pub(crate) unsafe fn probe(src: *const u8, len: usize) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    unsafe { imp::probe(src, len) }
}

/// Stores the low `size` bytes (1, 2, 4 or 8) of `value` at once, after all stores before it.
///
/// # Safety
/// `dst` is in a registered range and aligned to `size`.
#[inline]
pub(crate) unsafe fn publish(dst: *mut u8, value: u64, size: usize) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    unsafe { imp::publish(dst, value, size) }
}

/// Atomically adds; returns the value before.
///
/// # Safety
/// `cell` is in a registered range and 8-byte aligned.
pub(crate) unsafe fn fetch_add(cell: *mut u64, add: u64) -> Result<u64, Fault> {
    // SAFETY: the caller's promise.
    unsafe { imp::fetch_add(cell, add) }
}

/// Atomically compares and swaps; returns the value before.
///
/// # Safety
/// As for [`fetch_add`].
pub(crate) unsafe fn compare_swap(cell: *mut u64, compare: u64, swap: u64) -> Result<u64, Fault> {
    // SAFETY: the caller's promise.
    unsafe { imp::compare_swap(cell, compare, swap) }
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use super::Fault;
    use crate::fault_mask;
    use std::sync::{LazyLock, OnceLock};

    // Every function returns 0 in eax, or 1 by way of `ferroce_guard_fault`. A fault anywhere between `begin` and `end`
    // leads there: none of the code between uses the stack, so the return address is where it was.
    std::arch::global_asm!(
        ".pushsection .text.ferroce_guard, \"ax\", @progbits",
        ".hidden ferroce_guard_begin",
        ".hidden ferroce_guard_end",
        ".hidden ferroce_guard_fault",
        ".hidden ferroce_guard_copy",
        ".hidden ferroce_guard_copy_registers",
        ".hidden ferroce_guard_copy_words",
        ".hidden ferroce_guard_probe",
        ".hidden ferroce_guard_publish1",
        ".hidden ferroce_guard_publish2",
        ".hidden ferroce_guard_publish4",
        ".hidden ferroce_guard_publish8",
        ".hidden ferroce_guard_fetch_add",
        ".hidden ferroce_guard_compare_swap",
        ".globl ferroce_guard_begin",
        ".globl ferroce_guard_end",
        ".globl ferroce_guard_fault",
        ".globl ferroce_guard_copy",
        ".globl ferroce_guard_copy_registers",
        ".globl ferroce_guard_copy_words",
        ".globl ferroce_guard_probe",
        ".globl ferroce_guard_publish1",
        ".globl ferroce_guard_publish2",
        ".globl ferroce_guard_publish4",
        ".globl ferroce_guard_publish8",
        ".globl ferroce_guard_fetch_add",
        ".globl ferroce_guard_compare_swap",
        "ferroce_guard_begin:",
        "ferroce_guard_copy:", // rdi to, rsi from, rdx bytes
        "mov rcx, rdx",
        "rep movsb",
        "xor eax, eax",
        "ret",
        "ferroce_guard_copy_registers:", // the same, for emulated processors, whose vectors are put together from words
        "cmp rdx, 64",
        "jb 3f",
        "2:",
        "mov rax, [rsi]",
        "mov rcx, [rsi + 8]",
        "mov r8, [rsi + 16]",
        "mov r9, [rsi + 24]",
        "mov [rdi], rax",
        "mov [rdi + 8], rcx",
        "mov [rdi + 16], r8",
        "mov [rdi + 24], r9",
        "mov rax, [rsi + 32]",
        "mov rcx, [rsi + 40]",
        "mov r8, [rsi + 48]",
        "mov r9, [rsi + 56]",
        "mov [rdi + 32], rax",
        "mov [rdi + 40], rcx",
        "mov [rdi + 48], r8",
        "mov [rdi + 56], r9",
        "add rsi, 64",
        "add rdi, 64",
        "sub rdx, 64",
        "cmp rdx, 64",
        "jae 2b",
        "jmp 3f",
        "ferroce_guard_copy_words:", // the same, for processors where `rep movsb` goes byte by byte
        "cmp rdx, 64",
        "jb 3f",
        "2:",
        "movups xmm0, [rsi]",
        "movups xmm1, [rsi + 16]",
        "movups xmm2, [rsi + 32]",
        "movups xmm3, [rsi + 48]",
        "movups [rdi], xmm0",
        "movups [rdi + 16], xmm1",
        "movups [rdi + 32], xmm2",
        "movups [rdi + 48], xmm3",
        "add rsi, 64",
        "add rdi, 64",
        "sub rdx, 64",
        "cmp rdx, 64",
        "jae 2b",
        "3:",
        "mov ecx, edx",
        "shr ecx, 3",
        "rep movsq",
        "mov ecx, edx",
        "and ecx, 7",
        "rep movsb",
        "xor eax, eax",
        "ret",
        "ferroce_guard_probe:", // rdi first byte, rsi last byte
        "mov al, [rsi]",
        "2:",
        "mov al, [rdi]",
        "add rdi, 4096",
        "cmp rdi, rsi",
        "jbe 2b",
        "xor eax, eax",
        "ret",
        // Stores are ordered on x86-64, those of `rep movsb` before later ones.
        "ferroce_guard_publish1:", // rdi to, rsi value
        "mov [rdi], sil",
        "xor eax, eax",
        "ret",
        "ferroce_guard_publish2:",
        "mov [rdi], si",
        "xor eax, eax",
        "ret",
        "ferroce_guard_publish4:",
        "mov [rdi], esi",
        "xor eax, eax",
        "ret",
        "ferroce_guard_publish8:",
        "mov [rdi], rsi",
        "xor eax, eax",
        "ret",
        "ferroce_guard_fetch_add:", // rdi cell, rsi add, rdx result
        "lock xadd [rdi], rsi",
        "mov [rdx], rsi",
        "xor eax, eax",
        "ret",
        "ferroce_guard_compare_swap:", // rdi cell, rsi compare, rdx swap, rcx result
        "mov rax, rsi",
        "lock cmpxchg [rdi], rdx",
        "mov [rcx], rax",
        "xor eax, eax",
        "ret",
        "ferroce_guard_end:",
        "ferroce_guard_fault:",
        "mov eax, 1",
        "ret",
        ".popsection",
    );

    // SAFETY: defined above with these signatures and the C calling convention.
    unsafe extern "C" {
        static ferroce_guard_begin: u8;
        static ferroce_guard_end: u8;
        static ferroce_guard_fault: u8;
        fn ferroce_guard_copy(dst: *mut u8, src: *const u8, len: usize) -> u32;
        fn ferroce_guard_copy_registers(dst: *mut u8, src: *const u8, len: usize) -> u32;
        fn ferroce_guard_copy_words(dst: *mut u8, src: *const u8, len: usize) -> u32;
        fn ferroce_guard_probe(first: *const u8, last: *const u8) -> u32;
        fn ferroce_guard_publish1(dst: *mut u8, value: u64) -> u32;
        fn ferroce_guard_publish2(dst: *mut u8, value: u64) -> u32;
        fn ferroce_guard_publish4(dst: *mut u8, value: u64) -> u32;
        fn ferroce_guard_publish8(dst: *mut u8, value: u64) -> u32;
        fn ferroce_guard_fetch_add(cell: *mut u64, add: u64, before: *mut u64) -> u32;
        fn ferroce_guard_compare_swap(
            cell: *mut u64,
            compare: u64,
            swap: u64,
            before: *mut u64,
        ) -> u32;
    }

    fn checked(fault: u32) -> Result<(), Fault> {
        if fault == 0 { Ok(()) } else { Err(Fault) }
    }

    #[inline]
    pub unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) -> Result<(), Fault> {
        let copy = if std::arch::is_x86_feature_detected!("ermsb") {
            ferroce_guard_copy
        } else if *IS_EMULATED {
            ferroce_guard_copy_registers
        } else {
            ferroce_guard_copy_words
        };
        // SAFETY: the caller's promise; a fault comes back as an error.
        checked(unsafe { copy(dst, src, len) })
    }

    /// Whether the processor is QEMU's emulation, by its signature.
    static IS_EMULATED: LazyLock<bool> = LazyLock::new(|| {
        use std::arch::x86_64::__cpuid;
        const UNDER_HYPERVISOR: u32 = 1 << 31;
        // With later versions of Rust than the declared one it is a safe function.
        #[allow(unused_unsafe)]
        // SAFETY: every x86-64 processor has the instruction.
        let cpuid = |leaf| unsafe { __cpuid(leaf) };
        if cpuid(1).ecx & UNDER_HYPERVISOR == 0 {
            return false;
        }
        let leaf = cpuid(0x4000_0000);
        let signature = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes);
        signature.as_flattened() == b"TCGTCGTCGTCG"
    });

    #[cfg(test)]
    type Copy = unsafe fn(*mut u8, *const u8, usize) -> Result<(), Fault>;

    /// All ways to copy, whichever this processor takes.
    #[cfg(test)]
    pub const COPIES: [Copy; 3] = [
        // SAFETY: the caller's promise is that of `copy`.
        |dst, src, len| checked(unsafe { ferroce_guard_copy(dst, src, len) }),
        // SAFETY: as above.
        |dst, src, len| checked(unsafe { ferroce_guard_copy_registers(dst, src, len) }),
        // SAFETY: as above.
        |dst, src, len| checked(unsafe { ferroce_guard_copy_words(dst, src, len) }),
    ];

    #[inline]
    pub unsafe fn probe(src: *const u8, len: usize) -> Result<(), Fault> {
        // SAFETY: the caller's promise; a fault comes back as an error.
        checked(unsafe { ferroce_guard_probe(src, src.wrapping_add(len - 1)) })
    }

    #[inline]
    pub unsafe fn publish(dst: *mut u8, value: u64, size: usize) -> Result<(), Fault> {
        let store = match size {
            1 => ferroce_guard_publish1,
            2 => ferroce_guard_publish2,
            4 => ferroce_guard_publish4,
            _ => ferroce_guard_publish8,
        };
        // SAFETY: the caller's promise; a fault comes back as an error.
        checked(unsafe { store(dst, value) })
    }

    pub unsafe fn fetch_add(cell: *mut u64, add: u64) -> Result<u64, Fault> {
        let mut before = 0;
        // SAFETY: the caller's promise; a fault comes back as an error.
        checked(unsafe { ferroce_guard_fetch_add(cell, add, &mut before) }).map(|()| before)
    }

    pub unsafe fn compare_swap(cell: *mut u64, compare: u64, swap: u64) -> Result<u64, Fault> {
        let mut before = 0;
        // SAFETY: the caller's promise; a fault comes back as an error.
        checked(unsafe { ferroce_guard_compare_swap(cell, compare, swap, &mut before) })
            .map(|()| before)
    }

    const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
    static BEFORE: OnceLock<[libc::sigaction; 2]> = OnceLock::new();

    pub fn install() {
        let before = SIGNALS.map(|signal| {
            // SAFETY: all zeroes is a valid sigaction, and the call only reads the disposition.
            unsafe {
                let mut before: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &mut before);
                before
            }
        });
        if BEFORE.set(before).is_err() {
            return;
        }
        for signal in SIGNALS {
            // SAFETY: the handler has the signature that SA_SIGINFO calls for and is async-signal-safe.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_fault as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
                libc::sigemptyset(&mut action.sa_mask);
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
    }

    extern "C" fn on_fault(
        signal: libc::c_int,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        // SAFETY: the kernel passes a valid context; the addresses are of our own code.
        unsafe {
            let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
            let at = registers[libc::REG_RIP as usize];
            if ((&raw const ferroce_guard_begin) as i64..(&raw const ferroce_guard_end) as i64)
                .contains(&at)
            {
                registers[libc::REG_RIP as usize] = (&raw const ferroce_guard_fault) as i64;
                return;
            }
        }
        // SAFETY: these are a handler's arguments.
        let is_sent_on =
            unsafe { (*info).si_code <= 0 && fault_mask::send_on(signal, info, context) };
        if !is_sent_on {
            pass_on(signal, info, context);
        }
    }

    /// Does what would have happened without us.
    fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let index = usize::from(signal != SIGNALS[0]);
        let before = BEFORE.get().map(|b| &b[index]);
        match before {
            Some(action)
                if action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN =>
            {
                // SAFETY: the program installed a handler of the signature that its flags tell.
                unsafe {
                    if action.sa_flags & libc::SA_SIGINFO != 0 {
                        let handler: extern "C" fn(
                            libc::c_int,
                            *mut libc::siginfo_t,
                            *mut libc::c_void,
                        ) = std::mem::transmute(action.sa_sigaction);
                        handler(signal, info, context);
                    } else {
                        let handler: extern "C" fn(libc::c_int) =
                            std::mem::transmute(action.sa_sigaction);
                        handler(signal);
                    }
                }
            }
            // The instruction runs again and ends the process as it should. A signal sent by kill(2) has no
            // instruction to run again, so it is raised anew.
            _ => {
                // SAFETY: all zeroes is the default disposition; `info` is valid in a handler.
                unsafe {
                    let default: libc::sigaction = std::mem::zeroed();
                    libc::sigaction(signal, &default, std::ptr::null_mut());
                    if (*info).si_code <= 0 {
                        libc::raise(signal);
                    }
                }
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod imp {
    use super::Fault;
    use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

    pub fn install() {}

    pub unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) -> Result<(), Fault> {
        // SAFETY: the caller's promise, and that the memory is still mapped.
        unsafe { std::ptr::copy_nonoverlapping(src, dst, len) };
        Ok(())
    }

    pub unsafe fn probe(_: *const u8, _: usize) -> Result<(), Fault> {
        Ok(())
    }

    pub unsafe fn publish(dst: *mut u8, value: u64, size: usize) -> Result<(), Fault> {
        fence(Ordering::Release);
        // SAFETY: the caller's promise: aligned, and still mapped.
        unsafe {
            match size {
                1 => (*dst.cast::<AtomicU8>()).store(value as u8, Ordering::Release),
                2 => (*dst.cast::<AtomicU16>()).store(value as u16, Ordering::Release),
                4 => (*dst.cast::<AtomicU32>()).store(value as u32, Ordering::Release),
                _ => (*dst.cast::<AtomicU64>()).store(value, Ordering::Release),
            }
        }
        Ok(())
    }

    pub unsafe fn fetch_add(cell: *mut u64, add: u64) -> Result<u64, Fault> {
        // SAFETY: the caller's promise: aligned, and still mapped.
        Ok(unsafe { &*cell.cast::<AtomicU64>() }.fetch_add(add, Ordering::SeqCst))
    }

    pub unsafe fn compare_swap(cell: *mut u64, compare: u64, swap: u64) -> Result<u64, Fault> {
        // SAFETY: the caller's promise: aligned, and still mapped.
        let cell = unsafe { &*cell.cast::<AtomicU64>() };
        Ok(cell
            .compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst)
            .unwrap_or_else(|before| before))
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn unmapped_memory_is_an_error_and_mapped_memory_is_not() {
        install();
        // SAFETY: a fresh mapping of two pages; the second becomes inaccessible.
        let p = unsafe {
            let (rw, anon) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            );
            let p = libc::mmap(std::ptr::null_mut(), 8192, rw, anon, -1, 0).cast::<u8>();
            libc::mprotect(p.add(4096).cast(), 4096, libc::PROT_NONE);
            p
        };
        let mut own = [7u8; 64];
        for len in 0..300 {
            let from: Vec<u8> = (0..len).map(|i| i as u8 ^ 0x5a).collect();
            for copy in imp::COPIES {
                let mut to = vec![0u8; len + 1];
                // SAFETY: both are as long.
                assert_eq!(unsafe { copy(to.as_mut_ptr(), from.as_ptr(), len) }, Ok(()));
                assert_eq!((&to[..len], to[len]), (&from[..], 0));
            }
        }
        // SAFETY: the first page is mapped; accesses to the second are what is tested.
        unsafe {
            for copy in imp::COPIES.into_iter().chain([copy as _]) {
                assert_eq!(copy(p.add(4096 - 64), own.as_ptr(), 64), Ok(()));
                assert_eq!(copy(p.add(4096 - 63), own.as_ptr(), 64), Err(Fault));
                assert_eq!(copy(own.as_mut_ptr(), p.add(4096 - 1), 2), Err(Fault));
            }
            assert_eq!(probe(p, 4096), Ok(()));
            assert_eq!(probe(p, 4097), Err(Fault));
            assert_eq!(probe(p.add(100), 8000), Err(Fault));
            for size in [1, 2, 4, 8] {
                assert_eq!(publish(p, u64::MAX, size), Ok(()));
                assert_eq!(publish(p.add(4096), 1, size), Err(Fault));
            }
            assert_eq!(fetch_add(p.cast(), 2), Ok(u64::MAX));
            assert_eq!(compare_swap(p.cast(), 1, 5), Ok(1));
            assert_eq!(compare_swap(p.cast(), 1, 6), Ok(5));
            assert_eq!(fetch_add(p.add(4096).cast(), 1), Err(Fault));
            assert_eq!(compare_swap(p.add(4096).cast(), 1, 1), Err(Fault));
            assert_eq!(*p.add(4095), 7);
        }
    }
}
