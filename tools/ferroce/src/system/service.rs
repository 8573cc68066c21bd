//! systemd's part: the unit, and what it sets for services.

use std::path::Path;
use std::process::Command;

use super::place::SYSFS;
use crate::error::Error;

/// The unit's name.
const UNIT: &str = "ferroced.service";
/// Where it is.
pub(super) const UNIT_FILE: &str = "/etc/systemd/system/ferroced.service";
/// What services find in their environment.
pub(super) const MANAGER_FILE: &str = "/etc/systemd/system.conf.d/ferroce.conf";

/// Whether systemd runs this machine.
pub(super) fn runs() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// The unit, which starts this very program.
pub(super) fn unit(program: &Path) -> String {
    format!(
        "# Made by `ferroce system enable`.\n\
         [Unit]\n\
         Description=ferroce, the machine's RDMA device in software\n\
         After=network.target\n\
         \n\
         [Service]\n\
         Type=notify\n\
         RuntimeDirectory=ferroce\n\
         RuntimeDirectoryMode=0755\n\
         ExecStart={} system start --foreground\n\
         Restart=on-failure\n\
         LimitNOFILE=524288\n\
         \n\
         # It needs files of its runtime directory, sockets, and links in /dev.\n\
         CapabilityBoundingSet=CAP_CHOWN CAP_NET_ADMIN\n\
         NoNewPrivileges=yes\n\
         ProtectSystem=strict\n\
         ProtectHome=yes\n\
         PrivateTmp=yes\n\
         ProtectClock=yes\n\
         ProtectControlGroups=yes\n\
         ProtectHostname=yes\n\
         ProtectKernelLogs=yes\n\
         ProtectKernelModules=yes\n\
         ProtectKernelTunables=yes\n\
         RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK\n\
         RestrictNamespaces=yes\n\
         RestrictRealtime=yes\n\
         RestrictSUIDSGID=yes\n\
         LockPersonality=yes\n\
         MemoryDenyWriteExecute=yes\n\
         SystemCallArchitectures=native\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n",
        program.display()
    )
}

/// What the manager gives to services.
pub(super) fn manager() -> String {
    format!(
        "# Made by `ferroce system enable`.\n[Manager]\nDefaultEnvironment=SYSFS_PATH={SYSFS}\n"
    )
}

/// Has systemd read its files and start the unit, now and always.
pub(super) fn start() -> Result<(), Error> {
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", "--now", UNIT])
}

/// Has it stop the unit, and forget when to start it.
pub(super) fn stop() -> Result<(), Error> {
    systemctl(&["disable", "--now", UNIT])
}

/// Has it read its files.
pub(super) fn reload() -> Result<(), Error> {
    systemctl(&["daemon-reload"])
}

fn systemctl(words: &[&str]) -> Result<(), Error> {
    let line = format!("systemctl {}", words.join(" "));
    let status = Command::new("systemctl").args(words).status();
    match status.map_err(Error::io(line.clone()))?.success() {
        true => Ok(()),
        false => Err(Error::System(format!(
            "{line} failed: `systemctl status {UNIT}` and `journalctl -u {UNIT}` say why"
        ))),
    }
}
