//! Threads, channels, collections and a panic that is caught; a line for each round.

use std::collections::BTreeMap;
use std::sync::mpsc::{channel, sync_channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const ROUNDS: u64 = 100;

fn piece(seed: u64) -> u64 {
    let mut table = BTreeMap::new();
    let mut state = seed;
    for _ in 0..10_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        table.insert(state >> 46, format!("{state:x}"));
    }
    table.iter().fold(0, |sum: u64, (key, text)| sum.wrapping_mul(31).wrapping_add(*key + text.len() as u64))
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let (questions, asked) = sync_channel::<u64>(1);
    let (answers, answered) = channel();
    let worker = spawn(move || asked.into_iter().for_each(|seed| answers.send(piece(seed)).unwrap()));
    let mut sum = 0u64;
    let times = std::env::var("VICTIM_TIMES").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for round in 0..ROUNDS * times {
        questions.send(round * 2 + 1).unwrap();
        sum = sum.wrapping_mul(17).wrapping_add(piece(round * 2)).wrapping_add(answered.recv().unwrap());
        let start = Instant::now();
        sleep(Duration::from_millis(5));
        assert!(start.elapsed() >= Duration::from_millis(5), "a sleep was too short");
        assert!(std::panic::catch_unwind(|| panic!("on purpose")).is_err());
        println!("round {round} sum {sum:016x}");
    }
    drop(questions);
    worker.join().unwrap();
    println!("end");
}
