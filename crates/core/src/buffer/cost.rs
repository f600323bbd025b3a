//! The cost of checkpoints for a program under each method of the compressed-differences paper: its equations (1) to
//! (6), and the points from which a method pays off (C8, C9). Sizes are in megabytes, rates in megabytes per second,
//! costs in seconds per checkpoint.
//!
//! Equations 4 and 5 assume that at least as much changes as the buffer holds. If less changes, the buffer holds only
//! that. The smaller of the two is therefore used here.

use super::Held;

/// Sizes for each checkpoint, in megabytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// S_addr: the address space.
    pub address_space: f64,
    /// S_ch: pages that have changed.
    pub changed: f64,
    /// S_buffer: the buffer.
    pub buffer: f64,
    /// F_comp: the fraction by which compression shortens data, 0 to 1.
    pub factor: f64,
}

/// Rates, in megabytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// R_disk: writing a checkpoint.
    pub disk: f64,
    /// R_prot: protecting pages.
    pub protecting: f64,
    /// R_fault: page faults.
    pub faulting: f64,
    /// R_c&c: copying pages to the buffer and compressing them.
    pub compressing: f64,
}

/// The five parts of what has changed under *online*, in megabytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// S_comp.
    pub compressed: f64,
    /// S_uncomp1.
    pub buffered_once: f64,
    /// S_uncomp2.
    pub buffered_twice: f64,
    /// S_dirty1.
    pub unbuffered: f64,
    /// S_dirty2.
    pub evicted: f64,
}

impl From<Held> for Parts {
    fn from(held: Held) -> Self {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        Self {
            compressed: megabytes(held.compressed),
            buffered_once: megabytes(held.buffered_once),
            buffered_twice: megabytes(held.buffered_twice),
            unbuffered: megabytes(held.unbuffered),
            evicted: megabytes(held.evicted),
        }
    }
}

impl Parts {
    /// Returns S_ebuffer: the part that the checkpoint contains compressed.
    pub fn effective(&self) -> f64 {
        self.compressed + self.buffered_once + self.buffered_twice
    }

    /// Returns S_ch.
    pub fn changed(&self) -> f64 {
        self.effective() + self.unbuffered + self.evicted
    }
}

/// Returns O_seq: everything is written (1).
pub fn sequential(sizes: &Sizes, rates: &Rates) -> f64 {
    sizes.address_space / rates.disk
}

/// Returns O_inc: changed pages are written, all pages are protected, and each changed page faults (2).
pub fn incremental(sizes: &Sizes, rates: &Rates) -> f64 {
    sizes.changed / rates.disk + sizes.address_space / rates.protecting + sizes.changed / rates.faulting
}

/// Returns O_seq - O_inc: the saving of incremental checkpoints (3).
pub fn saved_by_incremental(sizes: &Sizes, rates: &Rates) -> f64 {
    (sizes.address_space - sizes.changed) / rates.disk
        - (sizes.address_space / rates.protecting + sizes.changed / rates.faulting)
}

/// Returns O_scd: pages that fit the buffer are compressed (4).
pub fn standard(sizes: &Sizes, rates: &Rates) -> f64 {
    let buffered = sizes.buffer.min(sizes.changed);
    (sizes.changed - buffered) / rates.disk
        + buffered * (1.0 - sizes.factor) / rates.disk
        + buffered / rates.compressing
        + sizes.address_space / rates.protecting
        + sizes.changed / rates.faulting
}

/// Returns O_inc - O_scd: the saving of *standard* (5).
pub fn saved_by_standard(sizes: &Sizes, rates: &Rates) -> f64 {
    sizes.buffer.min(sizes.changed) * (sizes.factor / rates.disk - 1.0 / rates.compressing)
}

/// Returns O_ocd: the fate of each page counts, and pages that were compressed in vain count twice (6).
pub fn online(address_space: f64, factor: f64, parts: &Parts, rates: &Rates) -> f64 {
    let again = parts.buffered_twice + parts.evicted;
    ((1.0 - factor) * parts.effective() + parts.unbuffered + parts.evicted) / rates.disk
        + (parts.effective() + 2.0 * parts.buffered_twice + parts.evicted) / rates.compressing
        + (address_space + parts.compressed + again) / rates.protecting
        + (parts.changed() + again) / rates.faulting
}

/// Returns S_addr / S_ch above which incremental checkpoints cost less than sequential ones, from equation 3.
pub fn incremental_pays_from(rates: &Rates) -> f64 {
    (1.0 / rates.disk + 1.0 / rates.faulting) / (1.0 / rates.disk - 1.0 / rates.protecting)
}

/// Returns F_comp above which *standard* costs less than incremental checkpoints, whatever the sizes, from equation 5.
pub fn standard_pays_from(rates: &Rates) -> f64 {
    rates.disk / rates.compressing
}

/// Returns S_ebuffer above which *online* costs less than *standard*, from equations 4 and 6. It assumes that no page
/// is written again after its compression (S_uncomp2 and S_dirty2 are 0; either raises the result), and that
/// `compressed` megabytes are compressed. Infinite if compression does not pay at all.
pub fn online_pays_from(sizes: &Sizes, compressed: f64, rates: &Rates) -> f64 {
    let saved_each = sizes.factor / rates.disk - 1.0 / rates.compressing;
    if saved_each <= 0.0 {
        return f64::INFINITY;
    }
    sizes.buffer.min(sizes.changed) + compressed / rates.protecting / saved_each
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// C9: a Sparcstation 2 of 1995, with its disk on NFS.
    const PAPER: Rates = Rates { disk: 0.1797, protecting: 6892.0, faulting: 8.679, compressing: 1.138 };

    fn near(found: f64, expected: f64, within: f64) {
        assert!((found - expected).abs() <= within, "{found} instead of {expected}");
    }

    #[test]
    fn break_even_points_match_the_paper() {
        near(incremental_pays_from(&PAPER), 1.02, 0.005);
        near(standard_pays_from(&PAPER), 0.16, 0.005);
    }

    /// Table 1, for programs that were checkpointed at this rate: S_addr and S_ch in, seconds per checkpoint out.
    #[test]
    fn equations_one_and_two_match_table_one_within_25_percent() {
        let table = [
            ("CELL", 8.069, 7.679, 44.62, 48.78),
            ("SOLVE", 11.545, 6.167, 68.52, 37.35),
            ("MCNF", 23.187, 1.296, 146.65, 7.46),
        ];
        for (program, address_space, changed, measured_sequential, measured_incremental) in table {
            let sizes = Sizes { address_space, changed, buffer: 0.0, factor: 0.0 };
            let within =
                |found: f64, measured: f64| assert!((0.75..1.25).contains(&(found / measured)), "{program}: {found}");
            within(sequential(&sizes, &PAPER), measured_sequential);
            within(incremental(&sizes, &PAPER), measured_incremental);
        }
    }

    fn sizes() -> impl Strategy<Value = Sizes> {
        (1.0..1e4_f64, 0.0..1.0_f64, 0.0..1e4_f64, 0.0..1.0_f64).prop_map(|(address_space, part, buffer, factor)| {
            Sizes { address_space, changed: address_space * part, buffer, factor }
        })
    }

    fn rates() -> impl Strategy<Value = Rates> {
        let rate = || 0.1..1e4_f64;
        (rate(), rate(), rate(), rate()).prop_map(|(disk, protecting, faulting, compressing)| Rates {
            disk,
            protecting,
            faulting,
            compressing,
        })
    }

    proptest! {
        #[test]
        fn savings_are_the_differences_of_the_costs(sizes in sizes(), rates in rates()) {
            let (sequential, incremental, standard) =
                (sequential(&sizes, &rates), incremental(&sizes, &rates), standard(&sizes, &rates));
            let near = |one: f64, two: f64| (one - two).abs() <= 1e-9 * (sequential + incremental + standard);
            prop_assert!(near(sequential - incremental, saved_by_incremental(&sizes, &rates)));
            prop_assert!(near(incremental - standard, saved_by_standard(&sizes, &rates)));
            if sizes.changed > 0.0 && sizes.buffer > 0.0 {
                let pays = sizes.factor > standard_pays_from(&rates);
                prop_assert_eq!(pays, saved_by_standard(&sizes, &rates) > 0.0);
            }
        }

        #[test]
        fn incremental_saves_time_only_above_its_break_even(sizes in sizes(), rates in rates()) {
            let break_even = incremental_pays_from(&rates);
            prop_assume!(rates.protecting > rates.disk && sizes.changed > 0.0);
            let ratio = sizes.address_space / sizes.changed;
            prop_assume!((ratio / break_even - 1.0).abs() > 1e-9);
            prop_assert_eq!(ratio > break_even, saved_by_incremental(&sizes, &rates) > 0.0);
        }

        #[test]
        fn online_costs_as_much_as_standard_or_less_above_its_break_even(
            sizes in sizes(), rates in rates(), more in 0.0..3.0_f64, part in 0.0..1.0_f64,
        ) {
            let buffered = sizes.buffer.min(sizes.changed);
            let alone = Parts {
                compressed: 0.0, buffered_once: buffered, buffered_twice: 0.0,
                unbuffered: sizes.changed - buffered, evicted: 0.0,
            };
            let of_standard: f64 = standard(&sizes, &rates);
            let same = online(sizes.address_space, sizes.factor, &alone, &rates);
            prop_assert!((same - of_standard).abs() <= 1e-9 * of_standard);
            // More pages go compressed into the checkpoint, and the pages that made room for them had to be protected
            // again.
            let effective = (buffered * (1.0 + more)).min(sizes.changed);
            let compressed = part * effective;
            let parts = Parts {
                compressed, buffered_once: effective - compressed, unbuffered: sizes.changed - effective, ..alone
            };
            let cost = online(sizes.address_space, sizes.factor, &parts, &rates);
            let break_even = online_pays_from(&sizes, compressed, &rates);
            prop_assume!((cost - of_standard).abs() > 1e-9 * of_standard);
            prop_assert_eq!(effective > break_even, cost < of_standard, "{} {}", effective, break_even);
        }
    }
}
