//! The options about how pages are kept in an image: as differences against those of the checkpoint before, compressed, or
//! as they are.

use super::option_kinds::words;
use standfast_core::codec::Encoding;
use standfast_core::codec::choice::Allowed;
use standfast_store::Encodings;

words! {
    /// Whether pages that have changed are kept as what has changed in them (C4).
    kept DeltaMode, "is not a mode of differences",
    /// No.
    #[default]
    None = "none",
    /// Against the checkpoint before, wherever that is shorter.
    Previous = "previous",
    /// The same where it takes less time than to write the pages, as was measured.
    Auto = "auto",
}

words! {
    /// Whether pages are compressed (L9).
    kept Compress, "is not a compression",
    /// No.
    #[default]
    None = "none",
    /// By LZ4, wherever that makes them shorter.
    Lz4 = "lz4",
    /// By Zstandard, wherever that makes them shorter.
    Zstd = "zstd",
    /// By that which saves most time, if any does: as the disk and the pages prove to be (C1).
    Auto = "auto",
}

/// As the store says it.
pub(crate) fn encodings(delta: DeltaMode, compress: Compress) -> Encodings {
    let (mut always, mut where_it_pays) = (Vec::new(), Vec::new());
    match delta {
        DeltaMode::None => {}
        DeltaMode::Previous => always.push(Encoding::Differences),
        DeltaMode::Auto => where_it_pays.push(Encoding::Differences),
    }
    match compress {
        Compress::None => {}
        Compress::Lz4 => always.push(Encoding::Lz4),
        Compress::Zstd => always.push(Encoding::Zstd),
        Compress::Auto => where_it_pays.extend([Encoding::Lz4, Encoding::Zstd]),
    }
    Encodings { always: Allowed::of(&always), where_it_pays: Allowed::of(&where_it_pays) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_done_always_and_auto_where_it_pays() {
        let asked = encodings(DeltaMode::Previous, Compress::Auto);
        assert_eq!(asked.always, Allowed::of(&[Encoding::Differences]));
        assert_eq!(asked.where_it_pays, Allowed::of(&[Encoding::Lz4, Encoding::Zstd]));
        assert_eq!(encodings(DeltaMode::None, Compress::None), Encodings::default());
    }
}
