//! qemu-user, which runs programs of another architecture, for those alone who are in a namespace
//! of users made for it.
//!
//! Which interpreter the kernel starts for which programs is a matter of such a namespace since
//! Linux 6.7; before that it is the whole machine's, which is not ours to change.

use std::path::PathBuf;
use std::process::Command;

use crate::harness::case::Stop;
use crate::packages;

/// Debian's name for the architecture.
pub(crate) const ARCHITECTURE: &str = "arm64";

/// Registers `$emulator`, which is opened now and so need not be there in a root. The magic is the
/// head of an ELF file of AArch64, an executable or a shared one.
pub(crate) const REGISTER: &str = r#"
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf '%s' ":ferroce:M::$magic:$mask:$emulator:F" >/proc/sys/fs/binfmt_misc/register
"#;

/// Where root maps all users: newuidmap would look for root in a list, and not find it.
const AS_ROOT: &str = r#"
set -e
pipes=$(mktemp -d)
trap 'rm -r "$pipes"' EXIT
mkfifo "$pipes/inside" "$pipes/mapped"
unshare -U -m sh -c 'echo >"$0/inside"; read -r _ <"$0/mapped"; exec "$@"' "$pipes" "$@" &
read -r _ <"$pipes/inside"
echo 0 0 65536 >/proc/$!/uid_map
echo 0 0 65536 >/proc/$!/gid_map
echo >"$pipes/mapped"
wait $!
"#;

/// The emulator of [`ARCHITECTURE`].
///
/// # Errors
///
/// Skips where it cannot be had, or the kernel does not let a namespace have it.
pub(crate) fn ready() -> Result<PathBuf, Stop> {
    let unfit =
        |why: String| Stop::Skip(format!("programs of {ARCHITECTURE} cannot be run: {why}"));
    packages::ensure(packages::EMULATOR).map_err(|error| unfit(format!("{error:#}")))?;
    let emulator = PathBuf::from("/usr/bin/qemu-aarch64-static");
    let mut try_out = Command::new("unshare");
    try_out.args(["-U", "-r", "-m", "sh", "-c"]);
    try_out.arg(format!("set -e\nemulator=$0\n{REGISTER}"));
    let output = try_out
        .arg(&emulator)
        .output()
        .map_err(anyhow::Error::from)?;

    match output.status.success() {
        true => Ok(emulator),
        false => Err(unfit(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        )),
    }
}

/// What runs the words after it with the emulator and with all of a system's users, as who makes a
/// root needs them.
///
/// # Errors
///
/// As [`ready`].
pub(crate) fn with_users() -> Result<Command, Stop> {
    let emulator = ready()?;
    let mut command = match rustix::process::geteuid().is_root() {
        true => {
            let mut command = Command::new("sh");
            command.args(["-c", AS_ROOT, "sh"]);
            command
        }
        false => {
            let mut command = Command::new("unshare");
            command.args(["-U", "--map-root-user", "--map-auto", "-m"]);
            command
        }
    };

    command.args(["sh", "-c"]);
    command.arg(format!("set -e\nemulator=$0\n{REGISTER}\nexec \"$@\""));
    command.arg(emulator);
    Ok(command)
}
