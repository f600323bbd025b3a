//! Options about how an image holds pages: as differences from those of the previous checkpoint, compressed, or as they
//! are.

use super::option_kinds::words;
use standfast_core::codec::Encoding;
use standfast_core::codec::choice::Allowed;
use standfast_store::Encodings;

words! {
    /// Whether changed pages are saved as differences (C4).
    kept DeltaMode, "is not a mode of differences",
    /// Pages are saved as they are.
    #[default]
    None = "none",
    /// Pages are saved as differences from the previous checkpoint if that is shorter.
    Previous = "previous",
    /// Like `previous`, if measurements show that it takes less time than writing the pages.
    Auto = "auto",
}

words! {
    /// Whether pages are compressed (L9).
    kept Compress, "is not a compression",
    /// Pages are not compressed.
    #[default]
    None = "none",
    /// LZ4, for pages that it makes shorter.
    Lz4 = "lz4",
    /// Zstandard, for pages that it makes shorter.
    Zstd = "zstd",
    /// The compression that saves most time, if any does. Measurements of the disk and the pages decide (C1).
    Auto = "auto",
}

/// Converts the options for the store.
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
    fn requested_encodings_are_always_used_and_auto_ones_if_they_pay() {
        let asked = encodings(DeltaMode::Previous, Compress::Auto);
        assert_eq!(asked.always, Allowed::of(&[Encoding::Differences]));
        assert_eq!(asked.where_it_pays, Allowed::of(&[Encoding::Lz4, Encoding::Zstd]));
        assert_eq!(encodings(DeltaMode::None, Compress::None), Encodings::default());
    }
}
