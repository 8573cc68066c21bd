//! `ferroce fault`: has things go wrong on command, and says what does.

pub(crate) mod arguments;
mod scenario;

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use ferroce_control::faults::{Direction, Fault, FaultList, FaultStatus, Share};
use ferroce_control::random::random;
use ferroce_control::{Client, RuntimeDir, process};

use crate::error::Error;
use crate::show::{pretty, print, table, trimmed};
use arguments::Fault as Command;

/// How long programs have to go by what has changed.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is looked whether a fault has hit; nobody tells.
const PAUSE: Duration = Duration::from_millis(20);

/// Carries it out.
pub(crate) fn fault(dir: &RuntimeDir, command: &Command) -> Result<ExitCode, Error> {
    // What makes no sense is said whether or not there is a daemon.
    let connect = || Client::connect(dir);
    match command {
        Command::Add(options) => {
            let fault = options
                .options
                .fault(random::<u32>().into())
                .map_err(Error::Usage)?;
            add(&mut connect()?, fault, options.json)
        }
        Command::List { json } => list(&mut connect()?, *json),
        Command::Clear { id } => {
            let client = &mut connect()?;
            client.clear_faults(*id)?;
            settled(client)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Load { file, json } => {
            let faults = scenario::read(file)?;
            let faults = add_all(&mut connect()?, faults)?;
            match json {
                true => print(pretty(
                    &faults.iter().map(|one| one.id).collect::<Vec<_>>(),
                )?),
                false => print(faults.iter().map(line).collect::<String>()),
            }
        }
        Command::Wait { id, hits, timeout } => {
            let patience = Duration::from_secs(*timeout);
            wait(&mut connect()?, *id, *hits, patience)
        }
    }
}

fn add(client: &mut Client, fault: Fault, json: bool) -> Result<ExitCode, Error> {
    let added = add_all(client, vec![fault])?;
    match json {
        true => print(pretty(&added[0])?),
        false => print(line(&added[0])),
    }
}

/// Adds all of them, or none, and waits until programs go by them. Returns how they stand.
fn add_all(client: &mut Client, faults: Vec<Fault>) -> Result<Vec<FaultStatus>, Error> {
    let mut ids = Vec::new();
    for fault in faults {
        match client.add_fault(fault) {
            Ok(id) => ids.push(id),
            Err(error) => {
                for id in ids {
                    let _ = client.clear_faults(Some(id));
                }
                return Err(error.into());
            }
        }
    }

    let mut list = settled(client)?.faults;
    list.retain(|one| ids.contains(&one.id));
    // Somebody else may have cleared one meanwhile.
    match list.len() == ids.len() {
        true => Ok(list),
        false => Err(Error::Fault(
            "a fault was cleared as soon as it was added".to_owned(),
        )),
    }
}

/// Waits until every program goes by the faults as they are, and names those that do not.
fn settled(client: &mut Client) -> Result<FaultList, Error> {
    let list = client.settled_faults(PATIENCE)?;
    for program in &list.behind {
        let who = match program.pid {
            0 => program.name.clone(),
            pid => process::describe(pid),
        };
        eprintln!("ferroce: {who} does not go by it yet, and will when it runs");
    }
    Ok(list)
}

fn list(client: &mut Client, json: bool) -> Result<ExitCode, Error> {
    let list = client.faults()?;
    if json {
        return print(pretty(&list)?);
    }
    if list.faults.is_empty() {
        return print("no faults\n");
    }

    let mut rows = table(&[
        "ID",
        "FAULT",
        "FOR WHOM",
        "HOW OFTEN",
        "LEFT",
        "HITS",
        "SEED",
    ]);
    for one in &list.faults {
        let left = match (one.over, one.left_ms) {
            (true, _) => "over".to_owned(),
            (false, Some(ms)) => format!("{}.{}s", ms / 1000, ms / 100 % 10),
            (false, None) => String::new(),
        };
        rows.add_row([
            one.id.to_string(),
            one.fault.action.to_string(),
            whom(&one.fault),
            often(&one.fault),
            left,
            one.hits.to_string(),
            one.fault.seed.to_string(),
        ]);
    }
    print(trimmed(&rows))
}

/// Until a fault has hit so often.
fn wait(client: &mut Client, id: u32, hits: u64, patience: Duration) -> Result<ExitCode, Error> {
    let deadline = Instant::now() + patience;
    loop {
        let list = client.faults()?.faults;
        let found = list.iter().find(|one| one.id == id);
        let one = found.ok_or_else(|| Error::Fault(format!("there is no fault {id}")))?;
        if one.hits >= hits {
            return Ok(ExitCode::SUCCESS);
        }
        if Instant::now() >= deadline {
            let seconds = patience.as_secs();
            return Err(Error::Fault(format!(
                "fault {id} has hit {} times, not {hits}, after {seconds} s: is there what it is about? `ferroce fault list`",
                one.hits
            )));
        }
        thread::sleep(PAUSE);
    }
}

/// A fault in words.
fn line(one: &FaultStatus) -> String {
    let parts = [
        one.fault.action.to_string(),
        whom(&one.fault),
        often(&one.fault),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!(
        "fault {}: {}, seed {}\n",
        one.id,
        parts.join(", "),
        one.fault.seed
    )
}

fn whom(fault: &Fault) -> String {
    let whom = &fault.whom;
    let parts = [
        whom.qp.map(|qp| format!("queue pair {qp}")),
        whom.peer_qp.map(|qp| format!("peers of {qp}")),
        whom.program.clone(),
        whom.pid.map(|pid| format!("process {pid}")),
        (whom.direction == Direction::In).then(|| "what comes".to_owned()),
        whom.packets.as_ref().map(|packets| packets.to_string()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn often(fault: &Fault) -> String {
    let often = &fault.often;
    let parts = [
        (often.rate != Share::ALL).then(|| often.rate.to_string()),
        often.nth.map(|nth| format!("number {nth}")),
        often.every.map(|every| format!("one in {every}")),
        often.count.map(|count| match count {
            1 => "once".to_owned(),
            count => format!("{count} times"),
        }),
        fault.lasts.map(|lasts| format!("for {lasts}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
