//! `ferroce capture`: what programs of the device send and receive, as it is on the wire or would
//! be, for Wireshark or for reading. It takes what programs put into rings (`sources`), shows it in
//! the order of time, and once (`item`). What it reads there it takes for bytes; programs never
//! wait for it.

pub(crate) mod arguments;
mod frame;
mod item;
mod json;
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

/// Where what is shown goes: to one of them, or to a file and in lines besides.
#[derive(Default)]
struct Output {
    pcapng: Option<Pcapng>,
    lines: Option<Lines>,
}

/// A line for each.
struct Lines {
    json: bool,
    out: BufWriter<io::Stdout>,
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
        output.put(item)
    }
}

impl Output {
    fn open(options: &Capture, device: &str) -> Result<Output, Error> {
        let terminal = io::stdout().is_terminal();
        let file = options.write.as_deref();
        let file = file.filter(|path| *path != Path::new("-"));
        if options.json && options.write.is_some() && file.is_none() {
            let why = "--json and `-w -` are both for standard output: give -w a file";
            return Err(Error::Usage(why.to_owned()));
        }

        let mut output = Output::default();
        if options.json || options.text || options.write.is_none() && terminal {
            output.lines = Some(Lines {
                json: options.json,
                out: BufWriter::new(io::stdout()),
            });
        }
        let out: Box<dyn Write> = match file {
            Some(path) => {
                let file = File::create(path).map_err(Error::io(path.display().to_string()))?;
                Box::new(BufWriter::new(file))
            }
            None if output.lines.is_some() => return Ok(output),
            None if terminal => return Err(Error::Terminal),
            None => Box::new(BufWriter::new(io::stdout())),
        };
        output.pcapng = Some(Pcapng::begin(out, device)?);
        Ok(output)
    }

    fn put(&mut self, item: &Item) -> Result<(), Error> {
        if let Some(file) = &mut self.pcapng {
            file.put(item)?;
        }
        if let Some(lines) = &mut self.lines {
            let written = match lines.json {
                true => writeln!(lines.out, "{}", json::object(item)),
                false => writeln!(lines.out, "{}", text::Line(item)),
            };
            written.map_err(Error::io("writing packets"))?;
        }
        Ok(())
    }

    /// Nothing that was shown is kept back.
    fn flush(&mut self) -> Result<(), Error> {
        let file = self.pcapng.as_mut().map_or(Ok(()), Pcapng::flush);
        let lines = self.lines.as_mut().map_or(Ok(()), |one| one.out.flush());
        file.and(lines).map_err(Error::io("writing packets"))
    }

    fn end(&mut self, shown: u64, dropped: u64) -> Result<(), Error> {
        if let Some(file) = &mut self.pcapng {
            file.statistics(shown, dropped)?;
        }
        self.flush()
    }
}
