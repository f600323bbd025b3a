//! Checks whether images fit: free space of a file system, and the part of memory that they may use.

use std::path::Path;

/// Returns the free bytes of the file system that holds a directory; 0 if they are unknown.
pub(crate) fn bytes_left_at(place: &Path) -> u64 {
    rustix::fs::statvfs(place).map_or(0, |it| it.f_bavail.saturating_mul(it.f_frsize))
}

/// Reports whether two generations of a program fit in half of the memory, counting what the present generations use.
/// Another one must also fit in half of what is left.
pub(crate) fn fits_twice(program_bytes: u64, level_bytes: u64, tightest: u64) -> bool {
    program_bytes.saturating_mul(2) <= tightest.saturating_add(level_bytes) / 2 && program_bytes <= tightest / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_generations_must_fit_in_half_of_the_levels_space() {
        const GIB: u64 = 1 << 30;
        assert!(fits_twice(GIB, 0, 4 * GIB));
        assert!(!fits_twice(GIB, 0, 4 * GIB - 1));
        assert!(fits_twice(GIB, GIB, 3 * GIB), "it holds one already");
        assert!(!fits_twice(GIB, 9 * GIB, GIB), "too little is left");
        assert!(!fits_twice(u64::MAX, 0, GIB));
        assert!(bytes_left_at(Path::new("/")) > 0 && bytes_left_at(Path::new("/there/is/no/such")) == 0);
    }
}
