//! Fabrics of a regular shape: lines of switches, and trees.

use super::{End, Fabric, adapter, switch};
use ferroce_fabric::sma::Node;

/// A line of switches with an adapter at each; adapter i is node i, its switch node `count + i`.
pub(crate) fn line(count: usize) -> Fabric {
    let adapters = (0..count).map(adapter);
    let switches = (count..2 * count).map(|number| switch(number, 4));
    let mut cables: Vec<(End, End)> = (0..count).map(|at| ((at, 1), (count + at, 1))).collect();
    cables.extend((1..count).map(|at| ((count + at - 1, 3), (count + at, 2))));
    Fabric::new(adapters.chain(switches).collect(), &cables)
}

/// Two levels: leaves with adapters, spines that connect all leaves.
pub(crate) fn tree(leaves: usize, spines: usize, adapters: usize) -> Fabric {
    let count = leaves * adapters;
    let leaf = |at: usize| count + at;
    let spine = |at: usize| count + leaves + at;
    let mut nodes: Vec<Node> = (0..count).map(adapter).collect();
    nodes.extend((0..leaves).map(|at| switch(leaf(at), (adapters + spines) as u8)));
    nodes.extend((0..spines).map(|at| switch(spine(at), leaves as u8)));
    let mut cables: Vec<(End, End)> = (0..count)
        .map(|at| ((at, 1), (leaf(at / adapters), (at % adapters + 1) as u8)))
        .collect();
    for at in 0..leaves {
        cables.extend((0..spines).map(|up| {
            (
                (leaf(at), (adapters + up + 1) as u8),
                (spine(up), (at + 1) as u8),
            )
        }));
    }

    Fabric::new(nodes, &cables)
}

/// Which of the nodes are adapters.
pub(crate) fn adapters(fabric: &Fabric) -> Vec<usize> {
    (0..fabric.nodes.len())
        .filter(|at| !fabric.nodes[*at].is_switch())
        .collect()
}
