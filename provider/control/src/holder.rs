//! Who has an address that cannot be had: found in `/proc`, as far as this user may look.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};

use crate::process;

/// The most processes that a message names.
const NAMED: usize = 3;
/// How often a table is read, as it changes meanwhile: where others open and close sockets all the
/// time, four readings have all missed a socket that was there, once in some thousand looks.
const READINGS: usize = 8;
/// Room for a table, in bytes: some five hundred sockets.
const TABLE: usize = 64 << 10;

/// ` by …`, if anything is to be found out about who receives at a UDP endpoint; else empty.
pub fn of_udp(address: SocketAddr) -> String {
    by(&sockets(address))
}

/// All who receive at a UDP port: at which address, and ` by …`.
pub fn of_port(port: u16) -> Vec<(IpAddr, String)> {
    let mut at = BTreeMap::<IpAddr, BTreeMap<u64, u32>>::new();
    for socket in ["/proc/net/udp", "/proc/net/udp6"]
        .into_iter()
        .flat_map(|table| all(table, port))
    {
        let there = at.entry(socket.ip).or_default();
        there.insert(socket.inode, socket.uid);
    }
    at.into_iter()
        .map(|(ip, sockets)| (ip, by(&sockets)))
        .collect()
}

/// Whether those who receive at a UDP endpoint have ended, and the kernel has yet to close their
/// sockets: what an io_uring held is released after its process is gone. Not told of another user's
/// sockets, whose processes this one may not look into.
pub fn has_ended(address: SocketAddr) -> bool {
    let sockets = sockets(address);
    let own = rustix::process::geteuid();
    let seen = |uid: &u32| own.is_root() || own.as_raw() == *uid;
    let inodes: Vec<u64> = sockets.keys().copied().collect();
    sockets.values().all(seen) && holders(&inodes).is_empty()
}

/// The sockets that receive at a UDP endpoint: their numbers, and whose they are.
fn sockets(address: SocketAddr) -> BTreeMap<u64, u32> {
    let table = match address {
        SocketAddr::V4(_) => "/proc/net/udp",
        SocketAddr::V6(_) => "/proc/net/udp6",
    };
    all(table, address.port())
        .into_iter()
        .filter(|socket| socket.serves(address.ip()))
        .map(|socket| (socket.inode, socket.uid))
        .collect()
}

/// The sockets at a port that a table of the kernel's lists.
fn all(table: &str, port: u16) -> BTreeSet<Socket> {
    let of_port = |text: String| -> Vec<Socket> {
        let sockets = text.lines().skip(1).filter_map(Socket::read);
        sockets.filter(|socket| socket.port == port).collect()
    };
    readings(table).flat_map(of_port).collect()
}

/// A table of the kernel's sockets. It comes in parts, and what is opened and closed between them
/// moves the rest: a socket may be passed over. So few parts are asked for (of a page each, which
/// is all that the kernel gives), and all of it more than once.
fn readings(table: &str) -> impl Iterator<Item = String> {
    (0..READINGS).map(move |_| {
        // Where there is room no small part is asked for first.
        let mut text = String::with_capacity(TABLE);
        let whole = File::open(table).and_then(|mut file| file.read_to_string(&mut text));
        whole.map_or_else(|_| String::new(), |_| text)
    })
}

/// ` by …`, of who has an abstract Unix socket.
pub fn of_unix(name: &str) -> String {
    let name = format!("@{name}");
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.get(7) == Some(&name.as_str())).then(|| words[6].parse().ok())?
    };
    let inode = readings("/proc/net/unix").find_map(|table| table.lines().find_map(of_line));
    let holders = inode.map_or(Vec::new(), |inode| holders(&[inode]));
    match holders.as_slice() {
        [] => " by another ferroced".into(),
        found => format!(" by another {}", found.join(", ")),
    }
}

fn by(sockets: &BTreeMap<u64, u32>) -> String {
    let inodes: Vec<u64> = sockets.keys().copied().collect();
    let found = holders(&inodes);
    let others = sockets.values().next();
    match (found.as_slice(), others) {
        ([], Some(uid)) => format!(" by a program of user {uid}"),
        ([], None) => String::new(),
        (found, _) => {
            let more = match found.len().saturating_sub(NAMED) {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            let named = &found[..found.len().min(NAMED)];
            format!(" by {}{more}", named.join(", "))
        }
    }
}

/// The processes that have one of these sockets open.
fn holders(inodes: &[u64]) -> Vec<String> {
    let targets: Vec<String> = inodes.iter().map(|n| format!("socket:[{n}]")).collect();
    let has = |pid: u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        files.flatten().any(|file| {
            fs::read_link(file.path()).is_ok_and(|target| {
                targets
                    .iter()
                    .any(|wanted| target.as_os_str() == wanted.as_str())
            })
        })
    };

    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&pid| has(pid))
        .map(process::describe)
        .collect()
}

/// A line of `/proc/net/udp` or `/proc/net/udp6`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Socket {
    ip: IpAddr,
    port: u16,
    uid: u32,
    inode: u64,
}

impl Socket {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (ip, port) = words.get(1)?.split_once(':')?;
        let word = |i: usize| {
            u32::from_str_radix(ip.get(8 * i..8 * i + 8)?, 16)
                .ok()
                .map(u32::to_ne_bytes)
        };

        let ip = match ip.len() {
            8 => IpAddr::from(word(0)?),
            32 => {
                let mut bytes = [0; 16];
                for (i, part) in bytes.chunks_mut(4).enumerate() {
                    part.copy_from_slice(&word(i)?);
                }
                IpAddr::from(bytes)
            }
            _ => return None,
        };

        Some(Self {
            ip,
            port: u16::from_str_radix(port, 16).ok()?,
            uid: words.get(7)?.parse().ok()?,
            inode: words.get(9)?.parse().ok()?,
        })
    }

    fn serves(&self, ip: IpAddr) -> bool {
        self.ip == ip || self.ip.is_unspecified()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    #[test]
    fn who_has_a_port_is_named() {
        let own = format!("(process {})", std::process::id());
        // Others take any port that is free, and this one as soon as it is given up.
        const ALONE_HERE: &str = "127.83.11.7";
        for ip in [ALONE_HERE, "0.0.0.0", "::1"] {
            let Ok(socket) = UdpSocket::bind((ip, 0)) else {
                eprintln!("skipped: there is no {ip} here");
                continue;
            };
            let port = socket.local_addr().unwrap().port();
            let at = of_port(port);
            let bound: IpAddr = ip.parse().unwrap();
            assert!(
                at.iter()
                    .any(|(ip, who)| *ip == bound && who.contains(&own)),
                "{ip}: {at:?}"
            );

            let asked = if ip == "::1" { "::1" } else { ALONE_HERE };
            let found = of_udp(SocketAddr::new(asked.parse().unwrap(), port));
            assert!(found.contains(&own), "{ip}: {found}");
            assert!(!has_ended(SocketAddr::new(asked.parse().unwrap(), port)));
            drop(socket);
            assert_eq!(of_udp(SocketAddr::new(asked.parse().unwrap(), port)), "");
            assert!(has_ended(SocketAddr::new(asked.parse().unwrap(), port)));
        }
    }

    /// The machine's other programs open and close sockets all the time, as `others` here.
    #[test]
    fn a_socket_is_found_while_others_come_and_go() {
        let Ok(socket) = UdpSocket::bind("127.0.0.1:0") else {
            eprintln!("skipped: there is no 127.0.0.1 here");
            return;
        };
        let address = socket.local_addr().unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let others = scope.spawn(|| {
                while !over.load(Relaxed) {
                    let few: Vec<_> = (0..60).map(|_| UdpSocket::bind("127.0.0.1:0")).collect();
                    drop(few);
                }
            });
            let missed = (0..500).filter(|_| sockets(address).is_empty()).count();
            over.store(true, Relaxed);
            others.join().unwrap();
            assert_eq!(missed, 0);
        });
    }

    #[test]
    fn lines_that_make_no_sense_name_nobody() {
        for line in [
            "",
            "1: 0100007F",
            "1: 01:12B7 x x x x x 0 x 7",
            "1: zz00007F:12B7 0 0 0 0 0 0 0 7",
        ] {
            assert_eq!(Socket::read(line), None, "{line}");
        }
    }
}
