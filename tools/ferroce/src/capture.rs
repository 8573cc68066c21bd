//! `ferroce capture`: what programs of the device send and receive, as it is on the wire or would
//! be, for Wireshark or for reading. It takes what programs put into rings (`sources`), shows it in
//! the order of time, and once (`item`). What it reads there it takes for bytes; programs never
//! wait for it.

pub(crate) mod arguments;
mod frame;
mod item;
mod pcapng;
mod sources;
mod text;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ferroce_control::capture::CaptureWish;
use ferroce_control::capture::record::What;
use ferroce_control::{Client, Event, RuntimeDir};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::Error;
use arguments::Capture;
use item::{Filter, Item};
use pcapng::Pcapng;
use sources::Sources;

/// How often rings are looked at that had little in them. Programs wake nobody.
const PAUSE: Duration = Duration::from_millis(10);
/// A look that brings more is followed by the next at once.
const BUSY: u64 = 64 << 10;

/// Where what is shown goes.
enum Output {
    Pcapng(Pcapng),
    Text(Box<dyn Write>),
}

/// Captures until it is told to stop, or has had enough.
pub(crate) fn capture(dir: &RuntimeDir, options: &Capture) -> Result<ExitCode, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Error::io("taking signals"))?;
    }

    let mut client = Client::connect(dir)?;
    let device = client.status()?.device;
    let mut output = Output::open(options, &device.name)?;
    client.capture(CaptureWish {
        room: options.buffer << 20,
        snap: options.snaplen,
        verbs: options.verbs,
    })?;
    eprintln!(
        "ferroce: capturing what programs of {} send and receive",
        device.name
    );

    let mut session = Session {
        sources: Sources::default(),
        filter: Filter::new(options),
        left: options.count.unwrap_or(u64::MAX),
        shown: 0,
    };
    let ended = session.run(&mut client, &stop, options.time, &mut output);
    let dropped = session.sources.lost();
    let ended = ended.and_then(|()| output.end(session.shown, dropped));
    match ended {
        // Whoever read it has had enough.
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {}
        ended => ended?,
    }

    eprintln!(
        "{} packets captured, {dropped} records dropped",
        session.shown
    );
    Ok(ExitCode::SUCCESS)
}

/// A capture under way.
struct Session {
    sources: Sources,
    filter: Filter,
    /// Packets that are yet to be shown.
    left: u64,
    shown: u64,
}

impl Session {
    fn run(
        &mut self,
        client: &mut Client,
        stop: &AtomicBool,
        time: Option<Duration>,
        output: &mut Output,
    ) -> Result<(), Error> {
        let end = time.map(|time| Instant::now() + time);
        self.addresses(client)?;
        self.sources.take_rings(client, &self.filter)?;

        loop {
            let over = stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end);
            // Before the last look, too: a program may have come and gone since.
            while let Some(event) = client.try_event() {
                self.heed(event, client, stop)?;
            }
            let bytes = self.sources.look()?;
            for item in self.sources.ready(over) {
                self.show(&item, output)?;
                if self.left == 0 {
                    return Ok(());
                }
            }
            output.flush()?;
            if over {
                return Ok(());
            }

            let pause = if bytes > BUSY { Duration::ZERO } else { PAUSE };
            if let Some(event) = client.wait_event(pause) {
                self.heed(event, client, stop)?;
            }
        }
    }

    fn heed(&mut self, event: Event, client: &mut Client, stop: &AtomicBool) -> Result<(), Error> {
        match event {
            Event::Captures => self.sources.take_rings(client, &self.filter)?,
            Event::GidChange => self.addresses(client)?,
            Event::Shutdown => {
                eprintln!("ferroce: the daemon has gone, and the device with it");
                stop.store(true, Ordering::Relaxed);
            }
            Event::PortState { .. } | Event::Port { .. } | Event::Faults => {}
        }
        Ok(())
    }

    fn addresses(&mut self, client: &mut Client) -> Result<(), Error> {
        let gids = client.gids()?;
        let addresses = gids.into_iter().map(|gid| gid.addr).collect();
        self.filter.set_addresses(addresses);
        Ok(())
    }

    fn show(&mut self, item: &Item, output: &mut Output) -> Result<(), Error> {
        if !self.filter.admits(item) {
            return Ok(());
        }
        if matches!(item.record.what, What::Packet(_)) {
            self.shown += 1;
            self.left -= 1;
        }
        match output {
            Output::Pcapng(file) => file.put(item),
            Output::Text(out) => {
                writeln!(out, "{}", text::Line(item)).map_err(Error::io("writing packets"))
            }
        }
    }
}

impl Output {
    fn open(options: &Capture, device: &str) -> Result<Output, Error> {
        let stdout = || Box::new(BufWriter::new(io::stdout())) as Box<dyn Write>;
        let terminal = io::stdout().is_terminal();
        let out = match options.write.as_deref() {
            Some(path) if path != Path::new("-") => {
                let file = File::create(path).map_err(Error::io(path.display().to_string()))?;
                Box::new(BufWriter::new(file))
            }
            None if terminal || options.text => return Ok(Output::Text(stdout())),
            Some(_) if terminal => return Err(Error::Terminal),
            _ => stdout(),
        };
        Ok(Output::Pcapng(Pcapng::begin(out, device)?))
    }

    /// Nothing that was shown is kept back.
    fn flush(&mut self) -> Result<(), Error> {
        let flushed = match self {
            Output::Pcapng(file) => file.flush(),
            Output::Text(out) => out.flush(),
        };
        flushed.map_err(Error::io("writing packets"))
    }

    fn end(&mut self, shown: u64, dropped: u64) -> Result<(), Error> {
        if let Output::Pcapng(file) = self {
            file.statistics(shown, dropped)?;
        }
        self.flush()
    }
}
