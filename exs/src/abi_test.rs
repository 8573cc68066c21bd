//! The types and constants of [`crate::abi`] against the header, by the C compiler's word.

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use crate::abi::*;

macro_rules! check {
    ($out:expr, $c:literal = $t:ident { $($f:ident),* $(,)? }) => {{
        writeln!($out, "_Static_assert(sizeof({}) == {}, \"sizeof {}\");", $c, size_of::<$t>(), $c).unwrap();
        $(writeln!($out, "_Static_assert(offsetof({}, {}) == {}, \"{}.{}\");", $c, stringify!($f), offset_of!($t, $f),
                   $c, stringify!($f)).unwrap();)*
    }};
}

macro_rules! values {
    ($out:expr, $($v:ident),* $(,)?) => {
        $(writeln!($out, "_Static_assert({0} == {1}, \"{0}\");", stringify!($v), $v).unwrap();)*
    };
}

fn source() -> String {
    let mut out = String::from("#include <exs.h>\n");
    structures(&mut out);
    numbers(&mut out);
    out
}

/// The structures, field by field.
fn structures(out: &mut String) {
    check!(
        out,
        "exs_evt_accept_t" = EvtAccept {
            exs_evt_newsocket,
            exs_evt_addr,
            exs_evt_addrlen
        }
    );

    check!(
        out,
        "exs_evt_xfer_t" = EvtXfer {
            exs_evt_buffer,
            exs_evt_length,
            exs_evt_mhandle,
            exs_evt_flags
        }
    );

    check!(
        out,
        "exs_evt_xferfile_t" = EvtXferfile {
            exs_evt_xfervec,
            exs_evt_xfervec_cnt,
            exs_evt_length,
            exs_evt_flags
        }
    );

    check!(
        out,
        "exs_event_t" = Event {
            exs_evt_type,
            exs_evt_socket,
            exs_evt_errno,
            exs_evt_ahandle,
            exs_evt_union
        }
    );

    check!(
        out,
        "exs_acceptaddr_t" = AcceptAddr {
            exs_addr,
            exs_addrlen,
            exs_newsocket,
            exs_ahandle
        }
    );

    check!(
        out,
        "exs_iovec_t" = IoVec {
            exs_iov_base,
            exs_iov_len,
            exs_iov_mhandle
        }
    );

    check!(
        out,
        "exs_fdvec_t" = FdVec {
            exs_offset,
            exs_length,
            exs_flags,
            exs_fildes
        }
    );

    check!(
        out,
        "exs_pathvec_t" = PathVec {
            exs_offset,
            exs_length,
            exs_flags,
            exs_path
        }
    );

    check!(
        out,
        "exs_xferfile_t" = XferFile {
            exs_xfv_type,
            exs_xfv
        }
    );

    check!(
        out,
        "exs_signal_t" = ExsSignal {
            exs_sig_state,
            exs_sig_signo,
            exs_sig_value
        }
    );
}

/// Constants, and handles that are none.
fn numbers(out: &mut String) {
    values!(
        out,
        EXS_VERSION1,
        EXS_BLOCK,
        EXS_UNSIGNALED,
        EXS_SHUT_WR,
        EXS_EVTVEC_MAX,
        EXS_XFERVEC_MAX,
        EXS_LENGTH_MAX,
        EXS_FILE_LIMIT,
        EXS_SENDS_MAX,
        EXS_RECVS_MAX,
        EXS_ACCEPTS_MAX,
        EXS_QUEUES_MAX,
        EXS_QDEPTH_MAX,
        EXS_MRF_SHARED,
        EXS_MRF_SEND_DISABLE,
        EXS_MRF_RECV_DISABLE,
        EXS_EVT_CONNECT,
        EXS_EVT_ACCEPT,
        EXS_EVT_SEND,
        EXS_EVT_RECV,
        EXS_EVT_SENDFILE,
        EXS_EVT_RECVFILE,
        EXS_EVT_SHUTDOWN,
        EXS_EVT_CLOSE,
        EXS_EVF_EOF,
        EXS_IOVEC,
        EXS_FDVEC,
        EXS_PATHVEC,
        EXS_QATTR_DEPTH,
        EXS_QATTR_SIGNAL,
        EXS_QATTR_EVENTS,
        EXS_QATTR_WAIT,
        EXS_WAIT_ADAPTIVE,
        EXS_WAIT_NOTIFY,
        EXS_WAIT_BUSY_POLL,
        EXS_SIG_DISABLE,
        EXS_SIG_ENABLE,
        EXS_F_GETFILELIMIT,
        EXS_F_SETFILELIMIT,
    );

    // Pointers are no constants for an assertion; their values are for a function.
    writeln!(
        out,
        "int handles(void) {{ return EXS_QHANDLE_INVALID == (exs_qhandle_t){EXS_QHANDLE_INVALID}ul &&\n\
         EXS_MHANDLE_INVALID == (exs_mhandle_t){EXS_MHANDLE_INVALID}ul &&\n\
         EXS_MHANDLE_UNREGISTERED == (exs_mhandle_t){EXS_MHANDLE_UNREGISTERED}ul; }}\n\
         int main(void) {{ return !handles(); }}"
    )
    .unwrap();
}

/// Compiles and runs; true if both went well.
fn holds(source: &str) -> bool {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let dir = tempfile::tempdir().unwrap();
    let (file, program) = (dir.path().join("layout.c"), dir.path().join("layout"));
    std::fs::write(&file, source).unwrap();
    let compiled = Command::new("cc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg("-I")
        .arg(include)
        .arg(&file)
        .output()
        .expect("a C compiler");

    if !compiled.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&compiled.stderr));
        return false;
    }

    Command::new(program).status().unwrap().success()
}

#[test]
fn the_header_says_the_same() {
    let source = source();
    assert!(holds(&source));
    // The test can fail.
    let wrong = source.replacen("sizeof(exs_event_t) == 56", "sizeof(exs_event_t) == 48", 1);
    assert_ne!(wrong, source);
    assert!(!holds(&wrong));
}

/// The version script, the header and the boundary name the same functions.
#[test]
fn every_function_is_declared_and_exported() {
    let names = |text: &str, mark: &str| {
        let mut names: Vec<String> = text
            .match_indices("exs_")
            .filter_map(|(at, _)| {
                let rest = &text[at..];
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
                let whole = text[..at].ends_with([' ', '\t', '*']);
                (whole && rest[end..].starts_with(mark)).then(|| rest[..end].to_owned())
            })
            .collect();
        names.sort();
        names.dedup();
        names
    };

    let header = include_str!("../include/exs.h");
    let code: String = header
        .split("/*")
        .filter_map(|part| part.split_once("*/").map(|(_, code)| code))
        .collect();
    let declared = names(&code, "(");
    assert_eq!(declared, names(include_str!("../libexs.map"), ";"));
    let mut defined = names(
        concat!(
            include_str!("api/connection.rs"),
            include_str!("api/transfer.rs"),
            include_str!("api/events.rs"),
        ),
        "(",
    );

    defined.retain(|name| declared.contains(name) || name == "exs_fcntl_argument");
    let wanted: Vec<String> = declared
        .iter()
        .map(|name| match name.as_str() {
            "exs_fcntl" => "exs_fcntl_argument".to_owned(),
            name => name.to_owned(),
        })
        .collect();
    assert_eq!(defined, wanted);
    assert!(declared.len() >= 29);
}
