//! Tests of the whole store, on a real directory and on a failing disk. Tests of single rules are beside the code.

mod chains;
mod crash;
mod damage;
mod disk;
mod encodings;
mod leasing;
mod levels;
mod life;
mod masked_pages;

use crate::{
    Chain, HostIdentity, JobDirectory, Lease, LeaseRequest, PreparePlan, Prepared, ProcessIdentity, Processes, Purpose,
    Selector, StorageBackend, StoreError,
};
use standfast_core::{Address, PAGE_BYTES, PageRange, PageSet};
use standfast_format::manifest::{Generation, JobDescription, RunOptions};
use standfast_format::records::{JobState, ProcessState};
use standfast_format::{BackingPage, BatchRange, BoxError, ImageSink, ImageSource, PageBatch};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Pages by process and address.
type Pages = BTreeMap<(u32, u64), Vec<u8>>;

const LIVE: LeaseRequest = LeaseRequest { purpose: Purpose::Live, force: false };
/// Requests a lease from an earlier boot whose heartbeat nobody watches here.
const AFTER_REBOOT: LeaseRequest = LeaseRequest { purpose: Purpose::Live, force: true };

/// The processes of an imaginary machine.
#[derive(Debug, Default)]
struct Crowd(Vec<ProcessIdentity>);

impl Processes for Crowd {
    fn start_time(&self, pid: i32) -> Option<u64> {
        self.0.iter().find(|process| process.pid == pid).map(|process| process.start_time)
    }

    fn has_group(&self, _leader: i32) -> bool {
        false
    }
}

const SUPERVISOR: ProcessIdentity = ProcessIdentity { pid: 10, start_time: 100 };

/// Returns the identity of a machine on which only this supervisor is alive.
fn host_identity(boot: u32) -> HostIdentity {
    HostIdentity {
        host: "here".into(),
        boot_id: format!("boot {boot}"),
        pid_namespace: 1,
        user: rustix::process::geteuid().as_raw(),
        is_guest: false,
        supervisor: SUPERVISOR,
        processes: Box::new(Crowd(vec![SUPERVISOR])),
    }
}

fn open_on(storage_backend: Arc<dyn StorageBackend>, boot: u32) -> JobDirectory {
    JobDirectory::on(storage_backend, host_identity(boot)).expect("a trusted storage backend opens")
}

fn begin(directory: &JobDirectory, lease: &Lease) -> Result<(), StoreError> {
    let description = JobDescription { program: b"./prog"[..].into(), ..JobDescription::default() };
    directory.begin(lease, description, RunOptions::default())
}

fn state(name: &str) -> JobState {
    let process = ProcessState { working_directory: name.as_bytes().into(), ..ProcessState::default() };
    JobState { processes: vec![process, ProcessState::default()], ..JobState::default() }
}

fn page(fill: u8) -> Vec<u8> {
    (0..PAGE_BYTES).map(|at| fill.wrapping_add((at % 7) as u8)).collect()
}

/// Returns the content of a page after a program has written all of it, or a word here and there.
fn written(pages: &Pages, key: (u32, u64), fill: u8) -> Vec<u8> {
    match pages.get(&key) {
        Some(before) if !fill.is_multiple_of(3) => {
            let mut now = before.clone();
            now.iter_mut().skip(usize::from(fill)).step_by(97 * usize::from(fill)).for_each(|byte| *byte ^= fill);
            now
        }
        _ => page(fill),
    }
}

/// Returns scattered pages, all made from `fill`.
fn some_pages(fill: u8) -> Pages {
    [0x1000, 0x2000, 0x9000].into_iter().map(|at| ((0, at), page(fill.wrapping_add((at >> 12) as u8)))).collect()
}

fn lend_empty(prepared: &mut Prepared) -> Result<PageBatch, BoxError> {
    let mut batch = prepared.lend()?;
    batch.bytes.clear();
    Ok(batch)
}

/// Writes pages and state into a generation, without making it durable.
fn fill(prepared: &mut Prepared, pages: &Pages, state: &JobState) -> Result<(), BoxError> {
    submit_all(prepared, pages)?;
    prepared.finish(state)
}

fn submit_all(prepared: &mut Prepared, pages: &Pages) -> Result<(), BoxError> {
    let mut batch = lend_empty(prepared)?;
    for ((owner, address), bytes) in pages {
        if batch.bytes.len() == batch.bytes.capacity() {
            prepared.submit(batch)?;
            batch = lend_empty(prepared)?;
        }
        let range = PageRange::new(Address::new(*address), 1);
        batch.ranges.push(BatchRange { owner: *owner, range, backing_page: BackingPage::Zeros });
        batch.bytes.extend_from_slice(bytes);
    }
    prepared.submit(batch)
}

/// Takes one complete checkpoint.
fn checkpoint(directory: &JobDirectory, lease: &Lease, pages: &Pages, name: &str) -> Result<Generation, BoxError> {
    let mut prepared = directory.prepare(lease)?;
    fill(&mut prepared, pages, &state(name))?;
    Ok(prepared.seal()?.commit(Duration::from_millis(3))?)
}

/// Takes a checkpoint that builds on the newest one, which held `before`: unchanged pages are inherited.
fn checkpoint_upon(
    directory: &JobDirectory,
    lease: &Lease,
    before: &Pages,
    pages: &Pages,
    name: &str,
) -> Result<Generation, BoxError> {
    let parent = directory.manifest()?.generations.iter().rev().find(|it| !it.superseded).map(|it| it.number);
    let mut prepared = directory.prepare_with(lease, PreparePlan { parent, ..PreparePlan::default() })?;
    fill_upon(&mut prepared, before, pages, &state(name))?;
    Ok(prepared.seal()?.commit(Duration::from_millis(3))?)
}

/// Does the same as [`fill`], but on a parent that held `before`, if there is one.
fn fill_upon(prepared: &mut Prepared, before: &Pages, pages: &Pages, state: &JobState) -> Result<(), BoxError> {
    let is_same = |(key, page): &(&(u32, u64), &Vec<u8>)| before.get(*key) == Some(*page);
    let changed = pages.iter().filter(|it| prepared.parent().is_none() || !is_same(it));
    let changed: Pages = changed.map(|(key, page)| (*key, page.clone())).collect();
    for owner in 0..2 {
        prepared.follow(owner, owner);
        let same = pages.keys().filter(|key| key.0 == owner && !changed.contains_key(key));
        let same = PageSet::of(same.map(|key| PageRange::new(Address::new(key.1), 1)));
        if !same.is_empty() {
            prepared.inherit(owner, owner, &same)?;
        }
    }
    fill(prepared, &changed, state)
}

/// Returns all stored pages of an image.
fn pages_of(image: &Chain) -> Result<Pages, BoxError> {
    let pages = Mutex::new(Pages::new());
    image.deliver(&|runs, mut bytes| {
        for run in runs {
            for page in 0..run.range.pages() {
                let (head, rest) = bytes.split_at(PAGE_BYTES);
                let address = run.range.start().get() + page * PAGE_BYTES as u64;
                let twice = pages.lock().expect("no panic").insert((run.owner, address), head.to_vec());
                assert!(twice.is_none(), "a page is delivered once");
                bytes = rest;
            }
        }
        assert!(bytes.is_empty(), "runs and bytes agree");
        Ok(())
    })?;
    Ok(pages.into_inner().expect("no panic"))
}

/// Returns the name that was given to the newest good generation, and its pages.
fn newest(directory: &JobDirectory) -> Result<(String, Pages), BoxError> {
    let image = directory.choose(Selector::Newest)?.image;
    Ok((image.state().processes[0].working_directory.to_string(), pages_of(&image)?))
}
