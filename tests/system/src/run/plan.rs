//! The cases of one round in the order in which they run.

use std::iter;

use crate::groups::Group;
use crate::harness::case::{Case, Company};
use crate::run::Shard;
use crate::run::workers::Work;

/// Cases that follow each other.
pub(super) struct Lot {
    /// What they have in common.
    pub name: String,
    /// They wait more than they compute.
    waits: bool,
    pub cases: Vec<Case>,
}

impl Lot {
    /// One that follows no other.
    pub(super) fn of_one(case: Case) -> Lot {
        Lot {
            name: case.name.clone(),
            waits: false,
            cases: vec![case],
        }
    }

    pub(super) fn work(&self) -> Work {
        Work {
            waits: self.waits,
            names: self.cases.iter().map(|case| case.name.clone()).collect(),
        }
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Plan {
    /// What cargo builds and checks: it says most in the least time.
    pub first: Vec<Case>,
    /// What may run beside each other.
    pub beside: Vec<Lot>,
    /// What looks at times.
    pub alone: Vec<Case>,
    /// What looks at times, too, but leaves the processors to another such case.
    pub in_pairs: Vec<Case>,
    /// What needs the machine's own network.
    pub at_home: Vec<Case>,
    /// What follows that.
    pub at_end: Vec<Case>,
    /// What runs beside both, on a machine of its own.
    pub apart: Vec<Case>,
}

impl Plan {
    pub(super) fn new(chosen: Vec<(&'static Group, Vec<Case>)>, shard: Option<Shard>) -> Plan {
        let cases = chosen
            .into_iter()
            .flat_map(|(group, cases)| cases.into_iter().map(move |case| (group, case)));
        let mut plan = Plan::default();
        for (group, case) in cases {
            match case.company.unwrap_or(group.company) {
                Company::Alone if group.product => plan.alone.push(case),
                Company::Alone => plan.first.push(case),
                Company::InPairs => plan.in_pairs.push(case),
                Company::AtHome => plan.at_home.push(case),
                Company::AtEnd => plan.at_end.push(case),
                Company::Apart => plan.apart.push(case),
                Company::ByPlace => {
                    plan.put_beside(place_of(&case.name).to_owned(), group.waits, case);
                }
                Company::AsOne => plan.put_beside(group.name.to_owned(), group.waits, case),
            }
        }

        // A group as one is long. Begun late, it would be all that there still is.
        plan.beside.sort_by_key(|lot| lot.name.contains('/'));
        match shard {
            Some(shard) => plan.share(shard),
            None => plan,
        }
    }

    /// All cases that do not come in lots.
    fn single(&self) -> [&Vec<Case>; 6] {
        [
            &self.first,
            &self.alone,
            &self.in_pairs,
            &self.at_home,
            &self.at_end,
            &self.apart,
        ]
    }

    /// What a shard has of it.
    fn share(mut self, shard: Shard) -> Plan {
        let beside = self.beside.iter().map(|lot| lot.cases.len());
        let sizes: Vec<usize> = beside
            .chain(iter::repeat_n(1, self.count_single()))
            .collect();
        let mut ours = shard.lots(&sizes).into_iter();
        let mut ours = || ours.next().unwrap_or_default();
        self.beside.retain(|_| ours());
        for cases in [
            &mut self.first,
            &mut self.alone,
            &mut self.in_pairs,
            &mut self.at_home,
            &mut self.at_end,
            &mut self.apart,
        ] {
            cases.retain(|_| ours());
        }
        self
    }

    fn put_beside(&mut self, lot: String, waits: bool, case: Case) {
        match self.beside.iter_mut().find(|known| known.name == lot) {
            Some(known) => known.cases.push(case),
            None => self.beside.push(Lot {
                name: lot,
                waits,
                cases: vec![case],
            }),
        }
    }

    pub(super) fn len(&self) -> usize {
        let beside = self.beside.iter().map(|lot| lot.cases.len());
        self.count_single() + beside.sum::<usize>()
    }

    fn count_single(&self) -> usize {
        self.single().map(Vec::len).iter().sum()
    }
}

/// `group/place` of a case's name; the whole of a name that has no place.
fn place_of(name: &str) -> &str {
    name.match_indices('/')
        .nth(1)
        .map_or(name, |(second, _)| &name[..second])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::choose;

    #[test]
    fn every_case_is_run_once_and_those_of_a_place_together() {
        let all = || choose(&[]).unwrap();
        let names = |cases: &[Case]| cases.iter().map(|case| case.name.clone()).collect();
        let wanted: Vec<String> = all().iter().flat_map(|(_, cases)| names(cases)).collect();
        let plan = Plan::new(all(), None);
        assert_eq!(plan.len(), wanted.len());

        let mut planned: Vec<String> = Vec::new();
        for cases in plan.single() {
            planned.extend::<Vec<_>>(names(cases));
        }
        plan.beside
            .iter()
            .for_each(|lot| planned.extend::<Vec<_>>(names(&lot.cases)));
        planned.sort();
        let mut sorted = wanted;
        sorted.sort();
        assert_eq!(planned, sorted);

        let shards = ["1/2", "2/2"].map(|shard| Plan::new(all(), Some(shard.parse().unwrap())));
        assert_eq!(shards[0].len() + shards[1].len(), plan.len());
        let whole = |lot: &Lot| {
            let in_plan = plan.beside.iter().find(|other| other.name == lot.name);
            in_plan.is_some_and(|other| other.cases.len() == lot.cases.len())
        };
        for shard in &shards {
            assert!(shard.beside.iter().all(whole));
        }

        let lots: Vec<_> = plan.beside.iter().map(|lot| &lot.name).collect();
        assert!(lots.iter().any(|lot| *lot == "cm/one-daemon"), "{lots:?}");
        assert!(lots.iter().any(|lot| *lot == "exs"), "{lots:?}");
    }

    #[test]
    fn a_place_is_the_second_part_of_a_name() {
        assert_eq!(place_of("cm/one-daemon/rping"), "cm/one-daemon");
        assert_eq!(place_of("verbs/ipv6/a/b"), "verbs/ipv6");
        assert_eq!(place_of("memcheck/shared.c"), "memcheck/shared.c");
    }
}
