//! TCP connections, one after the other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow};

/// Connects `count` times to a listener of this process at `address`, and prints the median time in
/// microseconds from `connect` until the other side has accepted and said so.
pub(crate) fn run(address: SocketAddr, count: usize) -> Result<()> {
    let listener = TcpListener::bind((address.ip(), 0))?;
    let address = listener.local_addr()?;

    // The first tenth warms up.
    let warm_up = count / 10;
    let server = thread::spawn(move || -> Result<()> {
        for _ in 0..count + warm_up {
            let (mut stream, _) = listener.accept()?;
            stream.write_all(&[1])?;
        }
        Ok(())
    });

    let mut times = Vec::with_capacity(count);
    for index in 0..count + warm_up {
        let start = Instant::now();
        let mut stream = TcpStream::connect(address)?;
        stream.read_exact(&mut [0])?;
        if index >= warm_up {
            times.push(start.elapsed());
        }
    }

    server
        .join()
        .map_err(|_| anyhow!("the accepting side panicked"))??;
    times.sort_unstable();
    println!("{}", times[times.len() / 2].as_secs_f64() * 1e6);
    Ok(())
}
