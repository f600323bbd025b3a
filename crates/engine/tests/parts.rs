//! Two parts of a distributed job, without the nodes: two programs on one machine that talk over TCP, each a job of its own.
//! They are frozen together, killed, and continued together, and lose no byte.

mod support;

use standfast_engine::{
    Advised, Assistance, CaptureOptions, ClockPolicy, CutPartners, CutReport, DistantDatagram, DistantEnd,
    EndAddresses, EngineError, FileOptions, Freezer, IdPolicy, InheritedSignals, Job, Launch, LaunchTerminal, Meeting,
    OtherEnd, Partner, RefusalCode, RestartNews, RestartOptions, RestartPartners, RestartStep, RestartToken, Tail,
    restart,
};
use standfast_format::records::{Socket, SocketState};
use standfast_format::{BoxError, ImageSink};
use standfast_linux::abi;
use standfast_linux::proc::{Endpoint, TcpConnection, tcp_state};
use standfast_linux::sys::descriptors::ready_events;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use support::{HeldImage, compile};

/// A program that stops at once may still have to wait for a processor.
const PATIENCE: Duration = Duration::from_secs(60);
/// Enough to fill the queues many times.
const MEBIBYTES: u32 = 64;
/// The two ways of the program.
const WAYS: [&str; 2] = ["serve", "call"];
const CUTS: usize = 5;
const CUT_WITH_TAKEN_PORT: usize = 2;
/// Number of meetings after which nothing moves any more.
const MEETINGS_UNTIL_FULL: u32 = 100;
/// What another test starts has the sockets that we look at, for a moment.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// One of two parts, with a way to the other.
#[derive(Debug)]
struct Side {
    to_other: SyncSender<Vec<DistantEnd>>,
    from_other: Mutex<Receiver<Vec<DistantEnd>>>,
    last: Mutex<LastMeeting>,
    deadline: Instant,
}

/// What both sides have said at the last meeting, and how often it was the same.
#[derive(Debug, Default)]
struct LastMeeting {
    ends: Vec<DistantEnd>,
    repeated: u32,
}

impl Side {
    /// Tells the other side something, and returns what it tells.
    fn exchange(&self, ends: &[DistantEnd]) -> Result<Vec<DistantEnd>, BoxError> {
        self.to_other.send(ends.to_vec())?;
        Ok(self.from_other.lock().map_err(|_| "the other side has failed")?.recv_timeout(PATIENCE)?)
    }
}

impl CutPartners for Side {
    fn meet(&self, report: CutReport) -> Result<Meeting, BoxError> {
        if Instant::now() > self.deadline {
            return Err(format!("the ends do not agree: {report:?}").into());
        }
        let reported = self.exchange(&report.ends)?;
        let mut last = self.last.lock().map_err(|_| "the other side has failed")?;
        // In the same order on both sides.
        let mut ends = [&report.ends[..], &reported].concat();
        ends.sort_by_key(|end| end.addresses.local.port);
        last.repeated = if ends == last.ends { last.repeated + 1 } else { 0 };
        last.ends = ends;
        let (mut others, mut is_settled) = (Vec::new(), true);
        for end in &report.ends {
            let EndAddresses { local, remote } = end.addresses;
            let wanted = EndAddresses { local: remote, remote: local };
            let other = reported.iter().find(|other| other.addresses == wanted);
            let other = other.ok_or("an end without a partner")?;
            let has_connected = has_connected(other, end);
            let is_full = !is_quiet(end, other) && last.repeated > MEETINGS_UNTIL_FULL && !end.was_emptied;
            let opening = u64::from(has_connected);
            let empty_until = is_full.then(|| other.traffic.acknowledged + other.traffic.unsent - opening);
            let is_to_refill = end.was_emptied && other.was_emptied && !have_settled(end, other);
            is_settled &= have_settled(end, other);
            let (unsent, has_ended) = (other.traffic.unsent, other.has_ended);
            others.push(OtherEnd::Open(Partner { unsent, has_ended, has_connected, empty_until, is_to_refill }));
        }
        Ok(Meeting { others, asked: Vec::new(), closed: Vec::new(), udp: Vec::new(), is_settled })
    }
}

/// Reports whether `end` has opened its connection: the packet that did so is acknowledged, and does not count as received.
fn has_connected(end: &DistantEnd, other: &DistantEnd) -> bool {
    end.traffic.acknowledged == other.traffic.received + 1
}

/// Reports whether no end waits for the other one to take what it has sent.
fn is_quiet(one: &DistantEnd, other: &DistantEnd) -> bool {
    one.traffic.unsent == 0 && other.traffic.unsent == 0
}

/// Reports whether nothing is on its way between two ends, so that each has received what the other one knows to have
/// arrived. While something comes in, one may have looked before it and the other after it.
fn have_settled(one: &DistantEnd, other: &DistantEnd) -> bool {
    if one.was_emptied || other.was_emptied {
        return one.was_refilled && other.was_refilled;
    }
    let knows = |end: &DistantEnd, other: &DistantEnd| {
        end.traffic.acknowledged == other.traffic.received + u64::from(has_connected(end, other))
    };
    let have_agreed = has_connected(one, other) != has_connected(other, one) && knows(one, other) && knows(other, one);
    have_agreed && is_quiet(one, other)
}

impl RestartPartners for Side {
    fn arrive(&self, _: RestartStep) -> Result<(), BoxError> {
        self.exchange(&[]).map(drop)
    }

    fn connect(&self, has_all: bool) -> Result<bool, BoxError> {
        // Any end says that something is missing.
        let last = self.last.lock().map_err(|_| "the other side has failed")?.ends.clone();
        let others_lack = self.exchange(if has_all { &[] } else { &last[..1] })?;
        Ok(has_all && others_lack.is_empty())
    }

    fn want_datagrams(&self, wanted: &[DistantDatagram]) -> Result<(), BoxError> {
        if wanted.is_empty() { Ok(()) } else { Err("the programs send no datagrams".into()) }
    }

    fn wanted_datagrams(&self) -> Result<Vec<DistantDatagram>, BoxError> {
        Ok(Vec::new())
    }

    fn token(&self) -> RestartToken {
        RestartToken([7; 16])
    }
}

/// How two programs talk.
struct Talk {
    /// The size of their receive queues, if they choose it.
    queue_bytes: Option<u32>,
    /// Whether both send, or only the one that has accepted.
    is_answered: bool,
    /// The cut after which the port of the end that connects is taken.
    cut_with_taken_port: Option<usize>,
}

fn sides() -> [Side; 2] {
    let ((one, of_one), (other, of_other)) = (sync_channel(1), sync_channel(1));
    let deadline = Instant::now() + PATIENCE;
    let side = |to_other, from_other| {
        let (from_other, last) = (Mutex::new(from_other), Mutex::default());
        Side { to_other, from_other, last, deadline }
    };
    [side(one, of_other), side(other, of_one)]
}

/// Returns an address of the loopback that no other process uses, so that nothing takes a port while the parts are dead.
fn own_address() -> Ipv4Addr {
    /// A process id has 22 bits.
    const FIRST_BYTES: u8 = 64;
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, FIRST_BYTES + high, middle, low)
}

fn talking(program: &Path, how: &str, talk: &Talk) -> Job {
    let command = "exec \"$0\" \"$@\" </dev/null >/dev/null 2>\"$0.$1.err\"";
    let answer = if talk.is_answered { MEBIBYTES } else { 0 };
    let [to_send, to_receive] = if how == "serve" { [MEBIBYTES, answer] } else { [answer, MEBIBYTES] };
    let numbers = [talk.queue_bytes.unwrap_or_default(), to_send, to_receive].map(|number| number.to_string());
    let [program, port] = [program.to_owned(), program.with_extension("port")].map(|it| it.display().to_string());
    let words = [program, how.to_owned(), own_address().to_string(), port].into_iter().chain(numbers);
    let arguments = ["-c", command].map(ToOwned::to_owned).into_iter().chain(words).map(OsString::from);
    Job::launch(&Launch {
        program: "/bin/sh".into(),
        arguments: arguments.collect(),
        signals: InheritedSignals::capture(),
        terminal: LaunchTerminal::shared(),
        directory: None,
        assistance: Assistance::default(),
    })
    .expect("it can be executed")
}

/// Freezes a part together with the other, captures it, and ends it when the other is captured as well.
fn captured(job: &mut Job, side: Side) -> HeldImage {
    let side = Arc::new(side);
    job.set_partners(side.clone());
    let mut held = HeldImage::default();
    let freezer = job.freezer();
    std::thread::scope(|scope| {
        let work = || {
            let mut frozen = freezer.freeze(PATIENCE).expect("it can be frozen");
            let captured = frozen.capture(&mut held, CaptureOptions::default()).expect("it can be captured");
            side.exchange(&[]).expect("the other one can be captured as well");
            frozen.kill().expect("it was stopped");
            held.finish(&captured.state).expect("memory takes it");
        };
        scope.spawn(work).join().expect("no panic");
    });
    ended(job);
    held
}

/// Waits until a job has ended.
fn ended(job: &mut Job) -> ExitStatus {
    await_until("the program does not end", || {
        ready_events(job.end_descriptor(), abi::POLLIN).expect("it can be polled") != 0
    });
    job.reap().expect("it has ended").expect("it is ours")
}

fn continued(held: &HeldImage, side: &Side) -> Result<Job, EngineError> {
    let mut keep_tail = |tail: &Tail<'_>| panic!("nothing is to be cut off, but {tail:?}");
    let mut before_thaw = |_| Ok(());
    let mut hold_terminal = |_| panic!("no terminal is to be held");
    let options = RestartOptions {
        ids: IdPolicy::Auto,
        clocks: ClockPolicy::Continue,
        despite: &[],
        files: FileOptions::default(),
        saved_binary: &|_| None,
        keep_tail: &mut keep_tail,
        news: RestartNews { generation: 1, directory: Path::new("/"), advised: Advised::default() },
        on_wait: &|_| Ok(()),
        partners: Some(side),
        hold_terminal: &mut hold_terminal,
        before_thaw: &mut before_thaw,
    };
    restart(held, options).map(|restarted| restarted.job)
}

/// Does something with both parts at once.
fn both<T: Send, R: Send>(things: [T; 2], work: impl Fn(T) -> R + Sync) -> [R; 2] {
    let work = &work;
    let [one, other] = things;
    std::thread::scope(|scope| {
        let one = scope.spawn(move || work(one));
        let other = scope.spawn(move || work(other));
        [one.join().expect("no panic"), other.join().expect("no panic")]
    })
}

/// Returns the address of the end that has connected.
fn name_of_caller(image: &HeldImage) -> SocketAddr {
    let is_it = |it: &&Socket| matches!(it.state, SocketState::Distant { is_accepted: false, .. });
    let caller = image.state.sockets.iter().find(is_it).expect("it has connected");
    let Endpoint { address, port } = Endpoint::of(&caller.name.0).expect("it has an address");
    SocketAddr::new(address, port)
}

/// Starts both parts, and waits until they have connected.
fn connected(program: &Path, talk: &Talk) -> [Job; 2] {
    let jobs = WAYS.map(|how| talking(program, how, talk));
    await_until("they have not connected", || {
        WAYS.iter().all(|how| program.with_extension(format!("port.{how}")).exists())
    });
    jobs
}

fn await_until(otherwise: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{otherwise}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What was seen at all cuts of two programs that talk.
#[derive(Default)]
struct Seen {
    /// Bytes that had been received and not read.
    in_flight: usize,
    /// Those of them that had not fitted into a receive queue.
    held_back: u64,
    /// The address of the end that had connected.
    names: Vec<SocketAddr>,
}

/// Has two programs talk, and checks that they lose no byte although they are killed and continued again and again.
fn survive_cuts(talk: &Talk) -> Seen {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (_directory, program) = compile("talk.c");
    let mut jobs = connected(&program, talk);
    let mut seen = Seen::default();
    for cut in 0..CUTS {
        std::thread::sleep(Duration::from_millis(20));
        let [one, other] = &mut jobs;
        let [first, second] = sides();
        let images = both([(one, first), (other, second)], |(job, side)| captured(job, side));
        for socket in images.iter().flat_map(|image| &image.state.sockets) {
            if let SocketState::Distant { held_back, .. } = socket.state {
                seen.in_flight += socket.received.iter().map(|message| message.contents.0.len()).sum::<usize>();
                seen.held_back += held_back.unwrap_or_default();
            }
        }
        seen.names.push(name_of_caller(&images[1]));
        // Something else has the port of the end that connects.
        let is_taken = talk.cut_with_taken_port == Some(cut);
        let _taken = is_taken.then(|| TcpListener::bind(seen.names[cut]).expect("nobody has it"));
        let [first, second] = &sides();
        let [one, other] = &images;
        jobs = both([(one, first), (other, second)], |(image, side)| continued(image, side))
            .map(|job| job.expect("nothing is in the way"));
    }
    let ended = jobs.each_mut().map(ended);
    let said = WAYS.map(|how| std::fs::read_to_string(program.with_extension(format!("{how}.err"))));
    assert!(ended.iter().all(ExitStatus::success), "{ended:?}, {said:?}");
    seen
}

#[test]
fn two_parts_that_are_killed_and_continued_together_lose_no_byte() {
    let talk = Talk { queue_bytes: None, is_answered: true, cut_with_taken_port: Some(CUT_WITH_TAKEN_PORT) };
    let seen = survive_cuts(&talk);
    assert!(seen.in_flight > 0, "nothing was on its way at any cut");
    let moved: Vec<bool> = seen.names.windows(2).map(|names| names[0] != names[1]).collect();
    let expected: Vec<bool> = (0..CUTS - 1).map(|cut| cut == CUT_WITH_TAKEN_PORT).collect();
    assert_eq!(moved, expected, "{:?}", seen.names);
}

#[test]
fn what_does_not_fit_into_a_receive_queue_is_not_lost_either() {
    for is_answered in [true, false] {
        let seen = survive_cuts(&Talk { queue_bytes: Some(32768), is_answered, cut_with_taken_port: None });
        assert!(seen.held_back > 0, "everything fitted, {} bytes", seen.in_flight);
    }
}

/// A part that is held up, when both have agreed, until the other has been ended.
#[derive(Debug)]
struct HeldUp {
    side: Side,
    other_ended: Mutex<Receiver<()>>,
}

impl CutPartners for HeldUp {
    fn meet(&self, report: CutReport) -> Result<Meeting, BoxError> {
        let meeting = self.side.meet(report)?;
        if meeting.is_settled {
            self.other_ended.lock().map_err(|_| "the other side has failed")?.recv_timeout(PATIENCE)?;
        }
        Ok(meeting)
    }
}

#[test]
fn a_connection_that_a_killed_part_ends_is_not_recorded_as_ended() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // An end that has received something resets its connection; one that has not ends it.
    for is_answered in [true, false] {
        let (_directory, program) = compile("talk.c");
        let [mut killed, mut other] =
            connected(&program, &Talk { queue_bytes: None, is_answered, cut_with_taken_port: None });
        let [first, side] = sides();
        let (tell_end, other_ended) = sync_channel(1);
        killed.set_partners(Arc::new(first));
        other.set_partners(Arc::new(HeldUp { side, other_ended: Mutex::new(other_ended) }));
        let capture = |freezer: Freezer| {
            let mut frozen = freezer.freeze(PATIENCE).expect("it can be frozen");
            let captured = frozen.capture(&mut HeldImage::default(), CaptureOptions::default());
            frozen.kill().expect("it was stopped");
            captured.map(drop)
        };
        let [of_killed, of_other] = [&killed, &other].map(Job::freezer);
        let refused = std::thread::scope(|scope| {
            let refused = scope.spawn(|| capture(of_other));
            let captured = scope.spawn(|| capture(of_killed)).join().expect("no panic");
            captured.expect("nothing has changed yet");
            ended(&mut killed);
            await_until("the other end hears nothing", || connections_here().is_empty());
            tell_end.send(()).expect("it waits");
            refused.join().expect("no panic").expect_err("its connection has changed")
        });
        let EngineError::Refused(blockers) = &refused else { panic!("{refused}") };
        assert!(blockers.iter().all(|it| it.code == RefusalCode::ConnectionUnsettled), "{refused}");
        ended(&mut other);
    }
}

/// Returns the connections of this test of which both ends believe that they are open.
fn connections_here() -> Vec<TcpConnection> {
    let all = TcpConnection::all().expect("the table can be read");
    let is_open = |it: &TcpConnection| it.local.address == own_address() && it.state == tcp_state::ESTABLISHED;
    all.into_iter().filter(is_open).collect()
}

/// A part that has nobody to meet.
#[derive(Debug)]
struct Nobody;

impl CutPartners for Nobody {
    fn meet(&self, _: CutReport) -> Result<Meeting, BoxError> {
        Err("nobody is there".into())
    }
}

#[test]
fn a_precopy_does_not_meet_the_other_parts_before_all_are_frozen() {
    let (_directory, program) = compile("counter.c");
    let words = ["200000".into(), program.with_extension("out").into()];
    let mut job = Job::launch(&Launch {
        program: program.clone().into(),
        arguments: words.to_vec(),
        signals: InheritedSignals::capture(),
        terminal: LaunchTerminal::shared(),
        directory: None,
        assistance: Assistance::default(),
    })
    .unwrap();
    job.set_partners(Arc::new(Nobody));
    let freezer = job.freezer();
    std::thread::scope(|scope| {
        let work = || {
            let mut frozen = freezer.freeze(PATIENCE).unwrap();
            let precopied = frozen.begin_precopy(CaptureOptions::default());
            let captured = frozen.capture(&mut HeldImage::default(), CaptureOptions::default());
            (precopied.map(drop), captured.map(drop).map_err(|error| error.to_string()), frozen.kill())
        };
        let (precopied, captured, killed) = scope.spawn(work).join().unwrap();
        killed.unwrap();
        precopied.unwrap();
        assert!(captured.is_err_and(|why| why.contains("nobody is there")));
    });
    job.reap().unwrap();
}
