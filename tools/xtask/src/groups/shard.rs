//! A share of the cases, so that several machines do one run.

use std::str::FromStr;

/// Every `of`-th case, from number `first` on (from 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    first: usize,
    of: usize,
}

impl Shard {
    /// Whether the case of this number (from 0) belongs to it.
    pub fn has(self, case: usize) -> bool {
        case % self.of == self.first
    }
}

impl FromStr for Shard {
    type Err = String;

    /// `K/N`, where K counts from 1.
    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text
            .split_once('/')
            .and_then(|(k, n)| Some((k.parse::<usize>().ok()?, n.parse::<usize>().ok()?)));
        match numbers {
            Some((k, of)) if (1..=of).contains(&k) => Ok(Shard { first: k - 1, of }),
            _ => Err("two numbers K/N are wanted, K from 1 to N".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_all_cases() {
        let shards: Vec<Shard> = (1..=3).map(|k| format!("{k}/3").parse().unwrap()).collect();
        for case in 0..10 {
            let takers = shards.iter().filter(|shard| shard.has(case)).count();
            assert_eq!(takers, 1, "case {case}");
        }
        for bad in ["", "1", "0/3", "4/3", "1/0", "a/2", "1/2/3"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
