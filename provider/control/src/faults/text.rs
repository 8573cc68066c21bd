//! Numbers as people write them: shares, spans of time, delays, queue pair numbers.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Visitor};

/// Why a text is no such value: what is wrong, and what is wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TextError(pub(super) String);

/// Has a type written as its text.
macro_rules! as_text {
    ($($name:ident)*) => {$(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any($crate::faults::text::Text(std::marker::PhantomData))
            }
        }
    )*};
}

pub(super) use as_text;

/// Reads a value from its text, or from a plain number.
pub(super) struct Text<T>(pub(super) std::marker::PhantomData<T>);

impl<T> Visitor<'_> for Text<T>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, in quotes")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// A share of all, in millionths: `1%`, `0.01%`, `100%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

impl Share {
    /// All.
    pub const ALL: Share = Share(1_000_000);

    /// Millionths, of which there are a million at most.
    pub fn millionths(self) -> u32 {
        self.0
    }
}

impl Default for Share {
    fn default() -> Self {
        Share::ALL
    }
}

impl FromStr for Share {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let wrong = || {
            TextError(format!(
                "`{text}` is no share: from 0.0001% to 100%, as in 1% or 0.01%"
            ))
        };
        let number = text.trim().strip_suffix('%').ok_or_else(wrong)?;
        // Ten thousand millionths are one percent.
        let millionths = decimal(number.trim_end(), 10_000).ok_or_else(wrong)?;
        match u32::try_from(millionths) {
            Ok(share @ 1..=1_000_000) => Ok(Share(share)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", Fraction(self.0.into(), 10_000))
    }
}

/// A span of time, in nanoseconds: `200us`, `1ms`, `1.5s`, `2min`; up to a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(u64);

impl Span {
    /// The longest.
    pub const MAX: Span = Span(86_400_000_000_000);

    /// So many nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// As the standard library has it.
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("µs", 1_000),
    // With the other of the two letters that look so.
    ("μs", 1_000),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("s", 1_000_000_000),
];

impl FromStr for Span {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let wrong = || {
            TextError(format!(
                "`{text}` is no span of time: a number with its unit (ns, us, ms, s, min, h), as in 200us or 1.5s, up to a day"
            ))
        };
        let text = text.trim();
        let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
        let (unit, nanos) = unit.ok_or_else(wrong)?;
        let number = text[..text.len() - unit.len()].trim_end();
        let span = Span(decimal(number, *nanos).ok_or_else(wrong)?);
        (span <= Span::MAX).then_some(span).ok_or_else(wrong)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, nanos) = match self.0 {
            0..1_000 => ("ns", 1),
            1_000..1_000_000 => ("us", 1_000),
            1_000_000..1_000_000_000 => ("ms", 1_000_000),
            _ => ("s", 1_000_000_000),
        };
        write!(f, "{}{unit}", Fraction(self.0, nanos))
    }
}

/// A delay that varies evenly about its middle: `1ms`, `1ms±200us`, `1ms+-200us`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// The middle.
    pub middle: Span,
    /// The most that it differs from that; not more than the middle.
    pub spread: Span,
}

impl Delay {
    /// The longest: what is held back is kept in memory.
    pub const MAX: Span = Span(10_000_000_000);

    /// The delay, in nanoseconds, that a random number stands for.
    pub fn draw(&self, random: u64) -> u64 {
        let (middle, spread) = (self.middle.nanos(), self.spread.nanos());
        let wide = u128::from(2 * spread + 1) * u128::from(random);
        middle - spread + (wide >> 64) as u64
    }
}

impl FromStr for Delay {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let parts = text.split_once('±').or_else(|| text.split_once("+-"));
        let (middle, spread) = match parts {
            Some((middle, spread)) => (middle.parse()?, spread.parse()?),
            None => (text.parse()?, Span::default()),
        };
        if spread > middle {
            return Err(TextError(format!(
                "`{text}`: no delay is below zero, so it cannot vary by {spread}"
            )));
        }
        if middle.nanos() + spread.nanos() > Delay::MAX.nanos() {
            let most = Delay::MAX;
            return Err(TextError(format!("`{text}`: a delay is {most} at most")));
        }
        Ok(Delay { middle, spread })
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spread {
            Span(0) => write!(f, "{}", self.middle),
            spread => write!(f, "{}±{spread}", self.middle),
        }
    }
}

/// The number of a queue pair, 24 bits, decimal or with 0x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpNumber(pub u32);

impl FromStr for QpNumber {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        match number(text.trim()) {
            Some(number @ 0..=0xff_ffff) => Ok(QpNumber(number as u32)),
            _ => Err(TextError(format!(
                "`{text}` is no queue pair number: 0 to 0xffffff, as in 0x2aa3b or 174651"
            ))),
        }
    }
}

impl fmt::Display for QpNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

as_text!(Share Span Delay QpNumber);

/// A number, decimal or with 0x.
pub(super) fn number(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = match hex {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
    plain.then(|| u64::from_str_radix(digits, radix).ok())?
}

/// A decimal number with a fraction, times `unit`. `None` where there is something else, or a
/// fraction that is not a whole one of the unit's.
fn decimal(text: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 18 {
        return None;
    }

    let scale = 10_u128.pow(fraction.len() as u32);
    let parts = fraction.parse::<u128>().ok()? * u128::from(unit);
    if parts % scale != 0 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    whole.checked_add(u64::try_from(parts / scale).ok()?)
}

/// So many parts, of which a unit has the second number: a power of ten.
struct Fraction(u64, u64);

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fraction(parts, unit) = *self;
        write!(f, "{}", parts / unit)?;
        if parts % unit != 0 {
            let width = unit.ilog10() as usize;
            let fraction = format!("{:0width$}", parts % unit);
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        Ok(())
    }
}
