//! Checks whether a recorded tree can be one.

use standfast_format::records::{JobState, ProcessState, ProcessTree};
use std::collections::BTreeSet;

/// Reports whether the main process comes first, parents before children and the living before the dead, each id once.
pub(crate) fn is_sound_tree(job: &JobState) -> bool {
    let living = job.processes.iter().take_while(|process| process.process_tree.wait_status.is_none()).count();
    let is_in_place = |(place, process): (usize, &ProcessState)| {
        let ProcessTree { parent, wait_status, .. } = process.process_tree;
        let below = parent.is_none_or(|parent| (parent as usize) < place.min(living));
        below && wait_status.is_some() == (place >= living) && (wait_status.is_none() || parent.is_some())
    };
    let ids: BTreeSet<i32> = job.processes.iter().map(|process| process.pid).collect();
    living > 0
        && ids.len() == job.processes.len()
        && job.processes[0].process_tree.parent.is_none()
        && job.processes.iter().enumerate().all(is_in_place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: Option<u32>, wait_status: Option<i32>) -> ProcessState {
        let process_tree = ProcessTree { parent, wait_status, ..ProcessTree::default() };
        ProcessState { pid, process_tree, ..ProcessState::default() }
    }

    #[test]
    fn a_tree_that_cannot_be_is_not_sound() {
        let is_sound = |processes: &[ProcessState]| {
            is_sound_tree(&JobState { processes: processes.to_vec(), ..JobState::default() })
        };
        let (main, child, zombie) = (process(7, None, None), process(8, Some(0), None), process(9, Some(1), Some(0)));
        assert!(is_sound(&[main.clone(), child.clone(), zombie.clone()]));
        assert!(!is_sound(&[]), "nobody");
        assert!(!is_sound(std::slice::from_ref(&zombie)), "nobody who lives");
        assert!(!is_sound(&[child.clone(), main.clone()]), "a child before its parent");
        assert!(!is_sound(&[main.clone(), zombie, child]), "the dead before the living");
        assert!(!is_sound(&[main.clone(), process(7, Some(0), None)]), "an id twice");
        assert!(!is_sound(&[main, process(8, None, Some(0))]), "a zombie without a parent");
    }
}
