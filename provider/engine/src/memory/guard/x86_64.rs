//! The accesses in instructions of known address, and the handler that knows them.

use super::{Fault, chained};
use crate::memory::fault_mask;
use std::sync::LazyLock;

// Every function returns 0 in eax, or 1 by way of `ferroce_guard_fault`. A fault anywhere between
// `begin` and `end` leads there: none of the code between uses the stack, so the return address is
// where it was.
std::arch::global_asm!(
    ".pushsection .text.ferroce_guard, \"ax\", @progbits",
    ".hidden ferroce_guard_begin",
    ".hidden ferroce_guard_end",
    ".hidden ferroce_guard_fault",
    ".hidden ferroce_guard_copy",
    ".hidden ferroce_guard_copy_registers",
    ".hidden ferroce_guard_copy_words",
    ".hidden ferroce_guard_copy_past_caches",
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
    ".globl ferroce_guard_copy_past_caches",
    ".globl ferroce_guard_probe",
    ".globl ferroce_guard_publish1",
    ".globl ferroce_guard_publish2",
    ".globl ferroce_guard_publish4",
    ".globl ferroce_guard_publish8",
    ".globl ferroce_guard_fetch_add",
    ".globl ferroce_guard_compare_swap",
    // So that profilers and debuggers name them.
    ".type ferroce_guard_copy, @function",
    ".type ferroce_guard_copy_registers, @function",
    ".type ferroce_guard_copy_words, @function",
    ".type ferroce_guard_copy_past_caches, @function",
    ".type ferroce_guard_probe, @function",
    ".type ferroce_guard_publish1, @function",
    ".type ferroce_guard_publish2, @function",
    ".type ferroce_guard_publish4, @function",
    ".type ferroce_guard_publish8, @function",
    ".type ferroce_guard_fetch_add, @function",
    ".type ferroce_guard_compare_swap, @function",
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
    "ferroce_guard_copy_past_caches:", // the same, by stores that leave the caches alone
    "cmp rdx, 128",
    "jb 3f",
    // Up to the beginning of a cache line, as usual.
    "mov ecx, edi",
    "neg ecx",
    "and ecx, 63",
    "sub rdx, rcx",
    "rep movsb",
    "cmp rdx, 64",
    "jb 3f",
    "2:",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + 32]",
    "movups xmm3, [rsi + 48]",
    "movntps [rdi], xmm0",
    "movntps [rdi + 16], xmm1",
    "movntps [rdi + 32], xmm2",
    "movntps [rdi + 48], xmm3",
    "add rsi, 64",
    "add rdi, 64",
    "sub rdx, 64",
    "cmp rdx, 64",
    "jae 2b",
    "3:",
    "mov rcx, rdx",
    "rep movsb",
    // Such stores are in no order with others, a release store after them included.
    "sfence",
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
    fn ferroce_guard_copy_past_caches(dst: *mut u8, src: *const u8, len: usize) -> u32;
    fn ferroce_guard_probe(first: *const u8, last: *const u8) -> u32;
    fn ferroce_guard_publish1(dst: *mut u8, value: u64) -> u32;
    fn ferroce_guard_publish2(dst: *mut u8, value: u64) -> u32;
    fn ferroce_guard_publish4(dst: *mut u8, value: u64) -> u32;
    fn ferroce_guard_publish8(dst: *mut u8, value: u64) -> u32;
    fn ferroce_guard_fetch_add(cell: *mut u64, add: u64, before: *mut u64) -> u32;
    fn ferroce_guard_compare_swap(cell: *mut u64, compare: u64, swap: u64, before: *mut u64)
    -> u32;
}

fn checked(fault: u32) -> Result<(), Fault> {
    if fault == 0 { Ok(()) } else { Err(Fault) }
}

#[inline]
pub(super) unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) -> Result<(), Fault> {
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

#[inline]
pub(super) unsafe fn copy_past_caches(
    dst: *mut u8,
    src: *const u8,
    len: usize,
) -> Result<(), Fault> {
    // SAFETY: the caller's promise; a fault comes back as an error.
    checked(unsafe { ferroce_guard_copy_past_caches(dst, src, len) })
}

/// Whether there is anything to gain by [`copy_past_caches`].
pub(super) fn has_way_past_caches() -> bool {
    !*IS_EMULATED
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
pub(super) const COPIES: [Copy; 4] = [
    // SAFETY: the caller's promise is that of `copy`.
    |dst, src, len| checked(unsafe { ferroce_guard_copy(dst, src, len) }),
    // SAFETY: as above.
    |dst, src, len| checked(unsafe { ferroce_guard_copy_registers(dst, src, len) }),
    // SAFETY: as above.
    |dst, src, len| checked(unsafe { ferroce_guard_copy_words(dst, src, len) }),
    // SAFETY: as above.
    |dst, src, len| checked(unsafe { ferroce_guard_copy_past_caches(dst, src, len) }),
];

#[inline]
pub(super) unsafe fn probe(src: *const u8, len: usize) -> Result<(), Fault> {
    // SAFETY: the caller's promise; a fault comes back as an error.
    checked(unsafe { ferroce_guard_probe(src, src.wrapping_add(len - 1)) })
}

#[inline]
pub(super) unsafe fn publish(dst: *mut u8, value: u64, size: usize) -> Result<(), Fault> {
    let store = match size {
        1 => ferroce_guard_publish1,
        2 => ferroce_guard_publish2,
        4 => ferroce_guard_publish4,
        _ => ferroce_guard_publish8,
    };
    // SAFETY: the caller's promise; a fault comes back as an error.
    checked(unsafe { store(dst, value) })
}

pub(super) unsafe fn fetch_add(cell: *mut u64, add: u64) -> Result<u64, Fault> {
    let mut before = 0;
    // SAFETY: the caller's promise; a fault comes back as an error.
    checked(unsafe { ferroce_guard_fetch_add(cell, add, &mut before) }).map(|()| before)
}

pub(super) unsafe fn compare_swap(cell: *mut u64, compare: u64, swap: u64) -> Result<u64, Fault> {
    let mut before = 0;
    // SAFETY: the caller's promise; a fault comes back as an error.
    checked(unsafe { ferroce_guard_compare_swap(cell, compare, swap, &mut before) })
        .map(|()| before)
}

pub(super) fn install() {
    chained::install(on_fault);
}

extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: `info` is valid in a handler.
    let is_sent = chained::is_sent(signal, unsafe { &*info });
    // SAFETY: the kernel passes a valid context; the addresses are of our own code.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let at = registers[libc::REG_RIP as usize];
        // One that was sent may meet any instruction, which goes on after it where it was.
        if !is_sent
            && ((&raw const ferroce_guard_begin) as i64..(&raw const ferroce_guard_end) as i64)
                .contains(&at)
        {
            registers[libc::REG_RIP as usize] = (&raw const ferroce_guard_fault) as i64;
            return;
        }
    }

    // SAFETY: these are a handler's arguments.
    let is_sent_on = is_sent && unsafe { fault_mask::send_on(signal, info, context) };
    if !is_sent_on {
        chained::pass_on(signal, info, context);
    }
}
