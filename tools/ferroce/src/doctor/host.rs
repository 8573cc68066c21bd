//! What the kernel has, and grants this user.

use std::fs;
use std::net::UdpSocket;

use ferroce_control::{switches, udp, uring};
use rustix::net::{AddressFamily, SocketType, sockopt as options};
use rustix::process::Resource;

use super::Check;

/// The first kernel that steers packets among the sockets of a group by a program.
const STEERS: (u32, u32) = (4, 5);
/// The first that has all of io_uring that a helper needs.
const RECEIVES: (u32, u32) = (6, 1);

pub(super) fn checks() -> Vec<Check> {
    let uring = uring::check();
    let mode = seccomp_mode(&read("/proc/self/status"));
    vec![
        kernel(&read("/proc/sys/kernel/osrelease")),
        loopback(),
        io_uring(
            uring.clone(),
            !switches::enabled(switches::IO_URING),
            &read("/proc/sys/kernel/io_uring_disabled"),
        ),
        seccomp(mode, uring.is_ok()),
        steering(),
        receive_buffer(),
        send_buffer(),
        send_offload(),
        receive_offload(),
        memlock(),
        ipv6(),
    ]
}

fn read(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().to_owned()
}

fn kernel(release: &str) -> Check {
    const NAME: &str = "kernel";

    let found = format!("Linux {release}");
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next()?.parse::<u32>().ok();
    match number().zip(number()) {
        None => Check::note(NAME, found, "which version that is cannot be told"),
        Some(version) if version < STEERS => {
            Check::bad(NAME, found, "the device needs Linux 4.5 or later")
        }
        Some(version) if version < RECEIVES => Check::note(
            NAME,
            found,
            "from Linux 6.1 on programs receive by io_uring, with less work for the processor",
        ),
        Some(_) => Check::ok(NAME, found),
    }
}

/// `sysctl`: what `kernel.io_uring_disabled` is, if there is such a thing.
fn io_uring(tried: Result<(), String>, off: bool, sysctl: &str) -> Check {
    const NAME: &str = "io_uring";

    let why = match tried {
        Ok(()) if off => {
            let advice = "unset it: programs receive with poll(2), which takes longer";
            return Check::note(NAME, format!("{}=off", switches::IO_URING), advice);
        }
        Ok(()) => return Check::ok(NAME, "multishot receives with deferred task work"),
        Err(why) => why,
    };

    let advice = match sysctl {
        "1" | "2" => format!("`sysctl -w kernel.io_uring_disabled=0` allows it (it is {sysctl}); "),
        _ => String::new(),
    };

    let otherwise = "without it programs receive with poll(2), which takes longer";
    Check::note(NAME, why, advice + otherwise)
}

/// The mode in `/proc/PID/status`: 0 none, 1 strict, 2 a filter.
fn seccomp_mode(status: &str) -> Option<u32> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"))?;
    line.trim().parse().ok()
}

fn seccomp(mode: Option<u32>, uring: bool) -> Check {
    const NAME: &str = "seccomp";
    match (mode, uring) {
        (None | Some(0), _) => Check::ok(NAME, "no filter"),
        (Some(_), true) => Check::ok(NAME, "a filter, which lets io_uring pass"),
        (Some(_), false) => Check::note(
            NAME,
            "a filter, as containers have it",
            "it may be what refuses io_uring: allow io_uring_setup, io_uring_enter and \
             io_uring_register, or run the container with --security-opt seccomp=unconfined",
        ),
    }
}

/// Whether the kernel picks the socket of a packet by a program, as daemons have it done.
fn steering() -> Check {
    const NAME: &str = "packet steering";

    let tried = || {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        options::set_socket_reuseport(&socket, true)?;
        let anywhere = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0);
        rustix::net::bind(&socket, &anywhere)?;
        let first = libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: 0,
        };
        udp::steer(&socket, &mut [first])
    };

    match tried() {
        Ok(()) => Check::ok(NAME, "SO_REUSEPORT with a classic BPF program"),
        Err(errno) => Check::bad(
            NAME,
            format!("SO_ATTACH_REUSEPORT_CBPF: {errno}"),
            "a daemon cannot start without: it needs Linux 4.5, and a kernel of its own rather \
             than an emulation of one (qemu-user, gVisor)",
        ),
    }
}

fn receive_buffer() -> Check {
    let limit = "net.core.rmem_max";
    buffer("receive buffer", limit, udp::RECEIVE_BUFFER, |socket| {
        let _ = udp::enlarge(socket, udp::RECEIVE_BUFFER);
        options::socket_recv_buffer_size(socket)
    })
}

fn send_buffer() -> Check {
    let limit = "net.core.wmem_max";
    buffer("send buffer", limit, udp::SEND_BUFFER, |socket| {
        let _ = options::set_socket_send_buffer_size(socket, udp::SEND_BUFFER);
        options::socket_send_buffer_size(socket)
    })
}

/// Asks for a buffer. The kernel counts twice what was asked for, for its own data.
fn buffer(
    name: &'static str,
    limit: &str,
    wanted: usize,
    ask: impl FnOnce(&UdpSocket) -> rustix::io::Result<usize>,
) -> Check {
    let granted = match udp_socket(name) {
        Ok(socket) => ask(&socket).unwrap_or(0) / 2,
        Err(check) => return check,
    };
    judge_buffer(name, limit, wanted, granted)
}

fn judge_buffer(name: &'static str, limit: &str, wanted: usize, granted: usize) -> Check {
    let found = format!("{} KiB of {} KiB", granted / 1024, wanted / 1024);
    match granted >= wanted {
        true => Check::ok(name, found),
        false => Check::note(
            name,
            found,
            format!("`sysctl -w {limit}={wanted}` gives it room for bursts: more bandwidth"),
        ),
    }
}

fn send_offload() -> Check {
    const NAME: &str = "GSO";

    let socket = match udp_socket(NAME) {
        Ok(socket) => socket,
        Err(check) => return check,
    };

    match udp::set_send_offload(&socket, 0) {
        Ok(()) if !switches::enabled(switches::GSO) => Check::note(
            NAME,
            format!("{}=off", switches::GSO),
            "unset it: each packet is a system call of its own",
        ),
        Ok(()) => Check::ok(NAME, "UDP_SEGMENT"),
        Err(errno) => Check::note(
            NAME,
            format!("UDP_SEGMENT: {errno}"),
            "each packet is a system call of its own before Linux 4.18",
        ),
    }
}

fn receive_offload() -> Check {
    const NAME: &str = "GRO";
    let socket = match udp_socket(NAME) {
        Ok(socket) => socket,
        Err(check) => return check,
    };
    match udp::set_receive_offload(&socket, true) {
        Ok(()) => Check::ok(NAME, "UDP_GRO"),
        Err(errno) => Check::note(
            NAME,
            format!("UDP_GRO: {errno}"),
            "packets are received one by one before Linux 5.0",
        ),
    }
}

/// An address may be bound while the interface is down; but nothing leads there.
fn loopback() -> Check {
    const NAME: &str = "loopback";
    let reached = UdpSocket::bind("127.0.0.1:0").and_then(|socket| {
        socket.connect(socket.local_addr()?)?;
        Ok(())
    });
    match reached {
        Ok(()) => Check::ok(NAME, "127.0.0.1"),
        Err(error) => Check::bad(
            NAME,
            format!("127.0.0.1: {error}"),
            "it is down, as in a new network namespace: `ip link set lo up`",
        ),
    }
}

fn udp_socket(name: &'static str) -> Result<UdpSocket, Check> {
    UdpSocket::bind("127.0.0.1:0").map_err(|error| {
        Check::bad(
            name,
            format!("no UDP socket at 127.0.0.1: {error}"),
            "see the line of the loopback interface",
        )
    })
}

/// No limit is too low: registering memory pins none of it.
fn memlock() -> Check {
    let limit = rustix::process::getrlimit(Resource::Memlock).current;
    let limit = limit.map_or("unlimited".to_owned(), |bytes| {
        format!("{} KiB", bytes / 1024)
    });
    Check::ok("locked memory", format!("{limit}; ferroce locks none"))
}

fn ipv6() -> Check {
    const NAME: &str = "IPv6 loopback";
    match UdpSocket::bind("[::1]:0") {
        Ok(_) => Check::ok(NAME, "::1"),
        Err(error) => Check::note(
            NAME,
            format!("::1: {error}"),
            "only for devices at IPv6 addresses: `sysctl -w net.ipv6.conf.lo.disable_ipv6=0`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn kernels_are_told_apart_by_what_they_have() {
        let state = |release| kernel(release).state;
        assert_eq!(state("3.10.0-1160.el7.x86_64"), State::Bad);
        assert_eq!(state("4.4.302"), State::Bad);
        assert_eq!(state("4.5.0"), State::Note);
        assert_eq!(state("5.10.0-28-amd64"), State::Note);
        assert_eq!(state("6.1.0-18-amd64"), State::Ok);
        assert_eq!(state("6.18"), State::Ok);
        assert_eq!(state("10.0-rc1"), State::Ok);
        assert_eq!(state(""), State::Note);
    }

    #[test]
    fn who_forbids_io_uring_is_named() {
        let refused = || Err("io_uring_setup: EPERM".to_owned());
        assert_eq!(io_uring(Ok(()), false, "0").state, State::Ok);
        assert_eq!(io_uring(Ok(()), true, "0").state, State::Note);
        let check = io_uring(refused(), false, "2");
        assert_eq!(check.state, State::Note);
        assert!(check.advice.contains("kernel.io_uring_disabled=0"));
        assert!(!io_uring(refused(), false, "").advice.contains("sysctl"));

        assert_eq!(
            seccomp_mode("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1"),
            Some(2)
        );

        assert_eq!(seccomp_mode("Name:\tx"), None);
        assert_eq!(seccomp(Some(2), false).state, State::Note);
        assert_eq!(seccomp(Some(2), true).state, State::Ok);
        assert_eq!(seccomp(Some(0), false).state, State::Ok);
    }

    #[test]
    fn a_small_buffer_says_which_limit_to_raise() {
        let check = judge_buffer("receive buffer", "net.core.rmem_max", 8 << 20, 212_992);
        assert_eq!(check.state, State::Note);
        assert_eq!(check.found, "208 KiB of 8192 KiB");
        assert!(
            check.advice.contains("net.core.rmem_max=8388608"),
            "{check:?}"
        );
        let check = judge_buffer("receive buffer", "net.core.rmem_max", 8 << 20, 8 << 20);
        assert_eq!(check.state, State::Ok);
    }
}
