//! `ferroce capture`: what programs of the device send and receive, as it is on the wire or would
//! be, for Wireshark or for reading. How it comes about is in `provider/capture`.

pub(crate) mod arguments;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ferroce_capture::{Ended, Filter, Item, Line, Output as Sink, Pcapng, Session, json};
use ferroce_control::capture::CaptureWish;
use ferroce_control::{Client, RuntimeDir};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::Error;
use arguments::Capture;

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
    if options.json && options.write.as_deref() == Some(Path::new("-")) {
        let why = "--json and `-w -` are both for standard output: give -w a file";
        return Err(Error::Usage(why.to_owned()));
    }

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
    let (qps, programs) = (options.qps.clone(), options.programs.clone());
    let filter = Filter::new(qps, programs, options.both);
    let mut session = Session::new(filter, options.count.unwrap_or(u64::MAX));
    session.begin(&mut client)?;
    // Not before: from here on it ends well though the device goes.
    eprintln!(
        "ferroce: capturing what programs of {} send and receive",
        device.name
    );

    let ended = session.run(&mut client, &stop, options.time, &mut output);
    if let Ok(Ended::Gone) = ended {
        eprintln!("ferroce: the daemon has gone, and the device with it");
    }
    let (shown, dropped) = (session.shown(), session.lost());
    let ended = ended.and_then(|_| output.end(shown, dropped));
    match ended.map_err(Error::from) {
        // Whoever read it has had enough.
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {}
        ended => ended?,
    }

    eprintln!("{shown} packets captured, {dropped} records dropped");
    Ok(ExitCode::SUCCESS)
}

impl Sink for Output {
    fn put(&mut self, item: &Item) -> Result<(), ferroce_capture::Error> {
        if let Some(file) = &mut self.pcapng {
            file.put(item)?;
        }
        if let Some(lines) = &mut self.lines {
            match lines.json {
                true => writeln!(lines.out, "{}", json::object(item))?,
                false => writeln!(lines.out, "{}", Line(item))?,
            }
        }
        Ok(())
    }

    /// Nothing that was shown is kept back.
    fn flush(&mut self) -> Result<(), ferroce_capture::Error> {
        let file = self.pcapng.as_mut().map_or(Ok(()), Pcapng::flush);
        let lines = self.lines.as_mut().map_or(Ok(()), |one| one.out.flush());
        file?;
        Ok(lines?)
    }

    fn complain(&mut self, what: &str) {
        eprintln!("ferroce: {what}");
    }
}

impl Output {
    fn open(options: &Capture, device: &str) -> Result<Output, Error> {
        let terminal = io::stdout().is_terminal();
        let file = options.write.as_deref();
        let file = file.filter(|path| *path != Path::new("-"));
        let mut output = Output::default();
        if options.json || options.text || options.write.is_none() && terminal {
            output.lines = Some(Lines {
                json: options.json,
                out: BufWriter::new(io::stdout()),
            });
        }
        let out: Box<dyn Write + Send> = match file {
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

    fn end(&mut self, shown: u64, dropped: u64) -> Result<(), ferroce_capture::Error> {
        if let Some(file) = &mut self.pcapng {
            file.statistics(shown, dropped)?;
        }
        self.flush()
    }
}
