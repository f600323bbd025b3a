//! Tests of every key, of each error, and of precedence.

use super::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

fn parsed(text: &str) -> Ckptrc {
    Ckptrc::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn every(seconds: u64) -> Interval {
    Interval::Every(Duration::from_secs(seconds))
}

fn interval(text: &str) -> Option<Interval> {
    parsed(text).choices().interval
}

#[test]
fn every_key_of_the_paper_is_understood() {
    let text = "checkpointing on\ndir /scratch/me\nmaxtime 90\nmintime 30\nincremental on\nmaxfiles 5\nfork off\n";
    let wanted = Ckptrc {
        checkpointing: Some(Switch::On),
        dir: Some("/scratch/me".into()),
        maxtime_seconds: Some(90),
        mintime_seconds: Some(30),
        incremental: Some(Switch::On),
        maxfiles: Keep::new(5),
        fork: Some(Switch::Off),
    };
    assert_eq!(parsed(text), wanted);
    assert_eq!(parsed(&text.replace('\n', "\r\n").replace(' ', "  \t")), wanted, "other white space");
}

#[test]
fn comments_and_blank_lines_say_nothing() {
    assert_eq!(parsed(""), Ckptrc::default());
    assert_eq!(parsed("# a comment\n\n  \t\n   # another # one\n#maxtime 7"), Ckptrc::default());
    assert_eq!(parsed("maxtime 60 # a minute"), parsed("maxtime 60"));
    assert_eq!(parsed("dir run#7 #mine").dir, Some("run#7".into()), "within a word it belongs to the word");
}

#[test]
fn a_path_may_hold_spaces_and_bytes_that_are_no_text() {
    assert_eq!(parsed("dir  my own place ").dir, Some("my own place".into()));
    let path = Ckptrc::parse(b"dir /a/\xff").expect("a path is bytes").dir;
    assert_eq!(path, Some(OsString::from_vec(b"/a/\xff".to_vec()).into()));
}

#[test]
fn each_wrong_line_is_named_with_a_hint() {
    let table = [
        ("maxtimes 60", "line 1: unknown key 'maxtimes'\nhint: use checkpointing, dir, maxtime"),
        ("\n\nCheckpointing on", "line 3: unknown key 'Checkpointing'"),
        ("interval=60", "line 1: unknown key 'interval=60'"),
        (
            "# fine\ncheckpointing yes",
            "line 2: 'yes' is not a value of checkpointing\nhint: write 'checkpointing on' or",
        ),
        ("checkpointing", "line 1: '' is not a value of checkpointing"),
        ("incremental 1", "line 1: '1' is not a value of incremental"),
        ("fork ON", "line 1: 'ON' is not a value of fork\nhint: write 'fork on' or 'fork off'"),
        ("fork on off", "line 1: 'on off' is not a value of fork"),
        ("maxtime", "line 1: '' is not a value of maxtime\nhint: write a whole number from 0 to 31622400"),
        ("maxtime 10m", "line 1: '10m' is not a value of maxtime"),
        ("maxtime -1", "line 1: '-1' is not a value of maxtime"),
        ("maxtime +1", "line 1: '+1' is not a value of maxtime"),
        ("maxtime 1.5", "line 1: '1.5' is not a value of maxtime"),
        ("maxtime 31622401", "line 1: '31622401' is not a value of maxtime"),
        ("mintime 99999999999999999999", "line 1: '99999999999999999999' is not a value of mintime"),
        ("maxfiles 0", "line 1: '0' is not a value of maxfiles\nhint: write a whole number from 1 to 10000"),
        ("maxfiles 10001", "line 1: '10001' is not a value of maxfiles"),
        ("maxfiles many", "line 1: 'many' is not a value of maxfiles"),
        ("dir", "line 1: dir names no directory\nhint: write its path"),
        ("dir #here", "line 1: dir names no directory"),
        ("dir a\0b", "line 1: dir names no directory"),
        ("fork on\n\nfork on", "line 3: fork is set a second time\nhint: keep one of the two lines"),
        ("maxtime 1\nmaxtime 2", "line 2: maxtime is set a second time"),
    ];
    for (text, wanted) in table {
        let error = Ckptrc::parse(text.as_bytes()).expect_err(text).to_string();
        assert!(error.starts_with(wanted), "{text:?}: {error}");
    }
}

/// After a change: `INSTA_UPDATE=always cargo test -p standfast`, then read the difference.
#[test]
fn error_texts_match_the_reviewed_snapshot() {
    let path = || PathBuf::from("/data/.ckptrc");
    let line = |fault| CkptrcError::Line { path: path(), source: LineError { line: 2, fault } };
    let untrusted = |fault| CkptrcError::Untrusted { path: path(), fault };
    let errors = [
        line(LineFault::Key { text: "interval".to_owned() }),
        line(LineFault::Switch { key: "fork", text: "yes".to_owned() }),
        line(LineFault::Number { key: "maxfiles", text: "0".to_owned(), least: *FILES.start(), most: *FILES.end() }),
        line(LineFault::Directory),
        line(LineFault::Repeated { key: "dir" }),
        untrusted(TrustFault::Owner { owner: 1000, user: 1001 }),
        untrusted(TrustFault::Mode { mode: 0o664 }),
        untrusted(TrustFault::Link),
        untrusted(TrustFault::NoFile),
        CkptrcError::TooLong { path: path() },
        CkptrcError::Unreadable { path: path(), source: io::ErrorKind::PermissionDenied.into() },
    ];
    insta::assert_snapshot!(errors.map(|error| error.to_string()).join("\n\n"));
}

#[test]
fn a_message_cannot_be_made_to_write_to_the_terminal() {
    let error = Ckptrc::parse(b"\x1b[2J\xff\x07").expect_err("no key").to_string();
    let own = error.matches('\n').count();
    assert_eq!((own, error.chars().filter(|it| it.is_control()).count()), (1, 1), "{error:?}");
    let long = Ckptrc::parse(&[b'x'; 5000]).expect_err("no key").to_string();
    assert!(long.len() < 300, "{long}");
}

#[test]
fn maxtime_is_the_interval_and_0_or_checkpointing_off_disable_it() {
    assert_eq!(interval("maxtime 90"), Some(every(90)));
    assert_eq!(interval("maxtime 90\ncheckpointing on"), Some(every(90)));
    assert_eq!(interval("maxtime 0"), Some(Interval::Off));
    assert_eq!(interval("checkpointing off"), Some(Interval::Off));
    assert_eq!(interval("checkpointing off\nmaxtime 90"), Some(Interval::Off));
    assert_eq!(interval("maxtime 0\ncheckpointing on"), Some(Interval::Off));
    assert_eq!(interval("checkpointing on"), Some(every(600)), "a job that once was off must not stay so");
    assert_eq!(interval("maxfiles 3\nmintime 5"), None, "nothing is said about it");
    assert_eq!(interval("maxtime 31622400"), Some(Interval::Every(INTERVAL_MAX)));
}

#[test]
fn maxfiles_is_the_number_of_kept_checkpoints_and_defaults_to_1() {
    assert_eq!(parsed("maxfiles 3").choices().keep, Keep::new(3));
    assert_eq!(parsed("maxtime 3").choices().keep, None);
    assert_eq!(Some(Ckptrc::defaults().keep), Keep::new(1));
    assert_eq!(Ckptrc::defaults().interval, every(600));
}

#[test]
fn incremental_makes_maxfiles_the_chain_length_and_1_disables_it() {
    let said = |text: &str| {
        let choices = parsed(text).choices();
        (choices.incremental, choices.max_files, choices.keep)
    };
    assert_eq!(said("incremental on\nmaxfiles 7"), (Some(Incremental::On), MaxFiles::new(7), Keep::new(1)));
    assert_eq!(said("incremental on\nmaxfiles 1"), (Some(Incremental::Off), None, Keep::new(1)));
    assert_eq!(said("incremental on"), (Some(Incremental::Off), None, None));
    assert_eq!(said("incremental off\nmaxfiles 7"), (Some(Incremental::Off), None, Keep::new(7)));
    assert_eq!(said("maxfiles 7"), (None, None, Keep::new(7)));
    assert_eq!(Ckptrc::defaults().incremental, Incremental::Off);
}

#[test]
fn fork_lets_the_program_run_while_its_checkpoint_is_written() {
    assert_eq!(parsed("fork on").choices().snapshot, Some(Snapshot::Fork));
    assert_eq!(parsed("fork off").choices().snapshot, Some(Snapshot::Sequential));
    assert_eq!(parsed("").choices().snapshot, None);
    assert_eq!(Ckptrc::defaults().snapshot, Snapshot::Sequential);
}

#[test]
fn dir_holds_a_directory_of_the_programs_own() {
    let directory = |text: &str| parsed(text).directory(OsStr::new("./build/heat"));
    assert_eq!(directory("dir /scratch/me"), Path::new("/scratch/me/heat.standfast"));
    assert_eq!(directory("dir kept/"), Path::new("kept/heat.standfast"));
    assert_eq!(directory("maxtime 3"), Path::new("heat.standfast"));
}

#[test]
fn unmet_settings_are_reported_once_each() {
    let unmet = |text: &str| parsed(text).unmet().collect::<Vec<_>>();
    let said = unmet("incremental on");
    assert!(said.len() == 1 && said[0].contains(CKPTRC) && said[0].contains("incremental"), "{said:?}");
    assert_eq!(unmet("incremental on\nfork on\nmintime 5").len(), 1);
    assert_eq!(unmet("incremental on\nfork on\nmaxfiles 2"), [""; 0]);
    assert_eq!(unmet("incremental off\nfork off\nmintime 0\nmaxtime 5\nmaxfiles 9\ncheckpointing off"), [""; 0]);
}

#[test]
fn only_own_files_that_others_cannot_write_are_followed() {
    let trusted = |owner, mode, user| check_trusted(owner, mode, user).is_ok();
    assert!(trusted(7, 0o100_600, 7) && trusted(7, 0o100_644, 7) && trusted(0, 0o100_400, 0));
    assert!(!trusted(8, 0o600, 7), "somebody else's");
    assert!(!trusted(0, 0o600, 7), "root's, and we are not root");
    assert!(!trusted(7, 0o600, 0), "a user's, and we are root");
    assert!(!trusted(7, 0o620, 7) && !trusted(7, 0o602, 7) && !trusted(7, 0o666, 7), "writable by others");
}

#[test]
fn a_missing_ckptrc_is_no_error_and_a_present_one_is_loaded() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join(CKPTRC);
    assert_eq!(Ckptrc::load(&path).expect("no file is no error"), None);
    fs::write(&path, "maxtime 5\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(Ckptrc::load(&path).expect("it is ours"), Some(parsed("maxtime 5")));
}

#[test]
fn links_pipes_and_writable_files_are_refused_without_blocking() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let refused = |name: &str| Ckptrc::load(&folder.path().join(name)).expect_err(name).to_string();
    let own = folder.path().join("own");
    fs::write(&own, "maxtime 5\n").unwrap();
    fs::set_permissions(&own, Permissions::from_mode(0o664)).unwrap();
    assert!(refused("own").contains("other users may write it (mode 664)"), "{}", refused("own"));
    symlink(&own, folder.path().join("link")).unwrap();
    assert!(refused("link").contains("symbolic link"));
    fs::create_dir(folder.path().join("folder")).unwrap();
    assert!(refused("folder").contains("not a regular file"));
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
    assert!(refused("fifo").contains("not a regular file"));
}

#[test]
fn a_ckptrc_above_the_size_limit_is_refused() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join(CKPTRC);
    fs::write(&path, vec![b'\n'; usize::try_from(CKPTRC_BYTES_MAX).unwrap() + 1]).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    assert!(matches!(Ckptrc::load(&path), Err(CkptrcError::TooLong { .. })));
}

#[test]
fn mintime_limits_program_requests_and_off_ignores_them() {
    let least = |text: &str| parsed(text).choices().min_interval;
    let after = |seconds| Some(MinInterval::After(Duration::from_secs(seconds)));
    assert_eq!(least("maxtime 5"), None, "nothing is said about it");
    assert_eq!(least("mintime 5"), after(5));
    assert_eq!(least("maxtime 0\nmintime 5"), after(5), "synchronous checkpoints only");
    assert_eq!(least("checkpointing on"), after(0), "a job that once was off must not stay so");
    assert_eq!(least("checkpointing off\nmintime 5"), Some(MinInterval::Never));
    assert_eq!(Ckptrc::defaults().min_interval, MinInterval::default());
}
