//! What a message calls another process: its program and number, and whether it is stopped, which
//! is why it does not do what is waited for.

use std::fs;

/// `ib_write_bw (process 17)`, or `ib_write_bw (process 17, which is stopped: kill -CONT 17 lets it
/// go on)`.
pub fn describe(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    match name_and_state(&stat) {
        // Stopped by a signal, or by a debugger.
        Some((name, 'T' | 't')) => {
            format!("{name} (process {pid}, which is stopped: kill -CONT {pid} lets it go on)")
        }
        Some((name, _)) => format!("{name} (process {pid})"),
        None => format!("process {pid}"),
    }
}

/// The program's name, as far as the kernel keeps it; `None`: there is no such process.
pub fn name(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    name_and_state(&stat).map(|(name, _)| name)
}

/// The program's name, made printable, and the state.
fn name_and_state(stat: &str) -> Option<(String, char)> {
    // A name may have blanks and parentheses in it.
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let name = name.chars().filter(|c| !c.is_control()).collect();
    Some((name, after.trim_start().chars().next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_whole() {
        let read = |text| name_and_state(text);
        assert_eq!(read("7 (a b) c) T 1 2"), Some(("a b) c".into(), 'T')));
        assert_eq!(read(""), None);
        let own = describe(std::process::id());
        assert!(
            own.ends_with(&format!(" (process {})", std::process::id())),
            "{own}"
        );
        assert_eq!(describe(u32::MAX), format!("process {}", u32::MAX));
    }
}
