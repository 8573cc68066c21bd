//! Faults on command that the program under test sets itself: the keys of `ferroce fault load`'s
//! files, asked of the device's daemon as that command does.

use std::time::Duration;

use ferroce_cabi::direct::{ferroce_direct, ferroce_dv_device_attr};
use ferroce_cabi::{ibv_context, ibv_qp};
use ferroce_control::faults::{Fault as What, FaultStatus, Options, QpNumber};
use ferroce_control::random::random;
use ferroce_control::{Client, RuntimeDir};

use crate::device;
use crate::failure::Failure;
use crate::provider;

/// How long programs have to go by what has changed. One that is stopped will when it goes on.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a text asks for: the keys of one table `[[fault]]`, in TOML.
fn parse(text: &str, qp: Option<u32>) -> Result<What, Failure> {
    let invalid = |why: String| Failure::new(libc::EINVAL, why);
    let mut options: Options = toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
    if let Some(number) = qp {
        if options.qp.is_some() {
            let why = "the queue pair is given twice: in the text and beside it".to_owned();
            return Err(invalid(why));
        }
        options.qp = Some(QpNumber(number));
    }
    options.fault(random::<u32>().into()).map_err(invalid)
}

/// Adds a fault, for one queue pair if there is one; returns its number. This program goes by it
/// when it returns, and others that run.
///
/// # Safety
/// `context` is null or an open context, `qp` null or one of its queue pairs.
pub(crate) unsafe fn add(
    context: *mut ibv_context,
    qp: *mut ibv_qp,
    text: &str,
) -> Result<u32, Failure> {
    // SAFETY: as the caller promises.
    let provider = unsafe { provider::of_context(context) }?;
    // SAFETY: likewise.
    let qp = unsafe { number(context, qp) }?;
    let fault = parse(text, qp)?;
    // SAFETY: likewise.
    let mut client = unsafe { client(provider, context) }?;
    let id = client.add_fault(fault)?;
    // SAFETY: likewise.
    unsafe { settle(provider, context, &mut client) }?;
    Ok(id)
}

/// Ends a fault, or all.
///
/// # Safety
/// `context` is null or an open context.
pub(crate) unsafe fn clear(context: *mut ibv_context, id: Option<u32>) -> Result<(), Failure> {
    // SAFETY: as the caller promises.
    let provider = unsafe { provider::of_context(context) }?;
    // SAFETY: likewise.
    let mut client = unsafe { client(provider, context) }?;
    client.clear_faults(id)?;
    // SAFETY: likewise.
    unsafe { settle(provider, context, &mut client) }
}

/// How a fault stands. `ENOENT`: there is none of that number.
///
/// # Safety
/// `context` is null or an open context.
pub(crate) unsafe fn status(context: *mut ibv_context, id: u32) -> Result<FaultStatus, Failure> {
    // SAFETY: as the caller promises.
    let provider = unsafe { provider::of_context(context) }?;
    // SAFETY: likewise.
    let list = unsafe { client(provider, context) }?.faults()?;
    let found = list.faults.into_iter().find(|fault| fault.id == id);
    found.ok_or_else(|| Failure::new(libc::ENOENT, format!("there is no fault {id}")))
}

/// The number of a queue pair, if there is one.
///
/// # Safety
/// `qp` is null or a queue pair that was not destroyed.
pub(crate) unsafe fn number(
    context: *mut ibv_context,
    qp: *mut ibv_qp,
) -> Result<Option<u32>, Failure> {
    // SAFETY: as the caller promises.
    match unsafe { qp.as_ref() } {
        None => Ok(None),
        Some(qp) if qp.context == context => Ok(Some(qp.qp_num)),
        Some(_) => Err(Failure::new(
            libc::EINVAL,
            "the queue pair is of another context",
        )),
    }
}

/// A connection to the daemon of a context's device.
///
/// # Safety
/// An open context, and its provider.
pub(crate) unsafe fn client(
    provider: &ferroce_direct,
    context: *mut ibv_context,
) -> Result<Client, Failure> {
    // SAFETY: as the caller promises.
    let attr: ferroce_dv_device_attr = unsafe { device::query(provider, context) }?;
    let dir = RuntimeDir::resolve(Some(&device::runtime_dir(&attr)));
    Ok(Client::connect(&dir)?)
}

/// Waits until this program goes by the faults as they are, and others do that run.
///
/// # Safety
/// An open context, and its provider.
unsafe fn settle(
    provider: &ferroce_direct,
    context: *mut ibv_context,
    client: &mut Client,
) -> Result<(), Failure> {
    // SAFETY: as the caller promises.
    Failure::of(unsafe { (provider.catch_up)(context) }, device::WORDS)?;
    client.settled_faults(PATIENCE)?;
    Ok(())
}

/// A fault that the program has set. It ends when this is dropped.
#[derive(Debug)]
pub struct Fault {
    context: *mut ibv_context,
    id: u32,
}

impl Fault {
    pub(crate) fn new(context: *mut ibv_context, id: u32) -> Fault {
        Fault { context, id }
    }

    /// Its number, as `ferroce fault list` shows it.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// How often it has hit.
    ///
    /// # Errors
    /// `ENOENT`: somebody else has cleared it.
    pub fn hits(&self) -> Result<u64, Failure> {
        // SAFETY: whoever made the device has promised that the context stays open.
        unsafe { status(self.context, self.id) }.map(|status| status.hits)
    }

    /// Ends it, and says whether that went well.
    ///
    /// # Errors
    /// `ENOENT`: somebody else has cleared it.
    pub fn clear(self) -> Result<(), Failure> {
        let (context, id) = (self.context, self.id);
        std::mem::forget(self);
        // SAFETY: as above.
        unsafe { clear(context, Some(id)) }
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        // SAFETY: as above. That it is gone already, or the daemon, is no matter here.
        let _ = unsafe { clear(self.context, Some(self.id)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferroce_control::faults::Action;

    #[test]
    fn the_keys_are_those_of_a_scenario() {
        let fault = parse("drop = 'opcode=ACK'\ncount = 1\nin = true", Some(0x10002)).unwrap();
        assert_eq!(fault.action, Action::Loss);
        assert_eq!(fault.whom.qp, Some(QpNumber(0x10002)));
        assert_eq!(fault.often.count, Some(1));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, qp, word) in [
            ("", None, "what is to go wrong"),
            ("los = '1%'", None, "unknown field `los`"),
            ("loss = '1'", None, "`1` is no share"),
            ("rnr = true\nqp = 7", Some(8), "given twice"),
            (
                "port-down = 1",
                Some(8),
                "--qp means nothing to --port-down",
            ),
        ] {
            let failure = parse(text, qp).unwrap_err();
            assert_eq!(failure.errno(), libc::EINVAL);
            assert!(failure.to_string().contains(word), "{text}: {failure}");
        }
    }
}
