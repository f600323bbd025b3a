//! The codes against their reference implementations, and every loss in codes of up to twelve pieces, bit for bit.

use super::evenodd::EvenOdd;
use super::*;
use proptest::prelude::*;

/// Processes one byte after the other: the oracle for the library.
#[derive(Debug)]
struct Naive(Coefficients);

impl Kernel for Naive {
    fn add(&self, column: usize, piece: &[u8], sums: &mut [&mut [u8]]) {
        for (row, sum) in sums.iter_mut().enumerate() {
            let coefficient = self.0.cell(row, column);
            for (sum, byte) in sum.iter_mut().zip(piece) {
                *sum ^= field::multiply(coefficient, *byte);
            }
        }
    }

    fn combine(&self, pieces: &[&[u8]], sums: &mut [&mut [u8]]) {
        sums.iter_mut().for_each(|sum| sum.fill(0));
        for (column, piece) in pieces.iter().enumerate() {
            self.add(column, piece, sums);
        }
    }
}

/// Returns pseudorandom bytes, the same for the same seed.
fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn members(count: usize, length: usize) -> Vec<Vec<u8>> {
    (0..count).map(|member| bytes(member as u64 + 1, length)).collect()
}

fn slices(pieces: &[Vec<u8>]) -> Vec<&[u8]> {
    pieces.iter().map(Vec::as_slice).collect()
}

fn slices_mut(pieces: &mut [Vec<u8>]) -> Vec<&mut [u8]> {
    pieces.iter_mut().map(Vec::as_mut_slice).collect()
}

/// Computes EVENODD as the paper defines it, cell by cell.
fn evenodd_naive(prime: usize, pages: &[Vec<u8>]) -> [Vec<u8>; 2] {
    let size = PAGE_BYTES / (prime - 1);
    let cell = |member: usize, row: usize, byte: usize| {
        if row == prime - 1 { 0 } else { pages.get(member).map_or(0, |page| page[row * size + byte]) }
    };
    let mut checks = [vec![0; PAGE_BYTES], vec![0; PAGE_BYTES]];
    for byte in 0..size {
        let adjuster = (1..prime).fold(0, |sum, member| sum ^ cell(member, prime - 1 - member, byte));
        for row in 0..prime - 1 {
            for member in 0..prime {
                checks[0][row * size + byte] ^= cell(member, row, byte);
                checks[1][row * size + byte] ^= cell(member, (row + prime - member) % prime, byte);
            }
            checks[1][row * size + byte] ^= adjuster;
        }
    }
    checks
}

fn naive_checks(code: &Code, pieces: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let length = pieces[0].len();
    if code.scheme() == Scheme::EvenOdd {
        let prime = [5, 17, 257].into_iter().find(|prime| *prime >= pieces.len()).unwrap();
        let mut checks = vec![Vec::new(), Vec::new()];
        for page in 0..length / PAGE_BYTES {
            let column = |piece: &Vec<u8>| piece[page * PAGE_BYTES..][..PAGE_BYTES].to_vec();
            let pages: Vec<Vec<u8>> = pieces.iter().map(column).collect();
            let both = evenodd_naive(prime, &pages);
            checks.iter_mut().zip(both).for_each(|(check, page)| check.extend(page));
        }
        return checks;
    }
    let mut checks = vec![vec![0; length]; code.checks()];
    Naive(code.coefficients.clone()).combine(&slices(pieces), &mut slices_mut(&mut checks));
    checks
}

fn encoded(code: &Code, pieces: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut checks = vec![vec![0; pieces[0].len()]; code.checks()];
    code.combiner().combine(&slices(pieces), &mut slices_mut(&mut checks));
    checks
}

/// Rebuilds as the group does: survivors hop by hop, then the checks, then the solution.
fn rebuilt(code: &Code, pieces: &[Vec<u8>], checks: &[Vec<u8>], repair: &Repair) -> Vec<Vec<u8>> {
    let mut sums = vec![vec![0; pieces[0].len()]; repair.checks().len()];
    for member in (0..code.members()).filter(|member| !repair.lost().contains(member)) {
        repair.combiner().add(member, &pieces[member], &mut slices_mut(&mut sums));
    }
    for (sum, check) in sums.iter_mut().zip(repair.checks()) {
        xor(sum, &checks[*check]);
    }
    repair.solve(&mut slices_mut(&mut sums));
    sums
}

/// The first share of a plain sum may replace zeros.
#[test]
fn a_plain_sum_of_one_piece_is_the_piece() {
    let schemes = [
        Scheme::Mirroring,
        Scheme::Parity,
        Scheme::OneDimensional { groups: 2 },
        Scheme::EvenOdd,
        Scheme::ReedSolomon { checks: 3 },
    ];
    let mut plain = Vec::new();
    for (scheme, members) in schemes.into_iter().flat_map(|scheme| [2, 5].map(|members| (scheme, members))) {
        let code = Code::new(scheme, members).unwrap();
        let chosen = (0..code.checks()).map(|check| vec![check]).chain([(0..code.checks()).collect()]);
        for checks in chosen {
            let combiner = code.combiner_of(&checks);
            if !combiner.is_plain() {
                continue;
            }
            for member in 0..members {
                let (piece, mut sum) = (bytes(7, 2 * PAGE_BYTES), vec![0; 2 * PAGE_BYTES]);
                combiner.add(member, &piece, &mut [&mut sum]);
                assert!(sum == piece, "check {checks:?} of {scheme:?}, member {member}");
            }
            plain.push((scheme, checks));
        }
    }
    for scheme in [Scheme::Parity, Scheme::EvenOdd, Scheme::ReedSolomon { checks: 3 }] {
        assert!(plain.contains(&(scheme, vec![0])), "{scheme:?}");
    }
}

fn subset(bits: usize, count: usize) -> Vec<usize> {
    (0..count).filter(|at| bits >> at & 1 == 1).collect()
}

/// Loses every set of pieces. `rebuilds` says which sets must be survivable; any other set may be, if the bytes are
/// right.
fn lose_everything(code: &Code, length: usize, rebuilds: impl Fn(&[usize], &[usize]) -> bool) {
    let (n, m) = (code.members(), code.checks());
    let pieces = members(n, length);
    let checks = encoded(code, &pieces);
    assert_eq!(checks, naive_checks(code, &pieces), "{:?} of {n}", code.scheme());
    for bits in 0..1usize << (n + m) {
        let (lost, lost_checks) = (subset(bits, n), subset(bits >> n, m));
        match code.repair(&lost, &lost_checks) {
            Ok(repair) => {
                assert_eq!(repair.lost(), lost);
                assert_eq!(repair.checks().len(), lost.len(), "as few checks as possible");
                assert!(repair.checks().iter().all(|check| !lost_checks.contains(check)));
                for (member, piece) in lost.iter().zip(rebuilt(code, &pieces, &checks, &repair)) {
                    assert!(piece == pieces[*member], "{:?}: {lost:?} without {lost_checks:?}", code.scheme());
                }
            }
            Err(error) => {
                assert!(!rebuilds(&lost, &lost_checks), "{:?}: {error}", code.scheme());
                assert_eq!(error, CodeError::Lost { members: lost, checks: lost_checks });
            }
        }
    }
}

#[test]
fn reed_solomon_tolerates_every_loss_up_to_its_checks() {
    for n in 1..12 {
        for m in 1..=12 - n {
            let code = Code::new(Scheme::ReedSolomon { checks: m }, n).unwrap();
            // Lengths in bytes that no vector register divides, since the tails count too.
            lose_everything(&code, 67, |lost, checks| lost.len() + checks.len() <= m);
        }
    }
}

#[test]
fn evenodd_tolerates_every_loss_of_two() {
    for n in 1..=10 {
        let code = Code::new(Scheme::EvenOdd, n).unwrap();
        lose_everything(&code, PAGE_BYTES, |lost, checks| lost.len() + checks.len() <= 2);
    }
}

#[test]
fn evenodd_tolerates_every_loss_of_two_with_257_members() {
    let code = Code::new(Scheme::EvenOdd, 257).unwrap();
    let pieces = members(257, PAGE_BYTES);
    let checks = encoded(&code, &pieces);
    assert_eq!(checks, naive_checks(&code, &pieces));
    for (first, second) in (0..257).flat_map(|first| (first + 1..257).map(move |second| (first, second))) {
        // The survivors' shares are what the two lost pieces leave of the checks, which is faster to compute.
        let repair = code.repair(&[first, second], &[]).unwrap();
        let mut sums = vec![vec![0; PAGE_BYTES]; 2];
        repair.combiner().add(first, &pieces[first], &mut slices_mut(&mut sums));
        repair.combiner().add(second, &pieces[second], &mut slices_mut(&mut sums));
        repair.solve(&mut slices_mut(&mut sums));
        assert!(sums[0] == pieces[first] && sums[1] == pieces[second], "{first} and {second}");
    }
    for only in 0..257 {
        let repair = code.repair(&[only], &[0]).unwrap();
        assert_eq!(rebuilt(&code, &pieces, &checks, &repair), [pieces[only].clone()]);
    }
}

#[test]
fn mirroring_tolerates_every_loss_but_a_member_with_its_copy() {
    for n in 1..=6 {
        let code = Code::new(Scheme::Mirroring, n).unwrap();
        lose_everything(&code, 67, |lost, checks| lost.iter().all(|member| !checks.contains(member)));
    }
}

#[test]
fn one_dimensional_parity_tolerates_one_loss_a_group() {
    for n in 1..=11 {
        for groups in 1..=n.min(12 - n) {
            let code = Code::new(Scheme::OneDimensional { groups }, n).unwrap();
            lose_everything(&code, 67, |lost, checks| {
                (0..groups).all(|group| {
                    let members = lost.iter().filter(|member| *member % groups == group).count();
                    members == 0 || members + usize::from(checks.contains(&group)) <= 1
                })
            });
        }
    }
}

#[test]
fn parity_tolerates_every_single_loss() {
    for n in 1..=11 {
        let code = Code::new(Scheme::Parity, n).unwrap();
        lose_everything(&code, 67, |lost, checks| lost.len() + checks.len() <= 1);
    }
}

#[test]
fn parity_is_the_first_check_of_reed_solomon_and_of_evenodd() {
    let pieces = members(7, PAGE_BYTES);
    let first = |scheme| encoded(&Code::new(scheme, 7).unwrap(), &pieces)[0].clone();
    let parity = first(Scheme::Parity);
    assert_eq!(parity, first(Scheme::ReedSolomon { checks: 1 }));
    assert_eq!(parity, first(Scheme::ReedSolomon { checks: 4 }));
    assert_eq!(parity, first(Scheme::EvenOdd));
}

#[test]
fn unsupported_code_shapes_are_refused_with_the_reason() {
    let reason = |scheme, members| Code::new(scheme, members).unwrap_err().to_string();
    assert!(reason(Scheme::ReedSolomon { checks: 3 }, 254).contains("256 together"));
    assert!(reason(Scheme::EvenOdd, 258).contains("257 members"));
    assert!(reason(Scheme::OneDimensional { groups: 4 }, 3).contains("empty"));
    assert!(reason(Scheme::Parity, 0).contains("at least one"));
    assert!(Code::new(Scheme::ReedSolomon { checks: 3 }, 253).is_ok());
}

fn schemes() -> impl Strategy<Value = (Scheme, usize)> {
    prop_oneof![
        (1usize..30).prop_map(|n| (Scheme::Mirroring, n)),
        (1usize..40).prop_map(|n| (Scheme::Parity, n)),
        (1usize..6, 6usize..40).prop_map(|(groups, n)| (Scheme::OneDimensional { groups }, n)),
        prop_oneof![1usize..20, 18usize..60].prop_map(|n| (Scheme::EvenOdd, n)),
        (1usize..9, 1usize..60).prop_map(|(checks, n)| (Scheme::ReedSolomon { checks }, n)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn hop_by_hop_encoding_in_any_order_matches_the_naive_twin(
        (scheme, n) in schemes(), pages in 1usize..3, turn: usize, seed: u64,
    ) {
        let code = Code::new(scheme, n).unwrap();
        let pieces: Vec<_> = (0..n).map(|at| bytes(seed ^ at as u64, pages * PAGE_BYTES)).collect();
        let mut sums = vec![vec![0; pages * PAGE_BYTES]; code.checks()];
        for hop in 0..n {
            let member = (hop + turn % n) % n;
            code.combiner().add(member, &pieces[member], &mut slices_mut(&mut sums));
        }
        prop_assert_eq!(&sums, &naive_checks(&code, &pieces));
        prop_assert_eq!(&sums, &encoded(&code, &pieces));
    }

    #[test]
    fn a_difference_updates_the_checks_as_encoding_again_would((scheme, n) in schemes(), which: usize, seed: u64) {
        let code = Code::new(scheme, n).unwrap();
        let mut pieces: Vec<_> = (0..n).map(|at| bytes(seed ^ at as u64, PAGE_BYTES)).collect();
        let mut checks = encoded(&code, &pieces);
        let member = which % n;
        let fresh = bytes(!seed, PAGE_BYTES);
        let mut difference = fresh.clone();
        xor(&mut difference, &pieces[member]);
        code.combiner().add(member, &difference, &mut slices_mut(&mut checks));
        pieces[member] = fresh;
        prop_assert_eq!(checks, encoded(&code, &pieces));
    }
}

#[test]
fn evenodd_uses_the_smallest_prime_that_fits() {
    assert_eq!(EvenOdd::new(5), EvenOdd::new(2));
    assert_ne!(EvenOdd::new(6), EvenOdd::new(5));
    assert_eq!(EvenOdd::new(18), EvenOdd::new(257));
}
