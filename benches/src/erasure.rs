//! Erasure codes: Reed-Solomon compared with the bare library below it, parity compared with copying, and updates from
//! scattered differences. EVENODD is also measured, without a promise. All use one core and pieces that fit in a cache.
//!
//! The measure is the processor time of this thread, since the promise is about the work of a core, not about
//! scheduling.

use crate::figures::{Verdict, median, ratio};
use nix::time::{ClockId, clock_gettime};
use standfast_core::PAGE_BYTES;
use standfast_core::erasure::{Code, Scheme};
use std::hint::black_box;
use std::time::Duration;

/// The unit of work: 64 KiB of each member stay in the cache together with the sums.
const PIECE_BYTES: usize = 16 * PAGE_BYTES;
const MEMBERS: usize = 8;
/// The number of source bytes in one measurement: long enough for the clock, short enough for many repeats.
const SOURCE_BYTES: usize = 512 << 20;
/// One page in this many has changed.
const CHANGED_ONE_IN: usize = 10;

/// Measures everything.
pub(crate) fn speed(repeats: usize) -> Vec<Verdict> {
    let pieces = pieces();
    let code = |scheme| Code::new(scheme, MEMBERS).expect("eight members fit every code");
    let reed_solomon = code(Scheme::ReedSolomon { checks: 2 });
    let (parity, evenodd) = (code(Scheme::Parity), code(Scheme::EvenOdd));
    let mut times: [Vec<Duration>; 7] = Default::default();
    let mut checks = [vec![1_u8; SOURCE_BYTES], vec![1_u8; SOURCE_BYTES]];
    for _ in 0..repeats {
        let measured = [
            encode(&reed_solomon, &pieces),
            bare(&pieces),
            encode(&parity, &pieces),
            copies(&pieces),
            encode(&evenodd, &pieces),
            updates(&reed_solomon, &mut checks),
            overwritten(&mut checks),
        ];
        times.iter_mut().zip(measured).for_each(|(times, time)| times.push(time));
    }
    let [ours, library, parity, copying, evenodd, updating, overwriting] = times.map(|times| median(&times));
    let changed = SOURCE_BYTES / CHANGED_ONE_IN;
    vec![
        at_least("Reed-Solomon 8+2, source a core", rate(SOURCE_BYTES, ours), 10.0),
        of("Reed-Solomon 8+2 against the bare library", ratio(library, ours), 0.8),
        of("parity against copying", ratio(copying, parity), 0.8),
        // Scattered writes run at the speed of memory, which differs by a third between machines. The next row is the
        // promise.
        at_least("checks updated from scattered differences", rate(changed, updating), 3.0),
        // Both wait for the same memory, and updating computes besides. Where memory is fast, that shows: 0.58 to 0.76 on
        // one machine, 0.8 and more on others.
        of("the same against copying to the same places", ratio(overwriting, updating), 0.5),
        at_least("EVENODD 8+2, for comparison", rate(SOURCE_BYTES, evenodd), 0.0),
    ]
}

fn pieces() -> Vec<Vec<u8>> {
    let byte = |seed: usize, at: usize| (at.wrapping_mul(2_654_435_761).wrapping_add(seed * 97) >> 11) as u8;
    (0..MEMBERS).map(|seed| (0..PIECE_BYTES).map(|at| byte(seed, at)).collect()).collect()
}

fn rounds() -> usize {
    SOURCE_BYTES / (MEMBERS * PIECE_BYTES)
}

fn encode(code: &Code, pieces: &[Vec<u8>]) -> Duration {
    let combiner = code.combiner();
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    let mut sums = vec![vec![0; PIECE_BYTES]; code.checks()];
    let begin = Moment::now();
    for _ in 0..rounds() {
        let mut sums: Vec<&mut [u8]> = sums.iter_mut().map(Vec::as_mut_slice).collect();
        combiner.combine(black_box(&pieces), &mut sums);
    }
    begin.elapsed()
}

/// Measures the library by itself. Any matrix will do, since its speed does not depend on the coefficients.
fn bare(pieces: &[Vec<u8>]) -> Duration {
    let kernels = rusty_erasure::best_kernels();
    let coefficients: Vec<u8> = (2..2 + 2 * MEMBERS as u8).collect();
    let tables = (kernels.init)(&coefficients);
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    let mut sums = vec![vec![0; PIECE_BYTES]; 2];
    let begin = Moment::now();
    for _ in 0..rounds() {
        let mut sums: Vec<&mut [u8]> = sums.iter_mut().map(Vec::as_mut_slice).collect();
        (kernels.encode)(&tables, black_box(&pieces), &mut sums);
    }
    begin.elapsed()
}

/// Copies as many bytes as parity reads.
fn copies(pieces: &[Vec<u8>]) -> Duration {
    let mut copy = vec![0; PIECE_BYTES];
    let begin = Moment::now();
    for _ in 0..rounds() {
        for piece in pieces {
            black_box(&mut copy).copy_from_slice(black_box(piece));
        }
    }
    begin.elapsed()
}

/// Updates one page in ten, each by itself, in checks that no cache holds, in row order as a transfer does.
fn updates(code: &Code, checks: &mut [Vec<u8>; 2]) -> Duration {
    let combiner = code.combiner();
    scattered(checks, |turn, difference, sums| combiner.add(turn % MEMBERS, difference, sums))
}

/// Measures the limit of memory: nothing is computed, and only the difference is read.
fn overwritten(checks: &mut [Vec<u8>; 2]) -> Duration {
    scattered(checks, |_, difference, sums| sums.iter_mut().for_each(|sum| sum.copy_from_slice(difference)))
}

fn scattered(checks: &mut [Vec<u8>; 2], mut change: impl FnMut(usize, &[u8], &mut [&mut [u8]])) -> Duration {
    let difference = vec![0x5a; PAGE_BYTES];
    let begin = Moment::now();
    for turn in 0..SOURCE_BYTES / CHANGED_ONE_IN / PAGE_BYTES {
        let at = turn * CHANGED_ONE_IN * PAGE_BYTES;
        let [first, second] = checks.each_mut().map(|check| &mut check[at..at + PAGE_BYTES]);
        change(turn, black_box(&difference), &mut [first, second]);
    }
    begin.elapsed()
}

/// A moment on the clock that counts this thread's processor time.
struct Moment(Duration);

impl Moment {
    fn now() -> Self {
        Self(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every thread has this clock").into())
    }

    fn elapsed(&self) -> Duration {
        Self::now().0 - self.0
    }
}

fn rate(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE) / 1e9
}

fn at_least(what: &str, found: f64, bound: f64) -> Verdict {
    let promise = if bound > 0.0 { format!("{what}: at least {bound} GB/s") } else { what.to_owned() };
    Verdict { promise, measured: format!("{found:.1} GB/s"), holds: found >= bound }
}

fn of(what: &str, found: f64, bound: f64) -> Verdict {
    Verdict { promise: format!("{what}: at least {bound}"), measured: format!("{found:.2}"), holds: found >= bound }
}
