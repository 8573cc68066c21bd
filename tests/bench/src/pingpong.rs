//! Small datagrams to and fro, both ends polling.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::options::towards;

/// A side whose partner has been silent for so long gives up.
const SILENCE: Duration = Duration::from_secs(10);

/// Most bytes of a datagram: a packet of the path MTU with its headers.
const MOST: usize = 4096 + 64;

/// Answers until a datagram of one byte comes.
pub(crate) fn answer(address: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    println!("ready");
    let mut buffer = [0; MOST];
    loop {
        let (length, from) = poll(|| socket.recv_from(&mut buffer))?;
        if length == 1 {
            return Ok(());
        }
        socket.send_to(&buffer[..length], from)?;
    }
}

/// Asks `count` times and prints half of the median round trip in microseconds.
pub(crate) fn ask(address: SocketAddr, size: usize, count: usize) -> Result<()> {
    let socket = towards(address)?;
    socket.set_nonblocking(true)?;
    let message = vec![7; size.clamp(2, MOST)];
    let mut buffer = [0; MOST];
    let mut times = Vec::with_capacity(count);

    // The first tenth warms up.
    for index in 0..count + count / 10 {
        let start = Instant::now();
        socket.send_to(&message, address)?;
        poll(|| socket.recv(&mut buffer))?;
        if index >= count / 10 {
            times.push(start.elapsed());
        }
    }

    socket.send_to(&[0], address)?;
    times.sort_unstable();
    println!("{:.3}", times[times.len() / 2].as_secs_f64() * 1e6 / 2.0);
    Ok(())
}

fn poll<T>(mut receive: impl FnMut() -> std::io::Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        for _ in 0..100_000 {
            match receive() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return Ok(other?),
            }
        }
        if start.elapsed() > SILENCE {
            bail!("the other side is silent");
        }
    }
}
