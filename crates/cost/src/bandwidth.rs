//! What a disk or a network allows: the mean rate at which checkpoints write, and the shortest interval at which it suffices.

use crate::curve::Curve;

/// Shortest and longest interval that is considered, in seconds: a millisecond, and some thirty years.
const LEAST_SECONDS: f64 = 1e-3;
const MOST_SECONDS: f64 = 1e9;

/// Steps in which the shortest interval is looked for: enough for twelve digits.
const STEPS: u32 = 80;

/// Returns how many bytes a second checkpoints write on average, if `changed` bytes change between two of them.
pub fn mean_bytes_per_second(changed: Curve, interval_seconds: f64) -> f64 {
    changed.at(interval_seconds) / interval_seconds.max(LEAST_SECONDS)
}

/// Returns the shortest interval in seconds at which checkpoints do not write more than this many bytes a second on average.
/// `None` if they do at every interval. What changes never grows faster than the time, so longer intervals need less.
pub fn shortest_interval_seconds(changed: Curve, bytes_per_second: f64) -> Option<f64> {
    let suffices = |interval: f64| mean_bytes_per_second(changed, interval) <= bytes_per_second;
    if suffices(LEAST_SECONDS) {
        return Some(LEAST_SECONDS);
    }
    if !suffices(MOST_SECONDS) {
        return None;
    }
    let (mut low, mut high) = (LEAST_SECONDS.ln(), MOST_SECONDS.ln());
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if suffices(middle.exp()) { high = middle } else { low = middle }
    }
    Some(high.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_interval_is_where_the_disk_is_just_busy() {
        let same = Curve::constant(1e9);
        assert!((shortest_interval_seconds(same, 1e8).expect("it suffices") - 10.0).abs() < 1e-6);
        assert!((mean_bytes_per_second(same, 10.0) - 1e8).abs() < 1e-3);
        // A stream that the disk cannot follow, until all memory has changed.
        let stream = Curve::growing(2e8, 1e9);
        assert!((shortest_interval_seconds(stream, 1e8).expect("it suffices") - 10.0).abs() < 1e-6);
        assert_eq!(shortest_interval_seconds(stream, 3e8), Some(LEAST_SECONDS));
        assert_eq!(shortest_interval_seconds(same, 0.0), None);
        assert_eq!(shortest_interval_seconds(Curve::constant(0.0), 1.0), Some(LEAST_SECONDS));
    }
}
