//! Any bytes as a block of differences. The first byte says how many pages it is to have.

#![no_main]

use libfuzzer_sys::fuzz_target;
use standfast_core::delta::{Change, Delta, Encoder, Form};

fuzz_target!(|input: &[u8]| {
    let Some((pages, bytes)) = input.split_first() else { return };
    let Ok(delta) = Delta::parse(bytes, usize::from(*pages)) else { return };
    assert_eq!(delta.tally().bytes(), bytes.len());
    let before = vec![[0x5a; 4096]; usize::from(*pages)];
    let mut now = before.clone();
    delta.apply(&mut now);
    if delta.forms().all(|form| matches!(form, Form::Same | Form::Words)) {
        let changes = before.iter().zip(&now).map(|(before, now)| Change { before, now });
        assert_eq!(Encoder::new().encode(changes).bytes, bytes);
    }
});
