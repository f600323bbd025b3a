//! External endpoints: open files that lead out of the job and were given to it at its start. They are recorded by the
//! place where the restart's own take over, not by what they hold.

use super::Walk;
use super::shown::Shown;
use standfast_format::records::{Bytes, OpenFileKind, StandardStream};
use std::os::unix::fs::FileTypeExt;

impl Walk<'_> {
    pub(super) fn external(&self, shown: &Shown) -> Option<OpenFileKind> {
        let was = || Bytes::from(shown.target.as_slice());
        if let Some(stream) = self.stream(shown) {
            return Some(OpenFileKind::Stream { stream, was: was() });
        }
        self.inherited(shown).map(|number| OpenFileKind::Inherited { number, was: was() })
    }

    /// A standard stream of this life that is not a file. Devices that mean the same everywhere are opened by path.
    fn stream(&self, shown: &Shown) -> Option<StandardStream> {
        if shown.is_common_device() {
            return None;
        }
        let streams = [StandardStream::Input, StandardStream::Output, StandardStream::Error];
        let is = |number: usize| self.inheritance.streams[number] == Some(shown.identity());
        let by_number = usize::try_from(shown.number).ok().filter(|number| *number < 3 && is(*number));
        by_number.or_else(|| (0..3).find(|number| is(*number))).map(|number| streams[number])
    }

    /// A pipe or socket that the life was started with.
    fn inherited(&self, shown: &Shown) -> Option<i32> {
        let connects = shown.file.file_type().is_fifo() || shown.file.file_type().is_socket();
        let given = self.inheritance.others.iter().find(|(_, identity)| connects && *identity == shown.identity());
        given.map(|(number, _)| *number)
    }
}
