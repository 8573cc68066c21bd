//! A network that marks packets instead of dropping them, by the kernel's packet filter: at random,
//! as they come, and only those that say that they may be marked (RFC 3168).

use anyhow::Result;

use crate::lab::host::Host;
use crate::lab::losses::counted;
use crate::lab::netns::done;

/// What came to a host since it was told to mark packets, as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Came {
    /// All packets of RoCE; runs that left in one piece are one.
    pub packets: u64,
    /// Those that may be marked.
    pub capable: u64,
    /// CNPs, and those of them that may be marked.
    pub notices: u64,
    pub capable_notices: u64,
    /// Those that were marked.
    pub marked: u64,
}

/// Has a host mark `percent` of the packets that come to it and may be marked, and counts anew.
pub(crate) fn mark(host: &Host, percent: u32) -> Result<()> {
    const ROCE: &str = "udp dport 4791";
    const CNP: &str = "@th,64,8 0x81";
    let ip = match host.address.contains(':') {
        true => "ip6",
        false => "ip",
    };
    let mut rules = "add table inet marks; delete table inet marks; add table inet marks; \
         add chain inet marks coming { type filter hook prerouting priority -150; }; "
        .to_owned();
    for (name, which) in [
        ("roce", String::new()),
        ("capable", format!("{ip} ecn != not-ect")),
        ("notices", CNP.to_owned()),
        ("capable_notices", format!("{CNP} {ip} ecn != not-ect")),
    ] {
        rules += &format!(
            "add counter inet marks {name}; \
             add rule inet marks coming {ROCE} {which} counter name {name}; "
        );
    }
    rules += &format!(
        "add counter inet marks marked; \
         add rule inet marks coming {ROCE} {ip} ecn ect0 numgen random mod 100 < {percent} \
         counter name marked {ip} ecn set ce"
    );
    done(host.plain("nft").arg(rules))
}

/// What has come.
pub(crate) fn came(host: &Host) -> Result<Came> {
    let names = ["roce", "capable", "notices", "capable_notices", "marked"];
    let [packets, capable, notices, capable_notices, marked] = counted(host, "marks", names)?;
    Ok(Came {
        packets,
        capable,
        notices,
        capable_notices,
        marked,
    })
}
