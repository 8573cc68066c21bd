//! What this machine's processors were busy with: the work of this process's children, and that of
//! others.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};

/// What `/proc` counts in, a second.
const TICKS: f64 = 100.0;

/// Seconds in which a processor of this machine had something to do, the kernel's own work
/// included, and what a hypervisor took.
pub(crate) fn busy_seconds() -> Result<f64> {
    let text = fs::read_to_string("/proc/stat")?;
    let first = text.lines().next().unwrap_or_default();
    let mut busy = 0.0;
    for (index, field) in first.split_whitespace().skip(1).take(8).enumerate() {
        let ticks: f64 = field.parse().context("/proc/stat")?;
        // user, nice, system, idle, waiting, interrupts, soft interrupts, stolen
        if !matches!(index, 3 | 4) {
            busy += ticks / TICKS;
        }
    }
    Ok(busy)
}

/// Seconds of a processor that this process used and its children, their own included, which have
/// ended and were waited for.
fn own_seconds() -> Result<f64> {
    let text = fs::read_to_string("/proc/self/stat")?;
    // The program's name is in parentheses, and may have any; user and system time are fields 14
    // and 15, the children's 16 and 17.
    let (_, rest) = text.rsplit_once(") ").context("/proc/self/stat")?;
    let ticks: Vec<f64> = rest
        .split_whitespace()
        .skip(11)
        .take(4)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .context("/proc/self/stat")?;
    Ok(ticks.iter().sum::<f64>() / TICKS)
}

/// From a moment on, who used the processors.
pub(crate) struct Watch {
    begun: Instant,
    busy: f64,
    own: f64,
}

impl Watch {
    /// From now on.
    pub(crate) fn begin() -> Result<Watch> {
        Ok(Watch {
            begun: Instant::now(),
            busy: busy_seconds()?,
            own: own_seconds()?,
        })
    }

    /// What others than this process and its children, which must have ended, used of all
    /// processors: 0 to 1.
    pub(crate) fn others(&self) -> Result<f64> {
        let used = (busy_seconds()? - self.busy) - (own_seconds()? - self.own);
        let text = fs::read_to_string("/proc/stat")?;
        let processors = text
            .lines()
            .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
            .count();
        let there_was = self.begun.elapsed().as_secs_f64() * processors.max(1) as f64;
        Ok((used / there_was).clamp(0.0, 1.0))
    }
}
