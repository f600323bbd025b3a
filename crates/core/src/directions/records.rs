//! A record of which calls excluded which addresses, for programs whose exclusions are checked. It holds the latest
//! read-only exclusions with their call stacks, in a ring. The library writes the ring, which is trusted as little as
//! anything in a program's memory.
//!
//! ```text
//! each of 16384:  first address (8)   address after (8)    calls (4)   - (4)   12 of them, the innermost first (8 each)
//! ```

use super::number64;
use crate::Address;

const RECORDS: usize = 1 << 14;
const RECORD_BYTES: usize = 120;
const CALLS_MAX: usize = 12;
const CALLS: usize = 24;

/// Length of the ring.
pub const RECORDS_BYTES: usize = RECORDS * RECORD_BYTES;

/// Returns the call stack that last excluded an address, the innermost call first; `None` if the ring no longer has it.
/// `written` is the number of exclusions written into the ring in all.
pub fn excluded_by(ring: &[u8; RECORDS_BYTES], written: u64, address: Address) -> Option<Vec<Address>> {
    let last_ones = (written.saturating_sub(RECORDS as u64)..written).rev();
    let mut records = last_ones.map(|number| &ring[number as usize % RECORDS * RECORD_BYTES..][..RECORD_BYTES]);
    let record = records.find(|record| number64(record, 0) <= address.get() && address.get() < number64(record, 8))?;
    let calls = (super::number32(record, 16) as usize).min(CALLS_MAX);
    Some((0..calls).map(|call| Address::new(number64(record, CALLS + 8 * call))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_exclusion_of_an_address_gives_its_call_stack() {
        let mut ring = Box::new([0u8; RECORDS_BYTES]);
        let mut put = |place: usize, words: &[u64]| {
            for (at, word) in words.iter().enumerate() {
                ring[place * RECORD_BYTES + 8 * at..][..8].copy_from_slice(&word.to_le_bytes());
            }
        };
        put(RECORDS - 1, &[0x1000, 0x3000, 2, 0x77, 0x88]);
        put(0, &[0x2000, 0x2800, 99, 0x99]);
        let by = |written, address| excluded_by(&ring, written, Address::new(address));
        let after = RECORDS as u64 + 1;
        assert_eq!(by(after, 0x1fff), Some(vec![Address::new(0x77), Address::new(0x88)]));
        assert_eq!(by(after, 0x2000).map(|calls| (calls.len(), calls[0])), Some((CALLS_MAX, Address::new(0x99))));
        assert_eq!(by(after, 0x2800).map(|calls| calls.len()), Some(2));
        assert_eq!(by(after, 0x3000), None);
        assert_eq!(by(1, 0x1fff), None, "that was never written");
    }
}
