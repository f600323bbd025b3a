//! What an image does not say. Images of earlier versions lack fields that a collection has today, so that their absence is no
//! difference.

use standfast_format::records::{JobState, OpenFileKind, ProcessState, Socket, SocketState};

/// Leaves out of `found` what `saved` does not say.
pub(super) fn forget_unsaid(saved: &JobState, found: &mut JobState) {
    for (saved, found) in saved.processes.iter().zip(&mut found.processes) {
        forget_of_process(saved, found);
    }
    for (saved, found) in saved.open_files.iter().zip(&mut found.open_files) {
        if let (OpenFileKind::HungUp { mode: None }, OpenFileKind::HungUp { mode }) = (&saved.kind, &mut found.kind) {
            *mode = None;
        }
    }
    for (saved, found) in saved.sockets.iter().zip(&mut found.sockets) {
        forget_origins(saved, found);
    }
    for (saved, found) in saved.terminals.iter().zip(&mut found.terminals) {
        found.mode = found.mode.filter(|_| saved.mode.is_some());
    }
    for (saved, found) in saved.semaphores.iter().zip(&mut found.semaphores) {
        found.used = found.used.filter(|_| saved.used.is_some());
    }
}

fn forget_of_process(saved: &ProcessState, found: &mut ProcessState) {
    // Mappings are cut and joined in different ways, and an image says this of all shared ones or of none.
    if saved.mappings.iter().all(|mapping| mapping.may_write.is_none()) {
        found.mappings.iter_mut().for_each(|mapping| mapping.may_write = None);
    }
    let (saved, found) = (&saved.switches, &mut found.switches);
    found.audit_login = found.audit_login.filter(|_| saved.audit_login.is_some());
}

fn forget_origins(saved: &Socket, found: &mut Socket) {
    if let (SocketState::Towards { peer: None, .. }, SocketState::Towards { peer, .. }) =
        (&saved.state, &mut found.state)
    {
        *peer = None;
    }
    for (saved, found) in saved.received.iter().zip(&mut found.received) {
        found.from = found.from.take().filter(|_| saved.from.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::{
        Backing, Mapping, MappingAttributes, OpenFile, ProcessSwitches, Protection, PseudoTerminal, SemaphoreSet,
        SocketMessage,
    };

    fn mapping(may_write: Option<bool>) -> Mapping {
        Mapping {
            start: 0,
            end: 4096,
            protection: Protection::default(),
            backing: Backing::SharedObject { object: 0, offset: 0 },
            grows_down: false,
            attributes: MappingAttributes::default(),
            may_write,
        }
    }

    /// A job in which each of these fields is what `known` says.
    fn job(known: bool) -> JobState {
        let kind = OpenFileKind::HungUp { mode: known.then_some(0o620) };
        let state = SocketState::Towards { address: vec![1].into(), peer: known.then_some(1) };
        let message = SocketMessage { from: known.then(|| vec![2].into()), ..SocketMessage::default() };
        let process = ProcessState {
            mappings: vec![mapping(known.then_some(false))],
            switches: ProcessSwitches { audit_login: known.then_some(1000), ..ProcessSwitches::default() },
            ..ProcessState::default()
        };
        JobState {
            processes: vec![process],
            open_files: vec![OpenFile { flags: 2, kind, signal_target: None, locks: Vec::new(), signal: None }],
            sockets: vec![Socket { state, received: vec![message], ..Socket::default() }],
            terminals: vec![PseudoTerminal { mode: known.then_some(0o600), ..PseudoTerminal::default() }],
            semaphores: vec![SemaphoreSet { used: known.then_some(true), ..SemaphoreSet::default() }],
            ..JobState::default()
        }
    }

    #[test]
    fn what_an_old_image_lacks_is_no_difference() {
        let mut found = job(true);
        forget_unsaid(&job(false), &mut found);
        assert_eq!(found, job(false));
    }

    #[test]
    fn what_an_image_says_is_compared() {
        let mut lost = job(false);
        forget_unsaid(&job(true), &mut lost);
        assert_eq!(lost, job(false));
        let mut found = job(true);
        forget_unsaid(&job(true), &mut found);
        assert_eq!(found, job(true));
    }
}
