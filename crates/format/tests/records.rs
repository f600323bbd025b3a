//! All content of the records survives the conversion to CBOR and back.

mod any_record;

use any_record::*;
use proptest::prelude::*;
use standfast_format::records::*;

proptest! {
    #[test]
    fn every_state_comes_back_from_its_bytes(state in state()) {
        let bytes = minicbor::to_vec(&state).expect("a vector takes all bytes");
        prop_assert_eq!(minicbor::decode::<JobState>(&bytes).expect("what was written reads back"), state);
    }

    #[test]
    fn no_bytes_make_the_records_panic(state in state(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = minicbor::to_vec(&state).expect("a vector takes all bytes");
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if let Ok(other) = minicbor::decode::<JobState>(&bytes) {
            let again = minicbor::to_vec(&other).expect("a vector takes all bytes");
            prop_assert_eq!(minicbor::decode::<JobState>(&again).expect("what was read can be written"), other);
        }
    }
}
