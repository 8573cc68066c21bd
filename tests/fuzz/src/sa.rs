//! What is taken for answers of a subnet administrator: only what answers a question is one, and
//! every question ends.

use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use ferroce_fabric::cm::Time;
use ferroce_fabric::sa::{Question, SaClient};
use ferroce_wire::mad::{LEN, Mad};

const MARK: u32 = 0xfe00_0001;
const SECOND: u64 = 1_000_000_000;

#[derive(Arbitrary, Debug)]
enum Step {
    Ask {
        port: bool,
        method: u8,
        attribute: u8,
        patient: bool,
    },
    Bytes(Vec<u8>),
    /// An answer to a question, with some bytes changed.
    Answer {
        which: u8,
        status: u16,
        at: u8,
        change: u8,
    },
    Wait(u16),
    Forget(u8),
}

/// A client under any sequence of these. Returns whether a question was answered.
pub fn run(input: &[u8]) -> bool {
    let mut input = Unstructured::new(input);
    let mut client = SaClient::new(MARK);
    let mut asked: Vec<(u8, u32, Mad)> = Vec::new();
    let mut now = 0;
    let mut answered = false;

    while let Ok(step) = input.arbitrary::<Step>() {
        if input.is_empty() || asked.len() > 64 {
            break;
        }

        match step {
            Step::Ask {
                port,
                method,
                attribute,
                patient,
            } => {
                let question = Question {
                    port: 1 + u8::from(port),
                    method,
                    attribute: attribute.into(),
                    mask: 0,
                    data: [0; ferroce_wire::sa::DATA_LEN],
                    patient,
                };
                if let Some((number, mad)) =
                    client.ask(Time::from_nanos(now), question, Duration::from_secs(3))
                {
                    asked.push((question.port, number, mad));
                }
            }
            Step::Bytes(bytes) => {
                let mut mad = [0; LEN];
                let n = bytes.len().min(LEN);
                mad[..n].copy_from_slice(&bytes[..n]);
                answered |= take(&mut client, &asked, 1, &mad);
            }
            Step::Answer {
                which,
                status,
                at,
                change,
            } => {
                let Some((port, _, mad)) = asked.get(usize::from(which) % asked.len().max(1))
                else {
                    continue;
                };
                let (port, mut mad) = (*port, *mad);
                mad[3] |= 0x80;
                mad[4..6].copy_from_slice(&status.to_be_bytes());
                mad[usize::from(at)] ^= change;
                answered |= take(&mut client, &asked, port, &mad);
            }
            Step::Wait(milliseconds) => {
                now += u64::from(milliseconds) * 1_000_000;
                let due = client.handle_timeout(Time::from_nanos(now));
                assert!(due.again.len() + due.over.len() <= asked.len());
            }
            Step::Forget(which) => {
                if let Some((_, number, _)) = asked.get(usize::from(which)) {
                    client.forget(*number);
                }
            }
        }
    }

    while let Some(next) = client.next_timeout() {
        assert!(
            next <= Time::from_nanos(now + 3 * SECOND),
            "a question that never ends"
        );
        now = now.max(next.as_nanos());
        client.handle_timeout(Time::from_nanos(now));
    }

    answered
}

fn take(client: &mut SaClient, asked: &[(u8, u32, Mad)], port: u8, mad: &Mad) -> bool {
    let ours = client.is_ours(port, mad);
    let mut acks = Vec::new();
    let answer = client.receive(port, mad, &mut acks);
    assert!(ours || acks.is_empty());
    let Some((number, answer)) = answer else {
        return false;
    };
    assert!(answer.is_err() || answer.is_ok_and(|records| !records.is_empty()));
    assert!(ours && asked.iter().any(|(_, known, _)| *known == number));
    assert!(!client.is_ours(port, mad), "answered twice");
    true
}
