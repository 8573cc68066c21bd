//! The agent: the device's side of a test, an ordinary program over stock libibverbs. It posts what
//! the tester says and tells it what the device said; it decides nothing and knows nothing of
//! tests.
//!
//! One line of JSON each way (see [`ferroce_ibta::protocol`]), over standard input and output or
//! over TCP. Whoever may connect may use the device, and this process's memory as far as it was
//! registered for that: the address to listen on is the user's choice, and there is no default.

mod convert;
mod device;
mod issm;
mod library;
mod named;
mod objects;
mod post;
mod region;
mod session;
mod xrc;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ferroce_ibta::protocol::{Command, Reply};
use rustix::net::sockopt;

use device::Device;
use session::Session;

/// The longest line that is read: a write of some MiB, which takes four bytes of text for each.
const MAX_LINE: u64 = 64 << 20;

/// Serves one tester over standard input and output, until it closes them.
pub(crate) fn serve_stdio(name: &str) -> Result<()> {
    let device = Device::open(name)?;
    serve(name, &device, std::io::stdin().lock(), std::io::stdout())
}

/// Serves one tester after the other over TCP, for ever.
pub(crate) fn serve_tcp(name: &str, listen: SocketAddr) -> Result<()> {
    let device = Device::open(name)?;
    let listener = TcpListener::bind(listen).with_context(|| format!("listening at {listen}"))?;
    let address = listener.local_addr()?;
    println!("ferroce-ibta: the agent of {name} listens at {address}");
    std::io::stdout().flush()?;

    loop {
        let (stream, tester) = listener.accept().context("waiting for a tester")?;
        stream.set_nodelay(true)?;
        // One whose host has vanished must not keep others waiting for ever.
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, Duration::from_secs(20))?;
        sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(5))?;
        eprintln!("ferroce-ibta: a tester at {tester} has come");
        let served = serve(name, &device, BufReader::new(stream.try_clone()?), stream);
        match served {
            Ok(()) => eprintln!("ferroce-ibta: the tester at {tester} has gone"),
            Err(error) => eprintln!("ferroce-ibta: the tester at {tester}: {error:#}"),
        }
    }
}

/// Serves a tester until it goes. What it made on the device goes with it.
fn serve(
    name: &str,
    device: &Rc<Device>,
    mut from: impl BufRead,
    mut to: impl Write,
) -> Result<()> {
    let mut session = Session::new(name, device)?;
    let mut line = Vec::new();
    loop {
        line.clear();
        let len = (&mut from)
            .take(MAX_LINE)
            .read_until(b'\n', &mut line)
            .context("reading a command")?;
        if len == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            anyhow::bail!("a command of more than {MAX_LINE} bytes, or cut short");
        }

        let reply = match serde_json::from_slice::<Command>(&line) {
            Ok(command) => session.carry_out(command),
            Err(error) => Reply::Errno {
                code: libc::EINVAL,
                what: format!("this is no command: {error}"),
            },
        };
        let mut text = serde_json::to_vec(&reply)?;
        text.push(b'\n');
        to.write_all(&text)
            .and_then(|()| to.flush())
            .context("writing an answer")?;
    }
}
