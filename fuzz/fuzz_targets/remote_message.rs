//! Any bytes as a message between a client and a server of commands on other nodes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use standfast_remote::RemoteMessage;

fuzz_target!(|input: &[u8]| {
    if let Ok(message) = RemoteMessage::decode(input) {
        let again = minicbor::to_vec(&message).expect("a message can be encoded");
        assert_eq!(RemoteMessage::decode(&again).expect("it was one before"), message);
    }
});
