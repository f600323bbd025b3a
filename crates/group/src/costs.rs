//! The cost of sending messages and pages, by which routes are chosen.

use minicbor::{Decode, Encode};

/// The cost of sending. The driver of a process measures it. The coordinator's measurement counts, and travels with its
/// orders, so that all processes choose alike.
#[derive(Encode, Decode, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Costs {
    /// Nanoseconds from sending a short message until it is received.
    #[n(0)]
    pub latency_nanoseconds: u64,
    /// Nanoseconds for each page, for sending and adding it.
    #[n(1)]
    pub page_nanoseconds: u64,
}

/// A timed message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Pages in it.
    pub pages: u64,
    /// Nanoseconds from sending it until it was received.
    pub nanoseconds: u64,
}

impl Costs {
    /// Fits a line through the fastest of the shortest and the fastest of the longest messages, since every disturbance
    /// makes a message slower. `None` if all have the same length.
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
