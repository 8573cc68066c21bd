//! What a picture is: what is measured over what, in which ways.

use anyhow::{Context, Result};

/// A picture.
pub(super) struct Picture {
    /// The name of its file.
    pub file: &'static str,
    pub title: &'static str,
    /// What x is.
    pub x: &'static str,
    /// The points, as they are written.
    pub xs: &'static [&'static str],
    /// What y is, and its unit.
    pub y: &'static str,
    pub unit: &'static str,
    /// Whether y is drawn by its logarithm.
    pub logarithmic: bool,
    /// Whether y falls over x: the names then stand where the curves do not begin.
    pub falls: bool,
}

/// A curve of a picture, and what a point of it is measured by.
pub(super) struct Way<M> {
    pub name: &'static str,
    pub measure: M,
}

/// A picture and how its curves are had.
pub(super) struct Scheme<M: 'static> {
    pub picture: Picture,
    pub ways: &'static [Way<M>],
}

/// 64K and its like as a number.
pub(super) fn number(x: &str) -> Result<u64> {
    let (digits, unit) = match x.as_bytes().last() {
        Some(b'K') => (&x[..x.len() - 1], 1 << 10),
        Some(b'M') => (&x[..x.len() - 1], 1 << 20),
        _ => (x, 1),
    };
    let count: u64 = digits.parse().with_context(|| x.to_owned())?;
    Ok(count * unit)
}

#[cfg(test)]
mod tests {
    use super::super::{emulated, ways};
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(number("64").unwrap(), 64);
        assert_eq!(number("8K").unwrap(), 8192);
        assert_eq!(number("4M").unwrap(), 4 << 20);
        assert!(number("M").is_err());
    }

    #[test]
    fn every_point_is_a_number() {
        let ours = ways::SCHEMES.iter().map(|scheme| &scheme.picture);
        let theirs = emulated::SCHEMES.iter().map(|scheme| &scheme.picture);
        for picture in ours.chain(theirs) {
            for x in picture.xs {
                assert!(number(x).is_ok() || x.parse::<f64>().is_ok(), "{x}");
            }
        }
    }
}
