//! Options about how an image holds pages: as differences from those of the previous checkpoint, compressed, or as they
//! are.

use standfast_core::codec::Encoding;
use standfast_core::codec::choice::Allowed;
use standfast_format::manifest::{Compress, DeltaMode};
use standfast_store::Encodings;

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
