//! Any bytes as the body of a manifest, sealed so that they get past length and checksum; and as a manifest themselves.

#![no_main]

use libfuzzer_sys::fuzz_target;
use standfast_core::Checksum;
use standfast_format::manifest::{seal, unseal};

fuzz_target!(|body: &[u8]| {
    let _ = unseal(body);
    let mut bytes = b"SFMANIF\n".to_vec();
    bytes.extend(1u32.to_le_bytes());
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(body);
    bytes.extend(Checksum::of(&bytes).to_bytes());
    if let Ok(manifest) = unseal(&bytes) {
        let again = seal(&manifest).expect("what is read can be written");
        assert_eq!(unseal(&again), Ok(manifest));
    }
});
