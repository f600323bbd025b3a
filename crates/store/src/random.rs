//! Random names: of jobs, leases and temporary files.

use rustix::rand::{GetRandomFlags, getrandom};

/// 16 bytes that nobody else draws.
pub(crate) fn bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel gives random bytes since Linux 3.17: {error}"),
        }
    }
    bytes
}

/// 16 bytes that nobody else draws, as 32 hexadecimal digits.
pub fn random_token() -> String {
    bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}
