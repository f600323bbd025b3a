//! Failures that a machine has had, from a file that lists them.

use crate::Error;
use crate::quoting::InWords;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Most bytes of such a file: some 500,000 failures.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads the times of failures, one on each line, in ascending order: as RFC 3339 or in seconds. Empty lines and those that begin
/// with `#` do not count. Returns the times between them in seconds.
pub(super) fn recorded_gaps_seconds(path: &Path) -> Result<Vec<f64>, Error> {
    let unusable = |why: String| Error::FailuresUnusable { path: path.to_owned(), why };
    let unreadable = |error| unusable(InWords(&error).to_string());
    if std::fs::metadata(path).map_err(unreadable)?.len() > FILE_BYTES_MAX {
        return Err(unusable("it is longer than 16 MiB".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let (mut gaps, mut last) = (Vec::new(), None);
    for (place, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = seconds(line).ok_or_else(|| unusable(format!("line {}: '{line}' is no time", place + 1)))?;
        let gap = last.replace(at).map(|last| at - last);
        if gap.is_some_and(|gap| gap <= 0.0) {
            return Err(unusable(format!("line {}: the failure is not later than the one before", place + 1)));
        }
        gaps.extend(gap);
    }
    if gaps.is_empty() { Err(unusable("it lists less than two failures".to_owned())) } else { Ok(gaps) }
}

fn seconds(text: &str) -> Option<f64> {
    match humantime::parse_rfc3339_weak(text) {
        Ok(at) => Some(at.duration_since(UNIX_EPOCH).ok()?.as_secs_f64()),
        Err(_) => text.parse().ok().filter(|seconds: &f64| seconds.is_finite()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<f64>, String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(&file, text).expect("it is written");
        recorded_gaps_seconds(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn times_are_read_in_both_forms() {
        assert_eq!(read("# node 7\n10\n\n  20.5 \n21\n"), Ok(vec![10.5, 0.5]));
        assert_eq!(read("2026-01-01T00:00:00Z\n2026-01-01 01:00:00\n"), Ok(vec![3600.0]));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, named) in [
            ("1\nsoon\n", "line 2: 'soon' is no time"),
            ("1\ninf\n", "line 2: 'inf' is no time"),
            ("1\n2\n2\n", "line 3: the failure is not later"),
            ("1\n", "less than two failures"),
            ("", "less than two failures"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(named) && error.contains("hint: "), "{error}");
        }
        let nowhere = recorded_gaps_seconds(Path::new("/nonexistent/log")).expect_err("there is none").to_string();
        assert!(nowhere.contains("/nonexistent/log: No such file"), "{nowhere}");
    }
}
