use super::*;
use std::mem::offset_of;

const OURS: *mut c_void = std::ptr::without_provenance_mut(0x1234);
/// Where things are in the object below, in words.
const DYNAMIC: usize = 0;
const SYMBOLS: usize = 32;
const NAMES: usize = 40;
const RELOCATIONS: usize = 48;
const SLOT: usize = 60;
const WORDS: usize = 64;

fn find(name: &[u8]) -> Option<*mut c_void> {
    (name == b"open").then_some(OURS)
}

/// An object that calls `open`, as the file has it: all addresses are those of the file.
fn words() -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let at = |word: usize| (word * 8) as u64;
    let dynamic = [
        (DT_SYMTAB, at(SYMBOLS)),
        (DT_STRTAB, at(NAMES)),
        (DT_STRSZ, 6),
        (DT_JMPREL, at(RELOCATIONS)),
        (DT_PLTRELSZ, 24),
        (DT_PLTREL, DT_RELA),
        (DT_SYMENT, 24),
        (DT_RELAENT, 24),
    ];
    for (n, (tag, value)) in dynamic.into_iter().enumerate() {
        words[DYNAMIC + 2 * n] = tag;
        words[DYNAMIC + 2 * n + 1] = value;
    }
    // The second symbol, whose name is the second.
    words[SYMBOLS + 3] = 1;
    words[NAMES] = u64::from_le_bytes(*b"\0open\0\0\0");
    words[RELOCATIONS] = at(SLOT);
    words[RELOCATIONS + 1] = 1 << 32 | u64::from(JUMP_SLOT);
    words[SLOT] = 7;
    words
}

/// What becomes of the slot of such an object.
fn put(words: &mut [u64; WORDS]) -> Result<u64, &'static CStr> {
    // SAFETY: all zeros is a header.
    let mut load: Elf64_Phdr = unsafe { std::mem::zeroed() };
    load.p_type = libc::PT_LOAD;
    load.p_flags = libc::PF_R | libc::PF_W;
    load.p_memsz = (WORDS * 8) as u64;
    let mut dynamic = load;
    dynamic.p_type = libc::PT_DYNAMIC;
    dynamic.p_memsz = (SYMBOLS * 8) as u64;
    let base = words.as_mut_ptr().expose_provenance();
    let headers = [load, dynamic];
    let object = Object {
        base,
        headers: &headers,
    };
    let done = object.put(find);
    let slot = words[SLOT];
    assert_eq!(done.unwrap_or(0) == 1, slot == OURS as u64);
    done.map(|_| slot)
}

#[test]
fn a_slot_gets_our_function_and_keeps_it() {
    let mut object = words();
    assert_eq!(put(&mut object), Ok(OURS as u64));
    object[RELOCATIONS + 1] = 1 << 32 | u64::from(GLOB_DAT);
    object[SLOT] = 7;
    assert_eq!(put(&mut object), Ok(OURS as u64));
}

#[test]
fn what_is_not_ours_stays() {
    for (word, value) in [
        // Another name, a function of its own, another kind of relocation, no symbol.
        (NAMES, u64::from_le_bytes(*b"\0opem\0\0\0")),
        (SYMBOLS + 3, 1 | 5 << 48),
        (RELOCATIONS + 1, 1 << 32 | 8),
        (RELOCATIONS + 1, u64::from(JUMP_SLOT)),
    ] {
        let mut object = words();
        object[word] = value;
        assert_eq!(put(&mut object), Ok(7), "word {word}");
    }
}

#[test]
fn what_looks_strange_is_refused_unchanged() {
    assert_eq!(offset_of!(Symbol, section), 6);
    let far = 1 << 40;
    for (word, value) in [
        // Symbols, names, relocations and slots outside; other sizes and kinds; an addend.
        (1, far),
        (3, far),
        (5, far),
        (7, far),
        (9, far),
        (11, 17),
        (13, 16),
        (15, 16),
        (SYMBOLS + 3, 1000),
        (RELOCATIONS, far),
        (RELOCATIONS, (SLOT * 8 + 1) as u64),
        (RELOCATIONS + 1, 1 << 60 | u64::from(JUMP_SLOT)),
        (RELOCATIONS + 2, 8),
    ] {
        let mut object = words();
        object[word] = value;
        assert!(put(&mut object).is_err(), "word {word}: {value:#x}");
        assert_eq!(object[SLOT], 7);
    }
}
