//! The tasks of a process for each piece of a transfer, laid out a window ahead.

use super::Transfer;
use super::accumulator::Accumulator;
use super::plan::{Contributor, Replacement, Sum};
use crate::identity::Rank;
use crate::message::Node;
use std::collections::{BTreeMap, VecDeque};

impl Transfer {
    /// Returns the processes that send this one parts of a sum.
    pub(super) fn senders_of(&self, sum: &Sum) -> Vec<Rank> {
        let (me, source) = (Some(self.ranks.me), |position: usize| self.source(sum, position));
        let sink = |position: usize| self.ranks.sinks[position];
        let is_target = sum.targets.iter().any(|target| sink(target.position) == me);
        let to_me = |it: &&Contributor| match it.parent {
            Some(parent) => source(sum.contributors[parent].position) == me,
            None => is_target,
        };
        let senders = sum.contributors.iter().filter(to_me).map(|it| source(it.position));
        let is_replacement = |(_, replacements): &(_, Vec<Replacement>)| {
            replacements.iter().any(|replacement| sink(replacement.position) == me)
        };
        let solver = sum.repair.as_ref().filter(|repair| is_replacement(repair)).map(|_| sink(sum.targets[0].position));
        senders.chain(solver).flatten().filter(|rank| Some(*rank) != me).collect()
    }

    /// Returns how many pages of a piece are at this process's nodes of the tree.
    pub(super) fn pages_here(&self, sum: &Sum, piece: usize) -> usize {
        let me = Some(self.ranks.me);
        let hops = sum.contributors.iter().filter(|it| self.source(sum, it.position) == me);
        let in_hops: u32 = hops.map(|it| it.below(piece).count_ones()).sum();
        let targets = sum.targets.iter().filter(|it| self.ranks.sinks[it.position] == me);
        let replacements = sum.repair.iter().flat_map(|(_, replacements)| replacements);
        let replacements = replacements.filter(|it| self.ranks.sinks[it.position] == me).count();
        let whole = targets.map(|it| it.sums.len()).sum::<usize>() + replacements;
        in_hops as usize * sum.width + whole * sum.piece_stripes(piece).len()
    }

    /// Lays out the tasks of pieces that have entered the window.
    pub(super) fn lay_out(&mut self) {
        while self.laid_out < self.plan.pieces.min(self.low_water_mark + self.plan.window()) {
            let (mut tasks, mut owed) = (BTreeMap::new(), VecDeque::new());
            for (index, sum) in self.plan.sums.iter().enumerate() {
                let Some(piece) = self.piece_of(sum, self.laid_out) else { continue };
                self.tasks_of(sum, piece, |node, missing, owes| {
                    tasks.insert((index as u32, node), Accumulator::new(sum.stripes_at(node, piece), missing, owes));
                    if owes {
                        owed.push_back((self.laid_out, index as u32, node));
                    }
                });
            }
            self.owed.append(&mut owed);
            self.tasks.insert(self.laid_out, tasks);
            self.laid_out += 1;
        }
    }

    pub(super) fn piece_of(&self, sum: &Sum, number: u32) -> Option<usize> {
        let piece = number.checked_sub(sum.first_piece)? as usize;
        (piece < sum.pieces()).then_some(piece)
    }

    pub(super) fn tasks_of(&self, sum: &Sum, piece: usize, mut task: impl FnMut(Node, usize, bool)) {
        for (index, contributor) in sum.contributors.iter().enumerate() {
            if self.source(sum, contributor.position) != Some(self.ranks.me) || contributor.below(piece) == 0 {
                continue;
            }
            let children = contributor.children().iter();
            let missing = children.filter(|child| sum.contributors[**child].below(piece) != 0).count();
            task(Node::Hop(index as u32), missing, contributor.own(piece) != 0);
        }
        let roots = sum.roots(piece).count();
        for (index, target) in sum.targets.iter().enumerate() {
            if roots > 0 && self.ranks.sinks[target.position] == Some(self.ranks.me) {
                task(Node::Target(index as u32), roots, false);
            }
        }
        let replacements = sum.repair.iter().flat_map(|(_, replacements)| replacements.iter().enumerate());
        for (index, replacement) in replacements {
            let takes = self.ranks.sinks[replacement.position] == Some(self.ranks.me);
            if takes && replacement.position != sum.targets[0].position && replacement.stripes[piece] != 0 {
                task(Node::Replacement(index as u32), 1, false);
            }
        }
    }

    /// Returns the process that adds a position's share. In the second half, the process that took a rebuilt column adds
    /// it.
    pub(super) fn source(&self, sum: &Sum, position: usize) -> Option<Rank> {
        let second = sum.first_piece >= self.plan.second && self.plan.second < self.plan.pieces;
        let sink = if second { self.ranks.sinks[position] } else { None };
        self.ranks.sources[position].or(sink)
    }
}
