//! Tests of `terminals.rs`.

use super::*;
use standfast_linux::abi;
use std::os::unix::fs::OpenOptionsExt;

fn pair() -> Sides {
    let options = || {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(abi::O_NOCTTY | abi::O_NONBLOCK);
        options
    };
    let master = options().open("/dev/ptmx").unwrap();
    terminal::set_locked(master.as_fd(), false).unwrap();
    let slave = terminal::open_slave(master.as_fd()).unwrap();
    Sides::new(master.into(), slave)
}

fn with(change: impl FnOnce(&mut Termios)) -> (Sides, Termios) {
    let sides = pair();
    let mut settings = terminal::settings(sides.slave()).unwrap();
    change(&mut settings);
    terminal::set_settings(sides.slave(), &settings).unwrap();
    (sides, settings)
}

/// Scans twice: what was found is still there, and so are the settings.
fn seen(sides: &Sides, settings: &Termios) -> InFlight {
    let looked = || sides.scan().expect("it can be looked at");
    let first = looked();
    assert_eq!(looked(), first);
    assert_eq!(terminal::settings(sides.slave()).unwrap(), *settings);
    first
}

/// Returns what is read from a side until nothing is left, one entry for each read.
fn reads(mut from: &File) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let mut buffer = [0; 8192];
    while ready_events(from.as_fd(), INPUT).unwrap() & INPUT != 0 || unread_bytes(from.as_fd()).unwrap() > 0 {
        let length = from.read(&mut buffer).unwrap();
        pieces.push(buffer[..length].to_vec());
    }
    pieces
}

#[test]
fn a_side_that_is_to_be_told_of_room_is_left_alone() {
    let (sides, _) = with(|settings| settings.local &= !abi::ICANON);
    let refused = |by_master, by_slave| sides.check_signals(by_master, by_slave).is_err();
    assert!(!refused(true, true), "nothing is in flight");
    (&sides.master).write_all(&[b'x'; LITTLE_BYTES]).unwrap();
    ready_events(sides.slave(), INPUT).unwrap();
    assert!(!refused(true, false));
    (&sides.master).write_all(b"x").unwrap();
    sides.settle().unwrap();
    assert!(refused(true, false), "the kernel may be about to tell the master");
    assert!(!refused(false, false), "nobody wants to know");
    reads(&sides.slave);
    reads(&sides.master);
    terminal::suspend_output(sides.slave()).unwrap();
    assert!(refused(false, true) && !refused(true, false), "the slave waits until its output goes on");
}

#[test]
fn lines_eof_and_quoted_characters_are_kept_and_echoed_once() {
    let (sides, settings) = with(|_| {});
    (&sides.master).write_all(b"one\r\x16\x04\x16\n\x16\x16two\nab\x04\x04half \x16\x03").unwrap();
    let found = seen(&sides, &settings);
    let lines: [&[u8]; 4] = [b"one\n", b"\x04\n\x16two\n", b"ab", b""];
    assert_eq!(found.input.iter().map(|line| &line.0[..]).collect::<Vec<_>>(), lines);
    assert_eq!(found.unfinished.0, b"half \x03");
    assert!(found.output.0.starts_with(b"one\r\n") && found.output.0.ends_with(b"half ^\x08^C"));
    assert_eq!(reads(&sides.slave), lines);
    (&sides.master).write_all(b"!\r").unwrap();
    assert_eq!(reads(&sides.slave), [b"half \x03!\n"]);
    let echoed = [&found.output.0[..], b"!\r\n"].concat();
    assert_eq!(reads(&sides.master).concat(), echoed);
}

/// Writes into a side, in pieces of random length, until it accepts no more and has accepted at least `least` bytes. It
/// accepts more when the kernel's worker has had a processor.
fn fill(mut side: &File, other: &File, least: usize, random: &mut Random) -> Vec<u8> {
    let (mut filled, mut failed) = (Vec::new(), 0);
    let longest = [2, 8, 130, 257, 600, 1025, 2100, 5000, 60_000][random.below(9)];
    let steady = random.below(2) == 0;
    while failed < 10 || filled.len() < least {
        let length = if steady { longest } else { 1 + random.below(longest) };
        let piece: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        match side.write(&piece) {
            Ok(length) => filled.extend(&piece[..length]),
            Err(_) => {
                std::thread::sleep(Duration::from_micros(500));
                failed += 1;
            }
        }
    }
    ready_events(other.as_fd(), INPUT).unwrap();
    filled
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

#[test]
fn every_byte_passes_in_raw_mode_even_with_full_queues() {
    for seed in 1..=8 {
        let mut random = Random(seed);
        let (sides, settings) = with(|settings| {
            (settings.input, settings.output, settings.local) = (0, 0, 0);
            settings.characters[abi::VMIN] = 9;
        });
        let (mut typed, mut written) = (Vec::new(), Vec::new());
        for least in [2 * QUEUE_BYTES, 0, 0, 0] {
            typed.extend(fill(&sides.master, &sides.slave, least, &mut random));
            written.extend(fill(&sides.slave, &sides.master, 0, &mut random));
            let found = seen(&sides, &settings);
            assert!(
                found.input.iter().flat_map(|piece| piece.0.iter()).eq(&typed) && found.output.0 == written,
                "seed {seed}"
            );
        }
        let (new, found) = (pair(), seen(&sides, &settings));
        new.fill(&settings, &found).unwrap();
        assert!(seen(&new, &settings) == found, "seed {seed}");
        assert!(reads(&sides.slave).concat() == typed && reads(&sides.master).concat() == written, "seed {seed}");
    }
}

#[test]
fn stopped_output_is_reported_and_stays_stopped() {
    for (stop, hold) in [(OutputStop::Call, None), (OutputStop::Key, Some(b"\x13"))] {
        let (sides, settings) = with(|_| {});
        (&sides.slave).write_all(b"before").unwrap();
        match hold {
            None => terminal::suspend_output(sides.slave()).unwrap(),
            Some(key) => (&sides.master).write_all(key).unwrap(),
        }
        let found = seen(&sides, &settings);
        assert_eq!((found.stop, &found.output.0[..]), (Some(stop), &b"before"[..]));
        assert!((&sides.slave).write(b"behind").is_err(), "it is held back");
    }
}

#[test]
fn echo_waits_with_the_output_that_is_held_back() {
    for by_key in [false, true] {
        let (sides, settings) = with(|_| {});
        let hold = |sides: &Sides| match by_key {
            true => (&sides.master).write_all(b"\x13"),
            false => terminal::suspend_output(sides.slave()),
        };
        hold(&sides).unwrap();
        (&sides.master).write_all(b"a \x01\tb\rhalf").unwrap();
        let found = seen(&sides, &settings);
        assert_eq!((&found.output.0[..], &found.echo.0[..]), (&b""[..], &b"a ^A\tb\nhalf"[..]));
        let new = pair();
        new.fill(&settings, &found).unwrap();
        for sides in [sides, new] {
            assert_eq!(seen(&sides, &settings), found);
            assert_eq!(reads(&sides.master).concat(), b"");
            match by_key {
                true => (&sides.master).write_all(b"\x11").unwrap(),
                false => terminal::resume_output(sides.slave()).unwrap(),
            }
            while ready_events(sides.slave(), OUTPUT).unwrap() & OUTPUT == 0 {
                std::thread::sleep(ROOM_PAUSE);
            }
            (&sides.slave).write_all(b"!").unwrap();
            assert_eq!(reads(&sides.master).concat(), b"a ^A\tb\r\nhalf!");
            assert_eq!(reads(&sides.slave), [b"a \x01\tb\n"]);
        }
    }
}

#[test]
fn packet_mode_is_kept_and_unread_status_delays_the_scan() {
    let (sides, settings) = with(|_| {});
    terminal::set_packets(sides.master.as_fd(), true).unwrap();
    (&sides.slave).write_all(b"text\n").unwrap();
    assert_eq!(seen(&sides, &settings).output.0, b"text\r\n");
    assert_eq!(reads(&sides.master), [b"\0text\r\n"]);
    terminal::suspend_output(sides.slave()).unwrap();
    assert!(matches!(sides.scan(), Err(Unreported::NotNow(_))));
    assert_eq!(reads(&sides.master), [[4]], "it has not been told");
}

#[test]
fn too_much_pending_input_delays_the_scan() {
    let (sides, _) = with(|settings| settings.local &= !abi::ECHO);
    for _ in 0..300 {
        (&sides.master).write_all(b"a line\n").unwrap();
    }
    // The kernel's worker passes it on when it gets a processor.
    while unread_bytes(sides.slave()).unwrap() <= TYPED_AHEAD_MAX {
        std::thread::yield_now();
    }
    assert!(matches!(sides.scan(), Err(Unreported::NotNow(_))));
    assert_eq!(reads(&sides.slave).len(), 300);
}
