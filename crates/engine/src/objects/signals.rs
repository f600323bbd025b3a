//! Signal descriptors (signalfd): the signals that they take. Pending signals belong to threads and processes.

use super::{Kind, Known, O_NONBLOCK, Opening, Recorded, Unsupported, Walk, nothing};
use crate::{EngineError, RefusalCode};
use standfast_format::records::OpenFileKind;
use standfast_linux::abi;

const SIGNAL_SET_BYTES: u64 = 8;

pub(super) const KIND: Kind = Kind { collect, check: nothing, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    let shown = &walk.shown[place];
    (shown.target == b"anon_inode:[signalfd]").then(|| match shown.information.signal_mask {
        Some(mask) => Ok(OpenFileKind::Signals { mask }),
        None => Err(Unsupported::because(
            RefusalCode::KernelTooOld,
            "this kernel does not report which signals it receives",
        )),
    })
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    let OpenFileKind::Signals { mask } = recorded.kind else { return None };
    Some(opening.make_signal_descriptor(*mask, recorded.flags))
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    matches!(kind, OpenFileKind::Signals { .. }).then(|| "signal descriptor".to_owned())
}

impl Opening<'_> {
    fn make_signal_descriptor(&self, mask: u64, flags: u32) -> Result<u64, EngineError> {
        let mask = self.process.argument(&mask.to_le_bytes())?;
        let arguments = [u64::MAX, mask, SIGNAL_SET_BYTES, (flags & O_NONBLOCK).into(), 0, 0];
        self.call("making a signal descriptor", abi::SYS_signalfd4, arguments)
    }
}
