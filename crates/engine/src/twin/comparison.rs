//! The fields in which two records differ. Records that are equal cost only that comparison; of others the text that
//! `Debug` makes is compared line by line, since it names every field.

use standfast_format::records::{Bytes, JobState, ProcessState, ThreadState};
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display, Formatter};

/// A field in which a rebuilt job differs from its image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The names that lead to the field: `processes.threads.signal_mask`.
    pub(crate) field: String,
    /// The same with the place in each list: `processes[0].threads[2].signal_mask`.
    place: String,
    saved: Option<String>,
    found: Option<String>,
}

impl Display for Difference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        write!(f, "{}: {} at the checkpoint, {} now", self.place, value(&self.saved), value(&self.found))
    }
}

/// Returns the fields in which two jobs differ.
pub(super) fn differences(saved: &JobState, found: &JobState) -> Vec<Difference> {
    let mut comparison = Comparison::default();
    comparison.lists("processes", &saved.processes, &found.processes, Comparison::processes);
    comparison.lists("open_files", &saved.open_files, &found.open_files, Comparison::records);
    comparison.lists("pipes", &saved.pipes, &found.pipes, Comparison::records);
    comparison.lists("objects", &saved.objects, &found.objects, Comparison::records);
    comparison.lists("sockets", &saved.sockets, &found.sockets, Comparison::records);
    comparison.lists("terminals", &saved.terminals, &found.terminals, Comparison::records);
    comparison.lists("semaphores", &saved.semaphores, &found.semaphores, Comparison::records);
    comparison.lists("message_queues", &saved.message_queues, &found.message_queues, Comparison::records);
    comparison.lists("posix_queues", &saved.posix_queues, &found.posix_queues, Comparison::records);
    comparison.0
}

#[derive(Default)]
struct Comparison(Vec<Difference>);

impl Comparison {
    /// Compares two lists, entry by entry.
    fn lists<T: Debug + PartialEq>(
        &mut self,
        name: &str,
        saved: &[T],
        found: &[T],
        compare: fn(&mut Self, &str, &T, &T),
    ) {
        for (place, (saved, found)) in saved.iter().zip(found).enumerate() {
            if saved != found {
                compare(self, &format!("{name}[{place}]"), saved, found);
            }
        }
        for (place, saved) in saved.iter().enumerate().skip(found.len()) {
            self.note(&format!("{name}[{place}]"), Some(&format!("{saved:?}")), None);
        }
        for (place, found) in found.iter().enumerate().skip(saved.len()) {
            self.note(&format!("{name}[{place}]"), None, Some(&format!("{found:?}")));
        }
    }

    /// Compares two processes. Their longest lists are compared entry by entry.
    fn processes(&mut self, name: &str, saved: &ProcessState, found: &ProcessState) {
        self.lists(&format!("{name}.mappings"), &saved.mappings, &found.mappings, Self::records);
        self.lists(&format!("{name}.threads"), &saved.threads, &found.threads, Self::threads);
        self.lists(&format!("{name}.descriptors"), &saved.descriptors, &found.descriptors, Self::records);
        let rest = |process: &ProcessState| ProcessState {
            mappings: Vec::new(),
            threads: Vec::new(),
            descriptors: Vec::new(),
            ..process.clone()
        };
        let (saved, found) = (rest(saved), rest(found));
        if saved != found {
            self.records(name, &saved, &found);
        }
    }

    /// Compares two threads. The texts of their vector registers are long, and rarely differ.
    fn threads(&mut self, name: &str, saved: &ThreadState, found: &ThreadState) {
        let rest = |thread: &ThreadState| ThreadState { extended_registers: Bytes::default(), ..thread.clone() };
        match saved.extended_registers == found.extended_registers {
            true => self.records(name, &rest(saved), &rest(found)),
            false => self.records(name, saved, found),
        }
    }

    /// Compares two records, field by field.
    fn records(&mut self, name: &str, saved: &impl Debug, found: &impl Debug) {
        let (saved, found) = (fields(saved), fields(found));
        for (path, value) in &saved {
            let other = found.get(path);
            if other != Some(value) {
                self.note(&format!("{name}{path}"), Some(value), other.map(String::as_str));
            }
        }
        for (path, value) in found.iter().filter(|(path, _)| !saved.contains_key(*path)) {
            self.note(&format!("{name}{path}"), None, Some(value));
        }
    }

    fn note(&mut self, place: &str, saved: Option<&str>, found: Option<&str>) {
        let outside = |piece: &str| piece.split_once(']').map_or(piece, |(_, rest)| rest).to_owned();
        let mut pieces = place.split('[');
        let first = pieces.next().unwrap_or_default().to_owned();
        let field = pieces.fold(first, |field, piece| field + &outside(piece));
        let (saved, found) = (saved.map(str::to_owned), found.map(str::to_owned));
        self.0.push(Difference { field, place: place.to_owned(), saved, found });
    }
}

/// Returns the values of a record by the names that lead to them. The name of a variant is the value of its field.
fn fields(record: &impl Debug) -> BTreeMap<String, String> {
    let text = format!("{record:#?}");
    let mut fields = BTreeMap::new();
    // The path to each open bracket, and the number of unnamed values seen behind it.
    let mut open: Vec<(String, usize)> = Vec::new();
    for line in text.lines() {
        let line = line.trim().trim_end_matches(',');
        if matches!(line, "}" | "]" | ")") {
            open.pop();
            continue;
        }
        let above = open.last().map_or("", |(path, _)| path).to_owned();
        let (path, value) = match line.split_once(": ") {
            Some((name, value)) if is_name(name) => (format!("{above}.{name}"), value),
            _ => (format!("{above}{}", next_place(&mut open)), line),
        };
        match value.strip_suffix(['{', '[', '(']) {
            Some(kind) => {
                if !kind.is_empty() {
                    fields.insert(path.clone(), kind.trim().to_owned());
                }
                open.push((path, 0));
            }
            None => drop(fields.insert(path, value.to_owned())),
        }
    }
    fields
}

fn is_name(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
}

/// Returns the place of the next unnamed value. The record itself has none.
fn next_place(open: &mut [(String, usize)]) -> String {
    open.last_mut().map_or(String::new(), |(_, next)| {
        *next += 1;
        format!("[{}]", *next - 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::{OpenFile, OpenFileKind, ThreadState, Wait};

    fn said(differences: &[Difference]) -> Vec<String> {
        differences.iter().map(Difference::to_string).collect()
    }

    #[test]
    fn a_difference_is_named_by_its_field_and_its_place() {
        let thread = ThreadState { wait: Some(Wait { call: 7, remaining_nanoseconds: 5 }), ..ThreadState::default() };
        let process = ProcessState { threads: vec![ThreadState::default(), thread], ..ProcessState::default() };
        let saved = JobState { processes: vec![process], ..JobState::default() };
        let mut found = saved.clone();
        assert_eq!(differences(&saved, &found), []);
        found.processes[0].umask = 18;
        found.processes[0].threads[1].signal_mask = 4;
        found.processes[0].threads[1].wait = None;
        let all = differences(&saved, &found);
        assert_eq!(
            said(&all),
            [
                "processes[0].threads[1].signal_mask: 0 at the checkpoint, 4 now",
                "processes[0].threads[1].wait: Some at the checkpoint, None now",
                "processes[0].threads[1].wait[0]: Wait at the checkpoint, nothing now",
                "processes[0].threads[1].wait[0].call: 7 at the checkpoint, nothing now",
                "processes[0].threads[1].wait[0].remaining_nanoseconds: 5 at the checkpoint, nothing now",
                "processes[0].umask: 0 at the checkpoint, 18 now",
            ]
        );
        assert_eq!(all[4].field, "processes.threads.wait.remaining_nanoseconds");
    }

    #[test]
    fn an_item_on_only_one_side_is_a_difference() {
        let open = |flags| OpenFile {
            flags,
            kind: OpenFileKind::Pipe { pipe: 0 },
            signal_target: None,
            locks: Vec::new(),
            signal: None,
        };
        let saved = JobState { open_files: vec![open(0), open(1)], ..JobState::default() };
        let found = JobState { open_files: vec![open(2)], ..JobState::default() };
        let all = differences(&saved, &found);
        assert_eq!(all.iter().map(|it| it.field.as_str()).collect::<Vec<_>>(), ["open_files.flags", "open_files"]);
        let all = differences(&found, &saved);
        assert!(said(&all)[1].starts_with("open_files[1]: nothing at the checkpoint, OpenFile"), "{all:?}");
    }
}
