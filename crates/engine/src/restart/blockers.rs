//! Blockers of a restart here: another machine, an image that describes something impossible, changed files.
//! [`super::open_files`] decides about open files.

use super::files::Reckoning;
use super::folders::FolderPlan;
use super::mapped_files::MappedPlan;
use super::vdso::{self, Vdso};
use crate::file_policy::{FilePolicy, Objection};
use crate::foreseen::foreseen;
use crate::machine::machine;
use crate::objects::{Blockers, is_sound_tree};
use crate::remake::Remaking;
use crate::scratch::ADDRESS_END;
use crate::{Blocker, RefusalCode};
use standfast_core::PAGE_BYTES;
use standfast_format::records::{Backing, Bytes, FileReference, JobState, Machine, Mapping, ObjectKind, ProcessState};
use standfast_linux::processor;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Words in the registers of a thread.
const REGISTERS: usize = 27;

impl Blockers {
    /// Adds a file that the restart may not continue with.
    pub(super) fn add_objection(&mut self, what: &str, objection: Objection) {
        self.add(Blocker::new(RefusalCode::FileChanged, what, objection.why).with_hint(objection.hint));
    }

    pub(super) fn check_machine(&mut self, job: &JobState) -> Vdso {
        let (was, is) = (&job.machine, machine(0));
        if was.architecture != is.architecture {
            let why = format!("the checkpoint was taken on {}, this machine is {}", was.architecture, is.architecture);
            self.add(
                Blocker::new(RefusalCode::Processor, "processor", why)
                    .with_hint("restart on a machine of the same kind"),
            );
        }
        self.check_processor(was);
        vdso::decide(job, &is).unwrap_or_else(|blocker| {
            self.add(blocker);
            Vdso::Same
        })
    }

    /// Checks that code which the program has chosen for the old processor runs on this one.
    pub(super) fn check_processor(&mut self, was: &Machine) {
        let here = processor::features();
        let missing: Vec<_> = was.processor_features.iter().filter(|name| !here.contains(&name.as_str())).collect();
        if !missing.is_empty() {
            let names = missing.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
            let why = format!("this one lacks what the program may use: {names}");
            self.add(
                Blocker::new(RefusalCode::Processor, "processor", why)
                    .with_hint("restart on a machine whose processor has all of them"),
            );
        }
        let lacking = was.xsave_features & !processor::enabled_state();
        let areas = processor::state_areas(was.xsave_features);
        let moved = was.state_areas.iter().any(|was| !areas.contains(&(was.feature, was.offset, was.bytes)));
        if lacking != 0 || moved {
            let why = format!(
                "its layout of registers that the program uses is another one (XSAVE features {:#x})",
                was.xsave_features
            );
            self.add(
                Blocker::new(RefusalCode::Processor, "processor", why)
                    .with_hint("restart on a machine of the same kind"),
            );
        }
    }

    pub(super) fn check_process_tree(&mut self, job: &JobState) {
        if is_sound_tree(job) {
            foreseen(job).into_iter().for_each(|blocker| self.add(blocker));
        } else {
            self.add_impossible("it verifies, but describes a tree of processes that cannot be");
        }
    }

    /// Checks what the decoder cannot know to be wrong, and refuses an image that would make this code misbehave.
    pub(super) fn check_shape(&mut self, process: &ProcessState, objects: usize) {
        let mappings = process.mappings.iter().map(|mapping| (mapping.start, mapping.end));
        let special = process.special_mappings.iter().map(|mapping| (mapping.start, mapping.end));
        let mut ranges: Vec<_> = mappings.chain(special).collect();
        ranges.sort_unstable();
        let page = PAGE_BYTES as u64;
        let sound = |(start, end): &(u64, u64)| {
            start < end && *end <= ADDRESS_END && start.is_multiple_of(page) && end.is_multiple_of(page)
        };
        let backed = |mapping: &Mapping| match mapping.backing {
            Backing::SharedObject { object, offset } | Backing::PrivateObject { object, offset } => {
                (object as usize) < objects && offset.is_multiple_of(page)
            }
            _ => true,
        };
        let backed = process.mappings.iter().all(backed);
        let apart = ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        let threads = process.threads.iter().all(|thread| thread.registers.len() == REGISTERS);
        let signals = process.pending.iter().chain(process.threads.iter().flat_map(|thread| &thread.pending));
        let signals = signals.into_iter().all(|signal| signal.information.0.len() == 128);
        if process.threads.is_empty() || !ranges.iter().all(sound) || !apart || !backed || !threads || !signals {
            self.add_impossible("it verifies, but describes a process that cannot be");
        }
    }

    /// Checks that code and data that are read from a file again are unchanged.
    pub(super) fn check_unchanged(&mut self, reckoning: &Reckoning<'_>, file: &FileReference, role: &str) {
        if let Err(objection) = reckoning.judge_mapped(file) {
            self.add_objection(&format!("{role} {}", file.path), objection);
        }
    }

    /// Checks mapped files. Many mappings are of few files, and each file is checked once.
    pub(super) fn check_mapped(
        &mut self,
        reckoning: &Reckoning<'_>,
        process: &ProcessState,
        copies: &BTreeMap<Bytes, PathBuf>,
    ) {
        let mut seen = BTreeSet::new();
        let of_file = process.mappings.iter().filter_map(|mapping| Some((mapping, mapping.backing.file()?)));
        // With the policy `Keep`, a file that the program may write may have any contents.
        let stays = |mapping: &Mapping| mapping.may_write == Some(true) && reckoning.options.policy == FilePolicy::Keep;
        for (_, file) in of_file.filter(|(mapping, _)| !stays(mapping)) {
            if seen.insert(&file.path) && !copies.contains_key(&file.path) {
                self.check_unchanged(reckoning, file, "mapped file");
            }
        }
    }

    /// Checks files that had several names.
    pub(super) fn check_names(&mut self, reckoning: &Reckoning<'_>, remaking: &mut Remaking<'_>) {
        for names in reckoning.names.values() {
            if let Some(objection) = &names.against {
                self.add_objection(&format!("file {}", names.own.display()), objection.clone());
            }
            names.absent().for_each(|path| remaking.expect(path));
        }
    }

    /// Checks files that the program writes through a mapping.
    pub(super) fn check_mapped_files(
        &mut self,
        reckoning: &Reckoning<'_>,
        remaking: &mut Remaking<'_>,
    ) -> Vec<MappedPlan> {
        let mut plans = Vec::new();
        for (place, object) in reckoning.job.objects.iter().enumerate() {
            let ObjectKind::MappedFile { file, .. } = &object.kind else { continue };
            let judged = reckoning.judge_mapped_file(place).and_then(|plan| {
                if !plan.is_doubtful {
                    reckoning.provide_for(file, remaking)?;
                }
                Ok(plan)
            });
            match judged {
                Ok(plan) => plans.push(plan),
                Err(objection) => self.add_objection(&format!("mapped file {}", file.path), objection),
            }
        }
        plans
    }

    /// Checks folders that are saved with the job.
    pub(super) fn check_folders(&mut self, reckoning: &Reckoning<'_>) -> Vec<FolderPlan> {
        let mut plans = Vec::new();
        for (place, folder) in reckoning.job.folders.iter().enumerate() {
            match reckoning.judge_folder(place) {
                Ok(plan) => plans.extend(plan),
                Err(objection) => self.add_objection(&format!("folder {}", folder.path), objection),
            }
        }
        plans
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::tests::process;
    use standfast_format::records::{PendingSignal, ThreadState};

    #[test]
    fn an_image_of_an_impossible_process_is_refused() {
        let thread = |registers| ThreadState { registers: vec![0; registers], ..ThreadState::default() };
        let signal = |bytes: usize| PendingSignal { signal: 10, information: vec![0u8; bytes].into() };
        let sound = ProcessState { threads: vec![thread(REGISTERS)], ..process(&[(0x1000, 0x2000), (0x2000, 0x4000)]) };
        let object = |object, offset| {
            let mut process = sound.clone();
            process.mappings[0].backing = Backing::SharedObject { object, offset };
            process
        };
        let is_refused = |process: &ProcessState| {
            let mut blockers = Blockers::default();
            blockers.check_shape(process, 1);
            !blockers.is_empty()
        };
        assert!(!is_refused(&sound) && !is_refused(&object(0, 0x1000)));
        for ranges in [
            &[(0x2000, 0x1000)][..],
            &[(0x1001, 0x2000)],
            &[(0x1000, 0x2001)],
            &[(0x1000, ADDRESS_END + 0x1000)],
            &[(0x1000, 0x3000), (0x2000, 0x4000)],
        ] {
            assert!(is_refused(&ProcessState { threads: sound.threads.clone(), ..process(ranges) }), "{ranges:x?}");
        }
        assert!(is_refused(&object(1, 0)), "an object that is not there");
        assert!(is_refused(&object(0, 0x1001)), "not the beginning of a page");
        assert!(is_refused(&ProcessState { threads: Vec::new(), ..sound.clone() }));
        assert!(is_refused(&ProcessState { threads: vec![thread(REGISTERS - 1)], ..sound.clone() }));
        assert!(is_refused(&ProcessState { pending: vec![signal(127)], ..sound.clone() }));
        assert!(!is_refused(&ProcessState { pending: vec![signal(128)], ..sound }));
    }

    fn named(was: &Machine) -> Vec<String> {
        let mut blockers = Blockers::default();
        blockers.check_processor(was);
        blockers.into_all().into_iter().map(|it| format!("{}: {}", it.what, it.why)).collect()
    }

    #[test]
    fn a_processor_that_lacks_a_feature_is_refused_with_its_name() {
        let here = machine(0);
        assert_eq!(named(&here), [""; 0]);
        let features = [here.processor_features.as_slice(), &["time_travel".to_owned()]].concat();
        let said = named(&Machine { processor_features: features, ..here.clone() });
        assert!(said.len() == 1 && said[0].contains("time_travel"), "{said:?}");
        // Bit 63 of XCR0 will never be a feature.
        let said = named(&Machine { xsave_features: 1 << 63, ..here });
        assert!(said.len() == 1 && said[0].contains("XSAVE"), "{said:?}");
    }
}
