//! What a killed program leaves: System V objects and message queues with keys and names that come from its working
//! folder (`shared.c`), and directories that nobody may enter.

use nix::mqueue::mq_unlink;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// As in the interpreter.
const OBJECTS: u32 = 4;
const FOLD_START: u64 = 0xcbf2_9ce4_8422_2325;
const FOLD_FACTOR: u64 = 0x0100_0000_01b3;

fn key(work: &Path, number: u32) -> u32 {
    let fold = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(FOLD_FACTOR);
    let sum = work.as_os_str().as_bytes().iter().fold(FOLD_START, fold);
    let low = u32::try_from(sum & 0x7fff_fff0).expect("31 bits fit");
    low | number | 8
}

/// Removes the objects of the program that ran in this folder.
pub(super) fn remove_shared_objects(work: &Path) {
    let lists = [("-M", "shm"), ("-S", "sem"), ("-Q", "msg")];
    for (kind, list) in lists {
        let listed = fs::read_to_string(format!("/proc/sysvipc/{list}")).unwrap_or_default();
        for number in 0..OBJECTS {
            let key = key(work, number);
            if listed.lines().any(|line| line.split_whitespace().next() == Some(&key.to_string())) {
                let mut removal = Command::new("ipcrm");
                removal.args([kind, &format!("{key:#x}")]).stdout(Stdio::null()).stderr(Stdio::null());
                let _ = removal.status();
            }
        }
    }
    for number in 0..OBJECTS {
        let _ = mq_unlink(format!("/standfast-differential-{:08x}-{number}", key(work, 0)).as_str());
    }
}

/// Gives back the right to remove what is in the directories below `folder`.
pub(super) fn open_directories(folder: &Path) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o755));
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_directories(&entry.path());
        }
    }
}
