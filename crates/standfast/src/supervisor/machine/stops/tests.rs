//! Tests of the estimates, on simulated programs and disks with seeds.

use super::*;
use fastrand::Rng;

const PAGE: f64 = PAGE_BYTES as f64;
const PROGRAMS: u64 = 300;

/// A program that changes its memory, and a disk.
#[derive(Debug, Clone, Copy)]
struct Simulated {
    held: f64,
    /// Bytes that it changes in a second.
    pace: f64,
    /// Whether it goes through its memory in order, or writes at random.
    is_sweeping: bool,
    /// Bytes of a second.
    disk: f64,
    fixed: f64,
}

impl Simulated {
    fn new(random: &mut Rng) -> Self {
        Self {
            held: 10_f64.powf(7.0 + 3.0 * random.f64()),
            pace: 10_f64.powf(5.0 + 4.0 * random.f64()),
            is_sweeping: random.bool(),
            disk: 100e6,
            fixed: 0.005 + 0.05 * random.f64(),
        }
    }

    fn changed(&self, seconds: f64) -> f64 {
        let share = self.pace * seconds / self.held;
        self.held * if self.is_sweeping { share.min(1.0) } else { 1.0 - (-share).exp() }
    }

    fn cost(&self, bytes: f64) -> f64 {
        self.fixed + bytes / self.disk
    }

    fn report(&self, changed: f64, is_full: bool) -> CheckpointReport {
        let read = if is_full { self.held } else { changed };
        CheckpointReport {
            pages_read: (read / PAGE) as u64,
            pages_scanned: (self.held / PAGE) as u64,
            file_bytes: read as u64,
            durable_nanoseconds: (self.cost(read) * 1e9) as u64,
            parent: (!is_full).then_some(1),
            ..CheckpointReport::default()
        }
    }
}

/// Takes checkpoints as the verdicts ask, `interval` apart at most. Returns the verdicts, and the interval before the last.
fn settled(program: &Simulated, deadline: Duration, interval: f64, now: &mut Instant) -> (Stops, Vec<Verdict>, f64) {
    let mut stops = Stops::default();
    stops.note(&program.report(0.0, true), false, *now);
    let (mut waited, mut verdicts) = (0.0, Vec::new());
    for _ in 0..6 {
        let verdict = stops.verdict(deadline).expect("there is a checkpoint");
        verdicts.push(verdict);
        waited = match verdict {
            Verdict::Met(Some(longest)) | Verdict::Unknown(longest) => longest.as_secs_f64().min(interval),
            Verdict::Met(None) | Verdict::Unmet(_) => interval,
        };
        *now += Duration::from_secs_f64(waited);
        stops.note(&program.report(program.changed(waited), false), false, *now);
    }
    verdicts.push(stops.verdict(deadline).expect("there is a checkpoint"));
    (stops, verdicts, waited)
}

#[test]
fn a_stop_that_is_said_to_fit_ends_in_time_at_any_moment() {
    let (mut met, mut unmet) = (0, 0);
    for seed in 0..PROGRAMS {
        let mut random = Rng::with_seed(seed);
        let program = Simulated::new(&mut random);
        let deadline = Duration::from_secs_f64(1.0 + 60.0 * random.f64());
        let mut now = Instant::now();
        let (_, verdicts, _) = settled(&program, deadline, 600.0, &mut now);
        let Some(Verdict::Met(longest)) = verdicts.last() else {
            unmet += 1;
            continue;
        };
        let longest = longest.map_or(600.0, |longest| longest.as_secs_f64().min(600.0));
        met += 1;
        // The stop comes at any moment, and at worst when a checkpoint begins.
        let at_once = program.cost(program.changed(longest * random.f64()));
        let first = program.cost(program.changed(longest));
        let behind_one = first + program.cost(program.changed(first));
        let worst = at_once.max(behind_one);
        assert!(worst <= deadline.as_secs_f64(), "seed {seed}: {worst} s of {deadline:?} for {program:?}");
    }
    assert!(met > 50 && unmet > 20, "{met} met, {unmet} not");
}

#[test]
fn a_deadline_that_cannot_be_met_is_called_so() {
    // A gigabyte a second, on a disk of a tenth of that.
    let program = Simulated { held: 4e9, pace: 1e9, is_sweeping: true, disk: 100e6, fixed: 0.01 };
    let mut now = Instant::now();
    let (_, verdicts, _) = settled(&program, Duration::from_secs(10), 600.0, &mut now);
    let is_late = |verdict: &Verdict| matches!(verdict, Verdict::Unmet(needed) if *needed > Duration::from_secs(10));
    assert!(verdicts.iter().any(is_late), "{verdicts:?}");
    assert!(!verdicts.iter().any(|verdict| matches!(verdict, Verdict::Met(_))), "{verdicts:?}");
}

#[test]
fn a_program_that_writes_little_is_checkpointed_more_often_and_fits() {
    // All of it takes 40 s. What it writes in a minute takes 6 s.
    let program = Simulated { held: 4e9, pace: 10e6, is_sweeping: true, disk: 100e6, fixed: 0.01 };
    let mut now = Instant::now();
    let (_, verdicts, waited) = settled(&program, Duration::from_secs(10), 600.0, &mut now);
    assert!(matches!(verdicts.last(), Some(Verdict::Met(Some(_)))), "{verdicts:?}");
    assert!((10.0..90.0).contains(&waited), "every {waited} s");
}

#[test]
fn a_stop_is_reported_again_when_it_takes_twice_as_long() {
    let mut stops = Stops::default();
    let deadline = Duration::from_secs(10);
    let reported: Vec<bool> =
        [12, 15, 19, 21, 30, 41, 12].map(|s| stops.is_news(Duration::from_secs(s), deadline)).into();
    assert_eq!(reported, [true, false, false, true, false, true, false]);
    assert!(stops.end_news() && !stops.end_news());
}

#[test]
fn growth_counts_as_changed() {
    let program = Simulated { held: 100e6, pace: 1e5, is_sweeping: true, disk: 100e6, fixed: 0.01 };
    let mut now = Instant::now();
    let deadline = Duration::from_secs(5);
    let (mut stops, verdicts, _) = settled(&program, deadline, 600.0, &mut now);
    assert_eq!(verdicts.last(), Some(&Verdict::Met(None)));
    now += Duration::from_secs(3);
    stops.note_size(200_000_000);
    assert!(!stops.is_outgrown(deadline, now));
    stops.note_size(2_000_000_000);
    assert!(stops.is_outgrown(deadline, now));
    let report = stops.report(Some(deadline), false, now).expect("there is a checkpoint");
    assert!(report.seconds > 15.0, "{report:?}");
}
