//! What it costs to send messages and pages, from which routes are chosen.

use minicbor::{Decode, Encode};

/// What sending costs. Whoever drives a process measures it; what counts is what the coordinator has measured, which goes
/// out with its orders, so that all choose alike.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Costs {
    /// Nanoseconds from sending a short message until it is taken.
    #[n(0)]
    pub latency_nanoseconds: u64,
    /// Nanoseconds for each page, on a link and in adding it up.
    #[n(1)]
    pub page_nanoseconds: u64,
}

/// A message that was timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Pages in it.
    pub pages: u64,
    /// Nanoseconds from sending it until it was taken.
    pub nanoseconds: u64,
}

impl Costs {
    /// The line through the quickest of the shortest and the quickest of the longest messages: whatever disturbs a message
    /// makes it slower. `None` where all have one length.
    pub fn measured(samples: &[Sample]) -> Option<Self> {
        let quickest = |pages: u64| samples.iter().filter(|it| it.pages == pages).map(|it| it.nanoseconds).min();
        let (short, long) = (samples.iter().map(|it| it.pages).min()?, samples.iter().map(|it| it.pages).max()?);
        let (first, last) = (quickest(short)?, quickest(long)?);
        let page_nanoseconds = last.saturating_sub(first).checked_div(long - short)?;
        Some(Self {
            latency_nanoseconds: first.saturating_sub(page_nanoseconds.saturating_mul(short)),
            page_nanoseconds,
        })
    }
}
