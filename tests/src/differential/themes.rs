//! What random programs do: for each kind of kernel object, the steps that make one and the steps that use it. Signals,
//! actors and what concerns a whole process are themes like any other (`themes_of_processes.rs`).
//!
//! A step is written as in a script, with these words for what the generator chooses:
//!
//! ```text
//! +pipe          a fresh slot, which holds a descriptor of this kind from then on; $1 is the first one of the template
//! @pipe/file     a slot that holds a descriptor of one of these kinds; @any: of any kind
//! +map %map      a fresh place for a mapping, and one that is in use
//! 3..9           a number from 3 to 8
//! 0|0x800        one of these
//! seed sig mask  the seed of a pattern, a signal, a set of signals
//! actor process  any actor, or one that is the main thread of its process; child: another one than the program itself
//! +actor         the number of a fresh actor
//! child:         in front of a step, who takes it: a child process; other: any actor but the first; first: that one
//! ;              between steps that belong together
//! ```

/// One kind of object, or of what a process can do.
#[derive(Debug)]
pub(super) struct Theme {
    /// Its name in summaries.
    pub(super) name: &'static str,
    /// How likely a program is to have it, compared with others.
    pub(super) weight: u32,
    /// What its steps leave behind, or need.
    pub(super) traits: &'static [Trait],
    /// The steps of which the first one of the theme is chosen.
    pub(super) makes: &'static [&'static str],
    /// The other steps. Some are there twice, since they are more interesting.
    pub(super) uses: &'static [&'static str],
}

/// What limits the ways in which a program can be tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trait {
    /// It changes files or objects that stay when the program is killed, so that a restart may only use the newest
    /// checkpoint.
    Files,
    /// It needs the old process ids after a restart, or those of processes that have ended. `--ids new` has neither.
    Ids,
}

use Trait::Files;

/// Themes of memory, files and descriptors.
pub(super) const OF_OBJECTS: &[Theme] = &[
    Theme {
        name: "memory",
        weight: 10,
        traits: &[],
        makes: &[
            "map +map 1..64 3 2|2|2|0x4002|0x8002|0x2002|0x20002 ; fill $1 0 1..16 seed",
            "map +map 8..64 0|1|3|7 2 ; fill $1 0 1..16 seed",
        ],
        uses: MEMORY_USES,
    },
    Theme {
        name: "huge-page-memory",
        weight: 3,
        traits: &[],
        makes: &["map +map 1023 3 2 ; advise $1 0 1023 14 ; fill $1 0|512 1..300 seed"],
        uses: &[
            "fill %map 0..600 1..300 seed",
            "advise %map 0|512 512 4|25|15|14",
            "protect %map 0..600 1..512 1|3",
            "poke %map 0..2000000 1..255",
        ],
    },
    Theme {
        name: "shared-memory",
        weight: 7,
        traits: &[],
        makes: &["map +map 1..40 3 1|1|0x8001|0x4001 ; fill $1 0 1..20 seed"],
        uses: MEMORY_USES,
    },
    Theme {
        name: "mapped-file",
        weight: 7,
        traits: &[Files],
        makes: &[
            "open +file 0..6 0x42 0644 ; write $1 1..60000 seed ; map-file +map 1..20 1|3|3|5 1|2 $1 0|0|1",
            "open +file 0..6 0x42 0644 ; truncate $1 1..60000 ; map-file +map 1..20 3 1 $1 0 ; close $1",
            "open +file 0..6 0x42 0644 ; write $1 1..60000 seed ; map-file +map 1..20 3 1|2 $1 0 ; unlink 0..6",
        ],
        uses: &[
            "fill %map 0..16 1..8 seed",
            "poke %map 0..40000 1..255",
            "write @file 1..9000 seed",
            "write-at @file 0..20000 1..9000 seed",
            "truncate @file 0..50000",
            "protect %map 0..16 1..8 0|1|3|5",
            "advise %map 0..16 1..8 0|1|2|4|10|16|22|23|9",
            "sync %map 0..16 1..8 1|4",
            "unmap %map 0..16 1..4",
            "move %map 0..8 1..16 1..24 1 +map",
            "map-file +map 1..20 1|3 1|2 @file 0|1|2",
            "lock-memory %map 0..16 1..8 0|1",
            "allocate @file 3 0..20000 1..9000",
        ],
    },
    Theme {
        name: "memfd",
        weight: 7,
        traits: &[],
        makes: &[
            "memfd +memfd 0|1|2|3|8|16 ; write $1 1..30000 seed ; map-file +map 1..10 3 1 $1 0",
            "memfd +memfd 2 ; truncate $1 1..60000 ; map-file +map 1..16 1|3 1|2 $1 0",
        ],
        uses: &[
            "write @memfd 1..9000 seed",
            "write-at @memfd 0..40000 1..9000 seed",
            "read @memfd 1..9000",
            "seek @memfd 0..9000 0|1|2",
            "truncate @memfd 0..70000",
            "seal @memfd 1|2|4|8|16|32",
            "allocate @memfd 0|1|3|16 0..20000 1..30000",
            "fill %map 0..10 1..6 seed",
            "map-file +map 1..10 1|3 1|2 @memfd 0|1",
            "duplicate @memfd +memfd 0|1",
            "change-mode @memfd 0600|0777|0400",
            "advise %map 0..8 1..8 4|9|22|102|103",
            "unmap %map 0..8 1..8",
            "set-flags @memfd 0|0x400|0x800",
            "lock @memfd 6|37 0|1|2 0..900 0..900",
        ],
    },
    Theme {
        name: "file",
        weight: 9,
        traits: &[Files],
        makes: &[
            "open +file 0..8 0x42|0x42|0x442|0x41|0x1042|0x80042 0644|0600|0640 ; write $1 1..9000 seed",
            "open +file 10|60 0x410002 0600 ; write $1 1..9000 seed",
            "open +file 0..8 0x42 0644 ; write $1 1..9000 seed ; open +file 0..8 0|0x400|0x200000 0",
        ],
        uses: FILE_USES,
    },
    Theme {
        name: "lock",
        weight: 7,
        traits: &[Files],
        makes: &[
            "open +file 0..4 0x42 0644 ; write $1 1..2000 seed ; flock $1 1|2",
            "open +file 0..4 0x42 0644 ; lock $1 6|37 0|1 0..50 0..50",
        ],
        uses: &[
            "flock @file 1|2|8",
            "lock @file 6|37 0|1|1|2 0..90 0..90",
            "lock @file 6 0|1|2 0..90 0..90",
            "lock @file 37 0|1|2 0..90 0..90",
            "duplicate @file +file 0",
            "open +file 0..4 2 0644",
            "close @file",
            "fork +actor",
        ],
    },
    Theme {
        name: "directory",
        weight: 7,
        traits: &[Files],
        makes: &[
            "make-directory 10|11|12 0755|0700 ; open +dir 10|11|12|60 0x10000|0x210000 0",
            "open +dir 60 0x10000 0 ; list $1 100|200",
        ],
        uses: &[
            "make-directory 10..14 0755|0700",
            "open +file 20..28 0x42 0644 ; write $1 1..900 seed",
            "list @dir 60|100|200|4000",
            "seek @dir 0 0",
            "rename 0|10|11|20|22 1|12|13|21|23",
            "unlink 0|1|20|21|22",
            "remove-directory 10..14",
            "change-directory 10|11|60",
            "enter @dir",
            "symbolic-link 0|10 50..53",
            "look 0..60",
            "flock @dir 1|2|8",
            "change-mode @dir 0700|0755|0555",
            "open +dir 10..14 0x10000|0x200000 0",
        ],
    },
    Theme {
        name: "named-pipe",
        weight: 6,
        traits: &[Files],
        makes: &[
            "make-pipe 30|31|32 0600 ; open +fifo 30|31|32 2|0x802 0 ; write $1 1..3000 seed",
            "make-pipe 30 0644 ; open +fifo 30 0 0 ; open +fifo 30 1 0",
        ],
        uses: &[
            "write @fifo 1..6000 seed",
            "read @fifo 1..3000",
            "open +fifo 30..33 0|1|2|0x802 0",
            "pipe-size @fifo 4096|8192|65536",
            "unlink 30..33",
            "close @fifo",
            "splice @fifo @fifo 1..2000 0|1",
            "look 30..33",
        ],
    },
    Theme {
        name: "pipe",
        weight: 8,
        traits: &[],
        makes: &["pipe +pipe-out +pipe-in 0|0|0x800|0x4000|0x80000 ; write $2 1..9000 seed"],
        // How much fits a pipe depends on how the kernel has cut what is in it into pages. So no pipe is filled.
        uses: &[
            "write @pipe-in 1..9000 seed",
            "write @pipe-in 1..9000 seed",
            "read @pipe-out 1..3000",
            "pipe-size @pipe-in 4096|8192|65536|131072",
            "pipe +pipe-out +pipe-in 0|0x4000",
            "splice @pipe-out @pipe-in/any 1..5000 0|1",
            "duplicate @pipe-in/pipe-out +pipe-in 0|1",
            "set-flags @pipe-in/pipe-out 0|0x800|0x2000|0x4000",
            "close @pipe-in/pipe-out",
            "fork +actor",
            "other: hang 0|1 @pipe-out",
            "owner @pipe-out 0|1|2 actor",
            "signal-of @pipe-out 0|34|35",
            "poll @pipe-out/pipe-in",
        ],
    },
    Theme {
        name: "event-counter",
        weight: 6,
        traits: &[],
        makes: &["event-counter +event 0..9 0|1|0x800|0x80000 ; count $1 1..99"],
        uses: &[
            "count @event 0..99",
            "count @event 0xfffffffffffffff0",
            "read @event 8",
            "duplicate @event +event 0|1",
            "other: hang 0|1 @event",
            "fork +actor",
            "set-flags @event 0|0x800",
        ],
    },
    Theme {
        name: "timer-descriptor",
        weight: 6,
        traits: &[],
        makes: &["timer-descriptor +timer 0|1|7 0|0x800|0x80000 ; set-timer-descriptor $1 1..9 0..9"],
        uses: &[
            "set-timer-descriptor @timer 1..9 0..9",
            "set-timer-descriptor @timer 0 0..9",
            "set-timer-descriptor @timer -1 0..9",
            "read @timer 8",
            "duplicate @timer +timer 0",
            "poll @timer",
            "other: hang 0|1 @timer",
        ],
    },
    Theme {
        name: "signal-descriptor",
        weight: 6,
        traits: &[],
        makes: &["block 0 mask ; signal-descriptor +signal mask 0|0x800|0x80000"],
        uses: &[
            "block 0|1|2 mask",
            "kill actor sig 0..5 1..99",
            "read-signals @signal",
            "signal-descriptor @signal mask 0 1",
            "poll @signal",
            "fork +actor",
        ],
    },
    Theme {
        name: "epoll",
        weight: 8,
        traits: &[],
        makes: &["epoll +epoll 0|0x80000 ; event-counter +event 0|1 0 ; epoll-control $1 1 $2 1|4|5|0x80000001 1..9"],
        uses: &[
            "epoll-control @epoll 1|1|1|2|3 @any 1|4|5|0x80000001|0x80000005|0x2019 10..90",
            "epoll-control @epoll 1|3 @any 0x40000001|0x40000004|0x10000001 10..90",
            "epoll-wait @epoll",
            "epoll-wait @epoll",
            "count @event 1..9",
            "read @event 8",
            "pipe +pipe-out +pipe-in 0 ; epoll-control @epoll 1 $1 1|0x80000001 10..90 ; write $2 1..90 seed",
            "socket-pair +stream +stream 1 ; epoll-control @epoll 1 $1 5|0x80002005 10..90",
            "duplicate @epoll +epoll 0",
            "fork +actor",
        ],
    },
    Theme {
        name: "file-watch",
        weight: 6,
        traits: &[Files],
        // A checkpoint opens and reads files, as a backup does, so these events are not watched for. Known: a restart
        // that makes a deleted file again shows in a watch of its directory.
        makes: &["file-watch +watch 0|0x800 ; open +file 0..3 0x42 0644 ; watch $1 0..3 0xfc6|2|0x3c0|0x300"],
        uses: &[
            "watch @watch 0..4|10 0xfc6|2|0x100|0x20000002",
            "unwatch @watch 1..4",
            "read-events @watch",
            "read-events @watch",
            "write @file 1..90 seed ; read-events @watch",
            "open +file 0..5 0x42 0644",
            "duplicate @watch +watch 0",
        ],
    },
];

const MEMORY_USES: &[&str] = &[
    "map +map 1..64 0|1|3|7 2|1|2|0x102|0x4002",
    "fill %map 0..40 1..20 seed",
    "fill %map 0..40 1..20 seed",
    "fill %map 0..40 1..20 0",
    "poke %map 0..200000 0..255",
    "protect %map 0..40 1..20 0|1|2|3|4|5|7",
    "advise %map 0..40 1..20 4",
    "advise %map 0..40 1..20 0|1|2|3|10|11|12|13|14|15|16|17|18|19|20|22|23",
    "advise %map 0..40 1..9 102|103",
    "unmap %map 0..40 1..10",
    "move %map 0..8 1..16 1..24 0",
    "move %map 0..8 1..16 1..24 1|5 +map",
    "lock-memory %map 0..40 1..20 0|1",
    "unlock-memory %map 0..40 1..20",
    "name-memory %map 0..40 1..20 0..3",
    "key 0..4 0|1|2 ; protect-by-key %map 0..40 1..20 1|3 0..4",
    "key-rights 0..4 0|1|2",
    "seal-memory %map 0..40 1..20",
    "place-memory %map 0..40 1..20 0|1|2|3",
    "fork +actor",
];

const FILE_USES: &[&str] = &[
    "write @file 1..9000 seed",
    "write-at @file 0..20000 1..9000 seed",
    "read @file 1..9000",
    "read-at @file 0..9000 1..9000",
    "seek @file 0..20000 0|1|2",
    "seek @file 0..9000 3|4",
    "truncate @file 0..20000",
    "allocate @file 0|1|3|16 0..20000 1..9000",
    "duplicate @file +file 0|1",
    "set-flags @file 0|0x400|0x800|0x40000",
    "close-on-exec @file 0|1",
    "open +file 0..8 0|1|2|0x401|0x242|0x200000 0644",
    "close @file",
    "unlink 0..8",
    "rename 0..8 0..8",
    "link 0..8 0..8",
    "name-file @file 0..8",
    "look 0..8",
    "change-mode @file 0600|0644|0400|0000|04755",
    "splice @file @file 1..5000 2|3",
    "fork +actor",
];
