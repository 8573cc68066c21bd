//! Hosts that lose packets, by the kernel's packet filter: at random, one by one, of whatever kind.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::lab::host::Host;
use crate::lab::netns::done;

/// What a share is counted in.
const OF: f64 = 1e6;

/// Counters of what came, before anything was lost: their names, and which packets.
const COUNTERS: [(&str, &str); 4] = [
    ("roce", ""),
    // By the BTH's first byte, RC's and XRC's.
    ("acknowledged", "@th,64,8 { 0xd1, 0xf1 }"),
    // Any of the reserved bits beside AckReq.
    ("shown", "@th,129,7 != 0"),
    // WRITEs and READ responses behind their first packet, and the last of SENDs, with the bit.
    (
        "filled",
        "@th,131,1 1 @th,64,8 { 0x02, 0x03, 0x07, 0x08, 0x09, 0x0e, 0x0f, 0x16, \
         0xa2, 0xa3, 0xa7, 0xa8, 0xa9, 0xae, 0xaf, 0xb6 }",
    ),
];

/// What came to a host since it was told to lose packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Came {
    /// All packets of RoCE.
    pub packets: u64,
    /// Selective acknowledgements.
    pub acknowledged: u64,
    /// Packets that show that their sender understands them, or filled ones.
    pub shown: u64,
    /// Packets that are filled up to the length of their message's first.
    pub filled: u64,
}

/// Has a host lose a share of the packets that come to it, from 0 to 1, and counts anew.
pub(crate) fn lose(host: &Host, share: f64) -> Result<()> {
    lose_by(host.plain("nft"), share)
}

/// As [`lose`], by a `nft` where the packets come.
pub(crate) fn lose_by(mut nft: Command, share: f64) -> Result<()> {
    let mut rules = "add table inet loss; delete table inet loss; add table inet loss; \
         add chain inet loss coming { type filter hook input priority 0; }; "
        .to_owned();
    for (name, which) in COUNTERS {
        rules += &format!(
            "add counter inet loss {name}; \
             add rule inet loss coming udp dport 4791 {which} counter name {name}; "
        );
    }
    rules += &format!(
        "add rule inet loss coming numgen random mod {OF} < {} drop",
        (share * OF).round()
    );
    done(nft.arg(rules))
}

/// What has come.
pub(crate) fn came(host: &Host) -> Result<Came> {
    let names = COUNTERS.map(|(name, _)| name);
    let [packets, acknowledged, shown, filled] = counted(host, "loss", names)?;
    Ok(Came {
        packets,
        acknowledged,
        shown,
        filled,
    })
}

/// The packets that counters of a table of the filter have seen.
pub(super) fn counted<const N: usize>(
    host: &Host,
    table: &str,
    names: [&str; N],
) -> Result<[u64; N]> {
    let mut nft = host.plain("nft");
    nft.args(["-j", "list", "counters", "table", "inet", table]);
    let output = nft.output().context("nft")?;
    let said: Value = serde_json::from_slice(&output.stdout).context("what nft says")?;

    let objects = said["nftables"].as_array().into_iter().flatten();
    let counters: Vec<&Value> = objects.map(|object| &object["counter"]).collect();
    let mut packets = [0; N];
    for (seen, name) in packets.iter_mut().zip(names) {
        let counter = counters.iter().find(|counter| counter["name"] == name);
        let found = counter.and_then(|counter| counter["packets"].as_u64());
        *seen = found.with_context(|| format!("no counter {name} in {said}"))?;
    }
    Ok(packets)
}
