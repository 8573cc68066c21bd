//! A share of the cases, so that several machines do one run. Cases that follow each other stay
//! together.

use std::cmp::Reverse;
use std::str::FromStr;

/// One of so many shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 0.
    number: usize,
    of: usize,
}

impl Shard {
    /// Which of the lots, told by how many cases each has, belong to it. Every machine comes to the
    /// same shares.
    pub fn lots(self, sizes: &[usize]) -> Vec<bool> {
        let mut by_size: Vec<usize> = (0..sizes.len()).collect();
        by_size.sort_by_key(|&lot| Reverse(sizes[lot]));
        let mut taken = vec![0; self.of];
        let mut ours = vec![false; sizes.len()];
        for lot in by_size {
            // The largest first, each to whoever has least so far.
            let least = (0..self.of).min_by_key(|&shard| taken[shard]).unwrap_or(0);
            taken[least] += sizes[lot];
            ours[lot] = least == self.number;
        }
        ours
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
            Some((k, of)) if (1..=of).contains(&k) => Ok(Shard { number: k - 1, of }),
            _ => Err("two numbers K/N are wanted, K from 1 to N".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_all_lots() {
        let sizes = [1, 40, 1, 1, 20, 25, 1];
        let shards = (1..=3).map(|k| format!("{k}/3").parse::<Shard>().unwrap());
        let shares: Vec<Vec<bool>> = shards.map(|shard| shard.lots(&sizes)).collect();
        for lot in 0..sizes.len() {
            let takers = shares.iter().filter(|share| share[lot]).count();
            assert_eq!(takers, 1, "lot {lot}");
        }

        let of = |share: &Vec<bool>| -> usize {
            let ours = sizes.iter().zip(share).filter(|(_, ours)| **ours);
            ours.map(|(size, _)| size).sum()
        };
        assert_eq!(shares.iter().map(of).collect::<Vec<_>>(), [40, 25, 24]);
        for bad in ["", "1", "0/3", "4/3", "1/0", "a/2", "1/2/3"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
