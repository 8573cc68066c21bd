//! Faults on command (`ferroce fault`), as stock programs see them: in memory between programs of
//! one device, and over sockets between two.

mod connections;
mod errors;
mod packets;
mod told;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::harness::case::{Case, Ending, Stop};
use crate::harness::process::{self, Finished};
use crate::lab::environment::counter;
use crate::lab::host::Host;
use crate::lab::{Lab, Place, Site};
use crate::programs::perftest::{Ends, Pair};
use crate::programs::stream::{Streams, all_right};

pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// Through memory, and over sockets.
const PLACES: [Place; 2] = [Place::OneDaemon, Place::TwoDaemons];

/// What a case does in a place.
type Does = fn(&Scene<'_>) -> Ending;

/// Cases of both places.
const IN_BOTH: [(&str, Does); 10] = [
    ("lost packets", packets::lost),
    ("a bandwidth over losses", packets::bandwidth),
    ("nothing arrives", packets::all_lost),
    ("damaged packets", packets::damaged),
    ("wrong data", packets::wrong_data),
    ("duplicates", packets::duplicates),
    ("packets out of order", packets::out_of_order),
    ("receivers that are not ready", errors::not_ready),
    ("NAKs", errors::naks),
    ("completions with errors", errors::completions),
];

pub(super) fn cases() -> Vec<Case> {
    let in_both = PLACES.into_iter().flat_map(|place| {
        IN_BOTH.map(|(what, does)| {
            let name = format!("instrument/faults/{}/{what}", place.name());
            Case::new(name, move |lab| Scene::play(lab, place, does))
        })
    });
    let delays = PLACES.map(|place| {
        let name = format!("instrument/faults/{}/delays", place.name());
        Case::new(name, move |lab| {
            // Selective acknowledgements have who is late asked, and may send again for that.
            let does = |lab: &mut Lab| Scene::play(lab, place, packets::delays);
            lab.recovering(place, "go-back-n", does)
        })
    });
    let alone: [(&str, Does); 11] = [
        ("the same seed", packets::same_seed),
        ("verbs that fail", errors::verbs),
        ("the port goes down", connections::port),
        ("a GID goes", connections::gid),
        ("refused connections", connections::refused),
        ("ended connections", connections::ended),
        ("messages that are lost", connections::lost_messages),
        ("messages that are late", connections::late_messages),
        ("told to programs", told::programs),
        ("listed, cleared, refused", told::listed),
        ("scenarios", told::scenarios),
    ];
    let alone = alone.map(|(what, does)| {
        let name = format!("instrument/faults/{what}");
        Case::new(name, move |lab| Scene::play(lab, Place::OneDaemon, does))
    });
    in_both.chain(delays).chain(alone).collect()
}

/// Hosts on which a case plays, without a fault.
pub(super) struct Scene<'a> {
    site: &'a Site,
    dir: PathBuf,
    port: u16,
}

impl Scene<'_> {
    /// Plays a case, and leaves no fault behind.
    fn play(lab: &mut Lab, place: Place, does: Does) -> Ending {
        let dir = lab.case_dir()?;
        let port = lab.port();
        let site = lab.site(place)?;
        let scene = Scene { site, dir, port };
        let ending = does(&scene);
        for host in scene.hosts() {
            scene.fault(host, &["clear"])?;
        }
        ending
    }

    fn server(&self) -> &Host {
        self.site.server()
    }

    fn client(&self) -> &Host {
        self.site.client()
    }

    /// Each once.
    fn hosts(&self) -> Vec<&Host> {
        self.site
            .other()
            .into_iter()
            .chain([self.client()])
            .collect()
    }

    /// `ferroce fault` on a host, whatever becomes of it.
    fn try_fault(&self, host: &Host, words: &[&str]) -> Result<Finished, Stop> {
        let mut command = host.ferroce();
        command.arg("fault").args(words);
        Ok(process::run(command, &self.dir, "fault", LIMIT)?)
    }

    /// `ferroce fault` on a host, which must succeed.
    fn fault(&self, host: &Host, words: &[&str]) -> Result<String, Stop> {
        let finished = self.try_fault(host, words)?;
        match finished.success() {
            true => Ok(finished.out),
            false => Err(Stop::with("`ferroce fault` fails", &[&finished])),
        }
    }

    /// Adds a fault on every host.
    fn add(&self, words: &str) -> Ending {
        let words: Vec<&str> = ["add"].into_iter().chain(words.split(' ')).collect();
        for host in self.hosts() {
            self.fault(host, &words)?;
        }
        Ok(())
    }

    fn clear(&self) -> Ending {
        for host in self.hosts() {
            self.fault(host, &["clear"])?;
        }
        Ok(())
    }

    /// All faults of a host.
    fn list(&self, host: &Host) -> Result<Vec<Value>, Stop> {
        let text = self.fault(host, &["list", "--json"])?;
        let list: Value = serde_json::from_str(&text)
            .map_err(|error| Stop::fail(format!("no JSON: {error}: {text}")))?;
        Ok(list["faults"].as_array().cloned().unwrap_or_default())
    }

    /// How often the faults of all hosts have hit.
    fn hits(&self) -> Result<u64, Stop> {
        let mut hits = 0;
        for host in self.hosts() {
            let list = self.list(host)?;
            hits += list
                .iter()
                .filter_map(|one| one["hits"].as_u64())
                .sum::<u64>();
        }
        Ok(hits)
    }

    /// The sum of a counter of all hosts.
    fn counter(&self, name: &str) -> Result<u64, Stop> {
        let mut sum = 0;
        for host in self.hosts() {
            sum += counter(&host.status()?, name);
        }
        Ok(sum)
    }

    /// A stock program's server and client, to their ends.
    fn run(&self, line: &str) -> Result<Ends, Stop> {
        let pair = Pair::of(line, self.port, LIMIT);
        pair.run(self.server(), self.client(), &self.dir)
    }

    /// The same while a fault is on; both ends must end well, data right, and a counter must grow
    /// by one for each so many hits at least.
    fn survives(&self, fault: &str, line: &str, (name, per): (&str, u64)) -> Ending {
        self.add(fault)?;
        let before = self.counter(name)?;
        self.run(line)?.clean()?;
        let (hits, grown) = (self.hits()?, self.counter(name)? - before);
        match hits > 0 && grown * per >= hits {
            true => Ok(()),
            false => Err(Stop::fail(format!(
                "{fault}: {hits} hits, and {name} has grown by {grown}"
            ))),
        }
    }

    /// A transfer of two seconds in both directions, by SEND, WRITE and READ.
    fn streams(&self) -> Result<[Finished; 2], Stop> {
        let hosts = [self.server(), self.client()];
        let streams = Streams::start(hosts, self.port, Some(2), &self.dir, LIMIT)?;
        Ok(streams.finish(LIMIT))
    }

    /// As [`survives`](Self::survives) with that transfer, each byte of which is right. The last
    /// hit of each way need not count: what it does may come to an end that has all it waited for,
    /// and has gone.
    fn streams_on(&self, fault: &str, (name, per): (&str, u64)) -> Ending {
        self.add(fault)?;
        let before = self.counter(name)?;
        let ends = self.streams()?;
        let (hits, grown) = (self.hits()?, self.counter(name)? - before);
        match ends.iter().all(all_right) && hits > 2 && grown * per >= hits - 2 {
            true => self.clear(),
            false => {
                let what = format!("{fault}: {hits} hits, and {name} has grown by {grown}");
                Err(Stop::with(what, &[&ends[0], &ends[1]]))
            }
        }
    }

    /// The same, of which an end must say something in its own words.
    fn says(&self, fault: &str, line: &str, wanted: &str) -> Ending {
        self.add(fault)?;
        let ends = self.run(line)?;
        let said = [&ends.client, &ends.server]
            .into_iter()
            .any(|end| end.out.contains(wanted) || end.err.contains(wanted));
        let failed = !ends.client.success() || !ends.server.success();
        match said && failed && self.hits()? > 0 {
            true => self.clear(),
            false => Err(ends.fail(format!("{fault}: nobody says {wanted:?}"))),
        }
    }

    /// A program on the server's host, to its end.
    fn alone(&self, words: &[&str]) -> Result<Finished, Stop> {
        let mut command = self.server().run(words[0]);
        command.args(&words[1..]);
        Ok(process::run(command, &self.dir, "alone", LIMIT)?)
    }

    fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Fails unless a program has said something.
fn said(finished: &Finished, wanted: &str) -> Ending {
    match finished.out.contains(wanted) || finished.err.contains(wanted) {
        true => Ok(()),
        false => Err(Stop::with(format!("{wanted:?} is not said"), &[finished])),
    }
}
