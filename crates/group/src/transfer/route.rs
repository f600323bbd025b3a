//! The route of shares to their sum, chosen by the cost of sending.
//!
//! ```text
//! chain     a -> b -> c -> d -> targets     each hop adds its share: every link carries each stripe once (the default)
//! fan-in    a -> b, c -> d, b -> d -> ...   log n steps (D6)
//! direct    a, b, c, d -> each target       one step; the target's link carries n stripes (D6's broadcast)
//! ```

use super::plan::stripes_each;
pub use crate::costs::{Costs, Sample};
use crate::layout::Layout;
use crate::slots::SlotSet;

/// The route of shares to their sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Route {
    /// One after the other.
    #[default]
    Chain,
    /// In pairs.
    FanIn,
    /// Each on its own.
    Direct,
}

impl Route {
    /// Returns the fastest route for these slots of the members of a group. In an encode, the checks of each stripe group
    /// have different holders, which take them side by side. In a rebuild of `rebuilt` shards, each shard goes to one
    /// process, whose link carries the data of all stripe groups.
    pub fn of(costs: Costs, layout: &Layout, sets: &[SlotSet], rebuilt: Option<usize>) -> Self {
        let (side_by_side, sums) = match rebuilt {
            Some(pieces) => (1, pieces.max(1) as u64),
            None => (layout.stripe_groups() as u64, layout.code().checks() as u64),
        };
        let pages = sets.iter().map(SlotSet::len).max().unwrap_or(0) as u64 / side_by_side;
        let stripes = sets.iter().map(SlotSet::len).sum::<usize>() as u64 / side_by_side;
        let end = sets.iter().flat_map(|set| set.iter().last()).max().map_or(0, |last| u64::from(last) + 1);
        Self::choose(costs, layout.code().members() as u64, pages.max(1), stripes.min(end).max(1), sums)
    }

    /// Returns the fastest route for `sources` of up to `pages` pages each, which fall into `stripes` stripes of each of
    /// `sums` sums.
    ///
    /// - direct: one step, in which the target takes all pages one after the other;
    /// - chain: as many steps as sources, of one piece each, and after the first piece all stripes once;
    /// - fan-in: log n steps with all stripes each.
    fn choose(costs: Costs, sources: u64, pages: u64, stripes: u64, sums: u64) -> Self {
        let Costs { latency_nanoseconds: latency, page_nanoseconds: page } = costs;
        let steps = u64::from(sources.next_power_of_two().ilog2());
        let piece = sums * stripes.min(stripes_each(stripes as usize, sums as usize) as u64);
        let direct = latency.saturating_add(page.saturating_mul(sources.max(sums) * pages));
        let chain = sources.saturating_mul(latency + page * piece).saturating_add(page.saturating_mul(sums * stripes));
        let fan_in = steps.saturating_mul(latency.saturating_add(page.saturating_mul(sums * stripes)));
        let quickest = [(chain, Self::Chain), (direct, Self::Direct), (fan_in, Self::FanIn)];
        quickest.into_iter().min_by_key(|(time, _)| *time).map(|(_, route)| route).expect("there are three")
    }
}

/// Returns the parent of a contributor, numbered from the leaves. In a fan-in, counted from the last, each clears the
/// lowest bit of its number.
pub(super) fn parent(route: Route, index: usize, count: usize) -> Option<usize> {
    let from_last = count - 1 - index;
    match route {
        _ if from_last == 0 => None,
        Route::Direct => None,
        Route::Chain => Some(index + 1),
        Route::FanIn => Some(count - 1 - (from_last & (from_last - 1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_core::erasure::Scheme;

    #[test]
    fn the_route_depends_on_latency_and_data_size() {
        let choose = |latency_nanoseconds, pages, stripes| {
            Route::choose(Costs { latency_nanoseconds, page_nanoseconds: 1000 }, 8, pages, stripes, 1)
        };
        assert_eq!(choose(2_000, 100_000, 100_000), Route::Chain, "much data goes over each link once");
        assert_eq!(choose(20_000, 1, 1), Route::Direct, "little goes in one step");
        assert_eq!(choose(5_000_000, 20_000, 20_000), Route::Chain);
        assert_eq!(choose(2_000_000, 3_000, 3_000), Route::FanIn, "in between, where latency is dear, few steps");
    }

    #[test]
    fn large_transfers_to_one_target_use_a_chain() {
        let costs = Costs { latency_nanoseconds: 20_000, page_nanoseconds: 1000 };
        let rotating = Layout::new(Scheme::Parity, 4, 0).unwrap();
        let parity_node = Layout::new(Scheme::Parity, 4, 1).unwrap();
        let two_checks = Layout::new(Scheme::ReedSolomon { checks: 2 }, 4, 0).unwrap();
        let of = |layout, slots, rebuilt| Route::of(costs, layout, &vec![SlotSet::all(slots); 4], rebuilt);
        assert_eq!([None, Some(1)].map(|rebuilt| of(&rotating, 65536, rebuilt)), [Route::Direct, Route::Chain]);
        // With two sources, one sends to the other on every route.
        assert_eq!([None, Some(1)].map(|rebuilt| of(&two_checks, 65536, rebuilt)), [Route::Direct, Route::FanIn]);
        assert_eq!([None, Some(1)].map(|rebuilt| of(&parity_node, 65536, rebuilt)), [Route::Chain; 2]);
        assert_eq!([None, Some(1)].map(|rebuilt| of(&rotating, 1, rebuilt)), [Route::Direct; 2]);
    }

    #[test]
    fn measured_costs_ignore_disturbed_samples() {
        let costs = Costs { latency_nanoseconds: 5_000, page_nanoseconds: 700 };
        let sample = |pages, disturbance| Sample { pages, nanoseconds: 5_000 + 700 * pages + disturbance };
        let timed = [sample(1, 0), sample(1, 90_000), sample(64, 300), sample(64, 0), sample(8, 12)];
        assert_eq!(Costs::measured(&timed), Some(costs));
        assert_eq!(Costs::measured(&timed[..2]), None);
        assert_eq!(Costs::measured(&[]), None);
    }

    #[test]
    fn every_route_reaches_the_target_in_bounded_steps() {
        for route in [Route::Chain, Route::FanIn, Route::Direct] {
            for (index, count) in (1..20_usize).flat_map(|count| (0..count).map(move |index| (index, count))) {
                let mut at = index;
                let mut steps = 0;
                while let Some(next) = parent(route, at, count) {
                    assert!(next > at && next < count);
                    at = next;
                    steps += 1;
                }
                let most = match route {
                    Route::Chain => count - 1,
                    Route::FanIn => count.ilog2() as usize + 1,
                    Route::Direct => 0,
                };
                assert!(steps <= most, "{route:?}: {steps} steps for {count}");
            }
        }
    }
}
