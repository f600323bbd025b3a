//! Regions that a program has excluded from its checkpoints, byte by byte, and their consequences for whole pages (L11,
//! M1).
//!
//! The latest declaration counts. The table is an ascending, disjoint list, with a log after it. A log is settled by
//! halves, with the later half overlaid on the earlier, so that this takes only `n log n`.

use super::{DirectionsError, ENTRY_BYTES, PACKED_BYTES};
use crate::{Address, PAGE_BYTES, PageRange, PageSet};

/// A program's promise about a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// No promise: the region is in every checkpoint.
    Included,
    /// Nobody reads the region before it is written again.
    Dead,
    /// Nobody writes to the region. `stamp` counts the checkpoints before this declaration, modulo 2^30; all ones if
    /// there were more.
    ReadOnly {
        /// The number of checkpoints.
        stamp: u32,
    },
}

impl Usage {
    /// Reports whether a checkpoint taken after `held` checkpoints has the content that was declared read-only.
    pub(super) fn is_held(self, held: u64) -> bool {
        matches!(self, Self::ReadOnly { stamp } if stamp != STAMP_MAX && u64::from(stamp) <= held)
    }
}

/// A range of adjoining bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Address of the first byte.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    /// The promise about them.
    pub usage: Usage,
}

/// Ascending, disjoint regions. None is [`Usage::Included`], and adjoining regions of the same usage are joined.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Regions(Vec<Region>);

/// The net effect of a log: ascending and disjoint regions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes(Vec<Region>);

/// Whole pages that need not be saved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Excluded {
    /// Pages that are wholly dead.
    pub dead: PageSet,
    /// Pages whose other bytes are read-only and held by the parent checkpoint.
    pub held: PageSet,
}

const BITS48: u64 = (1 << 48) - 1;
const STAMP_MAX: u32 = (1 << 30) - 1;

impl Region {
    /// Decodes the shorter form of entries in the base: 4 bytes of length, 2 of stamp.
    fn unpack(entry: &[u8; PACKED_BYTES]) -> Result<Self, DirectionsError> {
        let mut wide = [0; ENTRY_BYTES];
        wide[..12].copy_from_slice(&entry[..12]);
        wide[14..].copy_from_slice(&entry[12..]);
        Self::decode(&wide)
    }

    fn decode(entry: &[u8; ENTRY_BYTES]) -> Result<Self, DirectionsError> {
        let word = |at: usize| u64::from_le_bytes(entry[at..][..8].try_into().expect("eight bytes"));
        let (first, second) = (word(0), word(8));
        let start = first & BITS48;
        let stamp = ((first >> 48) as u32 & 0x3fff) | (((second >> 48) as u32) << 14);
        let usage = match first >> 62 {
            0 => Usage::Included,
            1 => Usage::Dead,
            2 => Usage::ReadOnly { stamp },
            _ => return Err(DirectionsError::Senseless),
        };
        let end = start + (second & BITS48);
        if end == start || end > 1 << 47 { Err(DirectionsError::Senseless) } else { Ok(Self { start, end, usage }) }
    }
}

impl Regions {
    /// Decodes a table: its base, and the parts after it in the order of time.
    ///
    /// # Errors
    /// If one of them makes no sense.
    pub fn decode_table<'a>(base: &[u8], log: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, DirectionsError> {
        let (entries, rest) = base.as_chunks::<PACKED_BYTES>();
        if !rest.is_empty() {
            return Err(DirectionsError::Senseless);
        }
        let base = entries.iter().map(Region::unpack).collect::<Result<Vec<_>, _>>()?;
        Ok(Self(settled(base)).changed_by(&Changes::decode(log)?))
    }

    /// Decodes the parts of a log, in the order of time.
    ///
    /// # Errors
    /// If one of them makes no sense.
    pub fn decode<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, DirectionsError> {
        Ok(Self::default().changed_by(&Changes::decode(parts)?))
    }

    /// Returns the regions after applying `changes`.
    #[must_use]
    pub fn changed_by(self, changes: &Changes) -> Self {
        // Usually there are no changes, and a table may have a million regions.
        let mut all = match (self.0.is_empty(), changes.0.is_empty()) {
            (_, true) => self.0,
            (true, _) => changes.0.clone(),
            (false, false) => overlay(&self.0, &changes.0),
        };
        all.retain(|region| region.usage != Usage::Included);
        all.dedup_by(|next, kept| {
            let is_one = kept.end == next.start && kept.usage == next.usage;
            if is_one {
                kept.end = next.end;
            }
            is_one
        });
        Self(all)
    }

    /// Returns the regions, ascending.
    pub fn all(&self) -> &[Region] {
        &self.0
    }

    /// Returns the latest usable stamp of a read-only region; `None` if a checkpoint can hold none of them.
    pub(super) fn newest_stamp(&self) -> Option<u32> {
        let stamps = self.0.iter().filter_map(|region| match region.usage {
            Usage::ReadOnly { stamp } if stamp != STAMP_MAX => Some(stamp),
            _ => None,
        });
        stamps.max()
    }

    /// Returns the parts of the regions within some pages.
    #[must_use]
    pub fn within(&self, pages: &PageSet) -> Self {
        let clipped = |range: &PageRange| {
            let (start, end) = (range.start().get(), range.end().get());
            let first = self.0.partition_point(|region| region.end <= start);
            let inside = self.0[first..].iter().take_while(move |region| region.start < end);
            inside.map(move |region| Region { start: region.start.max(start), end: region.end.min(end), ..*region })
        };
        Self(pages.ranges().iter().flat_map(clipped).collect())
    }

    /// Returns the pages that a checkpoint need not save. Its parent was taken after `held` checkpoints; `None` if it
    /// has no parent.
    pub fn excluded(&self, held: Option<u64>) -> Excluded {
        let dead = whole_pages(&self.0, |usage| usage == Usage::Dead);
        let either = whole_pages(&self.0, |usage| match usage {
            Usage::Included => false,
            Usage::Dead => true,
            Usage::ReadOnly { .. } => held.is_some_and(|held| usage.is_held(held)),
        });
        Excluded { held: either.difference(&dead), dead }
    }
}

impl Changes {
    /// Decodes the parts of a log, in the order of time.
    ///
    /// # Errors
    /// If one of them makes no sense.
    pub fn decode<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, DirectionsError> {
        let mut log = Vec::new();
        for part in parts {
            let (entries, rest) = part.as_chunks::<ENTRY_BYTES>();
            if !rest.is_empty() {
                return Err(DirectionsError::Senseless);
            }
            for entry in entries {
                log.push(Region::decode(entry)?);
            }
        }
        Ok(Self(settled(log)))
    }

    /// Reports whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the pages that the changes affect.
    pub fn pages(&self) -> PageSet {
        const PAGE: u64 = PAGE_BYTES as u64;
        let around = |region: &Region| (region.start - region.start % PAGE, region.end.next_multiple_of(PAGE));
        let pages = |(start, end)| PageRange::between(Address::new(start), Address::new(end));
        PageSet::of(self.0.iter().map(around).map(pages))
    }

    /// Reports whether any of the changes declares something read-only.
    pub fn has_read_only(&self) -> bool {
        self.0.iter().any(|region| matches!(region.usage, Usage::ReadOnly { .. }))
    }
}

/// Returns the pages that are wholly within regions of such a usage.
fn whole_pages(regions: &[Region], counts: impl Fn(Usage) -> bool) -> PageSet {
    const PAGE: u64 = PAGE_BYTES as u64;
    let mut stretches: Vec<(u64, u64)> = Vec::new();
    for region in regions.iter().filter(|region| counts(region.usage)) {
        match stretches.last_mut() {
            Some((_, end)) if *end == region.start => *end = region.end,
            _ => stretches.push((region.start, region.end)),
        }
    }
    let inner = stretches.into_iter().map(|(start, end)| (start.next_multiple_of(PAGE), end - end % PAGE));
    PageSet::of(
        inner
            .filter(|(start, end)| start < end)
            .map(|(start, end)| PageRange::between(Address::new(start), Address::new(end))),
    )
}

/// Returns the net effect of a log.
fn settled(log: Vec<Region>) -> Vec<Region> {
    if is_settled(&log) { log } else { settle(&log) }
}

fn settle(log: &[Region]) -> Vec<Region> {
    if is_settled(log) {
        return log.to_vec();
    }
    let (earlier, later) = log.split_at(log.len() / 2);
    overlay(&settle(earlier), &settle(later))
}

fn is_settled(log: &[Region]) -> bool {
    log.is_sorted_by(|one, next| one.end <= next.start)
}

/// Overlays newer regions on older ones; both must be ascending and disjoint.
fn overlay(older: &[Region], newer: &[Region]) -> Vec<Region> {
    let mut out: Vec<Region> = Vec::with_capacity(older.len() + newer.len());
    let (mut older, mut newer) = (older.iter().copied(), newer.iter().copied());
    let (mut old, mut new) = (older.next(), newer.next());
    loop {
        match (old, new) {
            (None, None) => return out,
            (Some(one), None) => {
                out.push(one);
                old = older.next();
            }
            (None, Some(one)) => {
                out.push(one);
                new = newer.next();
            }
            (Some(one), Some(over)) if one.end <= over.start => {
                out.push(one);
                old = older.next();
            }
            (Some(one), Some(over)) if over.end <= one.start => {
                out.push(over);
                new = newer.next();
            }
            (Some(one), Some(over)) => {
                if one.start < over.start {
                    out.push(Region { end: over.start, ..one });
                }
                old = if one.end > over.end { Some(Region { start: over.end, ..one }) } else { older.next() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mask;
    use crate::directions::MaskedPages;
    use proptest::prelude::*;
    use std::sync::Arc;

    const PAGE: u64 = PAGE_BYTES as u64;
    const SPACE: usize = 6 * PAGE_BYTES;

    fn encode(region: &Region) -> [u8; ENTRY_BYTES] {
        let (kind, stamp) = match region.usage {
            Usage::Included => (0u64, 0u64),
            Usage::Dead => (1, 0),
            Usage::ReadOnly { stamp } => (2, u64::from(stamp)),
        };
        let first = region.start | ((stamp & 0x3fff) << 48) | (kind << 62);
        let second = (region.end - region.start) | ((stamp >> 14) << 48);
        [first.to_le_bytes(), second.to_le_bytes()].concat().try_into().unwrap()
    }

    fn some_region() -> impl Strategy<Value = Region> {
        let usage = prop_oneof![
            Just(Usage::Included),
            Just(Usage::Dead),
            (0u32..4).prop_map(|stamp| Usage::ReadOnly { stamp }),
            Just(Usage::ReadOnly { stamp: STAMP_MAX }),
        ];
        // Many places are at the edges of pages.
        let place = prop_oneof![0..SPACE as u64, (0u64..7).prop_map(|page| page * PAGE)];
        (place.clone(), place, usage).prop_filter_map("empty", |(one, two, usage)| {
            let (start, end) = (one.min(two), one.max(two));
            (start < end).then_some(Region { start, end, usage })
        })
    }

    proptest! {
        #[test]
        fn regions_match_bytes_painted_in_order(
            parts in proptest::collection::vec(proptest::collection::vec(some_region(), 0..40), 0..3),
            held in proptest::option::of(0u64..4),
        ) {
            let mut painted = vec![Usage::Included; SPACE];
            for region in parts.iter().flatten() {
                painted[region.start as usize..region.end as usize].fill(region.usage);
            }
            let encoded: Vec<Vec<u8>> = parts.iter().map(|part| part.iter().flat_map(encode).collect()).collect();
            let regions = Regions::decode(encoded.iter().map(Vec::as_slice)).unwrap();
            if let [base, rest @ ..] = &encoded[..] {
                let packed: Vec<u8> =
                    base.as_chunks::<ENTRY_BYTES>().0.iter().flat_map(|it| [&it[..12], &it[14..]].concat()).collect();
                let table = Regions::decode_table(&packed, rest.iter().map(Vec::as_slice));
                prop_assert_eq!(table, Ok(regions.clone()), "the base in its shorter form");
            }
            let mut seen = vec![Usage::Included; SPACE];
            for region in regions.all() {
                prop_assert!(region.usage != Usage::Included);
                seen[region.start as usize..region.end as usize].fill(region.usage);
            }
            prop_assert!(regions.all().windows(2).all(|pair| pair[0].end <= pair[1].start));
            prop_assert_eq!(&seen, &painted);
            let excluded = regions.excluded(held);
            for (number, page) in painted.chunks(PAGE_BYTES).enumerate() {
                let range = PageRange::new(Address::new(number as u64 * PAGE), 1);
                let is_in = |set: &PageSet| set.ranges().iter().any(|run| run.overlaps(range));
                let is_held = |usage: &Usage| match usage {
                    Usage::Included => false,
                    Usage::Dead => true,
                    Usage::ReadOnly { stamp } => *stamp != STAMP_MAX && held.is_some_and(|held| u64::from(*stamp) <= held),
                };
                let is_dead = page.iter().all(|usage| *usage == Usage::Dead);
                prop_assert_eq!(is_in(&excluded.dead), is_dead);
                prop_assert_eq!(is_in(&excluded.held), !is_dead && page.iter().all(is_held));
            }
        }

        #[test]
        fn only_words_wholly_within_a_region_are_masked(
            log in proptest::collection::vec(some_region(), 0..40),
            held in proptest::option::of((0u64..4, 0u64..64)),
        ) {
            let regions = Regions::decode([&log.iter().flat_map(encode).collect::<Vec<u8>>()[..]]).unwrap();
            let page_at = |number: u64| PageRange::new(Address::new(number * PAGE), 1);
            let holding = |bits: u64| PageSet::of((0..6).filter(|page| bits >> page & 1 == 1).map(page_at));
            let pages = held.map(|(_, bits)| holding(bits)).unwrap_or_default();
            let masked_pages = Arc::new(regions.masked_pages(held.map(|(held, _)| held))).where_held(&pages);
            prop_assert!(masked_pages.all().is_sorted_by(|one, next| one.page < next.page));
            for number in 0..6 {
                // These words lie within one region.
                let (mut dead, mut out) = (Mask::NONE, Mask::NONE);
                for (word, start) in (number * PAGE..(number + 1) * PAGE).step_by(4).enumerate() {
                    let around = regions.all().iter().find(|region| region.start <= start && start + 4 <= region.end);
                    let Some(region) = around else { continue };
                    let is_dead = region.usage == Usage::Dead;
                    let is_held = held.is_some_and(|(held, bits)| region.usage.is_held(held) && bits >> number & 1 == 1);
                    if is_dead { dead.add(word..word + 1) }
                    if is_dead || is_held { out.add(word..word + 1) }
                }
                let found = masked_pages.within(page_at(number)).first().map_or((Mask::NONE, Mask::NONE), |it| (it.dead, it.out));
                let is_in_one = regions.all().iter().any(|it| it.start <= number * PAGE && (number + 1) * PAGE <= it.end);
                prop_assert_eq!(found, if is_in_one { (Mask::NONE, Mask::NONE) } else { (dead, out) });
            }
        }

        #[test]
        fn a_page_is_revived_when_a_word_is_no_longer_masked(
            [then, now] in [proptest::collection::vec(some_region(), 0..9), proptest::collection::vec(some_region(), 0..9)],
        ) {
            let masked_pages = |log: &[Region]| {
                Regions::decode([&log.iter().flat_map(encode).collect::<Vec<u8>>()[..]]).unwrap().masked_pages(None)
            };
            let (then, now) = (masked_pages(&then), masked_pages(&now));
            let revived = now.revived_since(&then);
            for number in 0..6 {
                let page = PageRange::new(Address::new(number * PAGE), 1);
                let out = |masked_pages: &MaskedPages| masked_pages.within(page).first().map_or(Mask::NONE, |masked_page| masked_page.out);
                let is_revived = (0..1024).any(|word| {
                    let has = |mask: Mask| mask.to_bytes()[word / 8] >> (word % 8) & 1 == 1;
                    has(out(&then)) && !has(out(&now))
                });
                prop_assert_eq!(revived.ranges().iter().any(|range| range.overlaps(page)), is_revived);
            }
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(noise in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Regions::decode([&noise[..]]);
            let _ = Regions::decode_table(&noise, []);
        }
    }

    #[test]
    fn malformed_region_entries_are_refused() {
        for entry in [[0xff; ENTRY_BYTES], [0; ENTRY_BYTES]] {
            assert_eq!(Regions::decode([&entry[..]]), Err(DirectionsError::Senseless));
        }
        assert_eq!(Regions::decode([&[0u8; 5][..]]), Err(DirectionsError::Senseless));
    }
}
