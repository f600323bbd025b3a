//! Jobs that are watched: metrics, and a command that is run when checkpoints fail for long.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use standfast_tests::arena::Arena;
use standfast_tests::command::{Checkpoints, Standfast};
use standfast_tests::desk::Desk;
use standfast_tests::running::{Output, PATIENCE, Running, until};
use standfast_tests::victims::{PACER, Program};
use std::net::TcpListener;
use std::path::Path;

/// Connects to somebody outside the job, and closes the connection as soon as a file says so.
const CONNECTED: &str = "exec 3<>/dev/tcp/127.0.0.1/$0; until [ -e closed ]; do sleep 0.05; done; exec 3>&-; \
                         until [ -e gate ]; do sleep 0.05; done";

/// Returns the value of a metric, once the file has it.
fn metric(file: &Path, name: &str) -> Result<Option<f64>> {
    let Ok(text) = std::fs::read_to_string(file) else { return Ok(None) };
    let found = text.lines().find(|line| line.starts_with(&format!("standfast_{name}{{")));
    found.map(|line| Ok(line.rsplit(' ').next().context("a value")?.parse()?)).transpose()
}

#[test]
fn failures_that_last_are_notified_and_metrics_tell_them() -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port().to_string();
    let program = Program { path: "/bin/bash".into(), arguments: ["-c", CONNECTED, &port].map(Into::into).into() };
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let (metrics, told) = (arena.work().join("job.prom"), arena.work().join("told"));
    let notify = format!("echo \"$STANDFAST_NOTIFY_STATE $STANDFAST_NOTIFY_REASON\" >>{}", told.display());
    let options = ["--metrics", "job.prom", "--notify", &notify, "--notify-after", "1s"].map(str::to_owned);
    let running = standfast.run_with(&options, Checkpoints::EveryMilliseconds(200), &program)?;
    let (_connection, _) = listener.accept()?;

    let failed = until(PATIENCE, "failed checkpoints in the metrics", || {
        Ok(metric(&metrics, "checkpoint_failures_total")?.filter(|failed| *failed > 0.0))
    })?;
    ensure!(failed >= 1.0 && metric(&metrics, "checkpoints_total")? == Some(0.0));
    ensure!(metric(&metrics, "checkpoints_fail")? == Some(1.0));
    // A reason has several lines.
    let states = || -> Vec<String> {
        let text = std::fs::read_to_string(&told).unwrap_or_default();
        text.lines().filter(|line| line.contains("protected ")).map(str::to_owned).collect()
    };
    let told_times = |number: usize| {
        until(PATIENCE, "the command to be run", || Ok(Some(states()).filter(|states| states.len() >= number)))
    };
    let first = told_times(1)?;
    ensure!(first[0].starts_with("unprotected ") && first[0].contains("127.0.0.1"), "{first:?}");

    std::fs::write(arena.work().join("closed"), "")?;
    let both = told_times(2)?;
    ensure!(both[1].starts_with("protected checkpoint "), "{both:?}");
    until(PATIENCE, "a checkpoint in the metrics", || {
        Ok(metric(&metrics, "last_durable_checkpoint_timestamp_seconds")?.filter(|at| *at > 1e9))
    })?;
    let before = metric(&metrics, "checkpoints_total")?;
    until(PATIENCE, "more checkpoints in the metrics", || {
        Ok((metric(&metrics, "checkpoints_total")? > before).then_some(()))
    })?;
    ensure!(metric(&metrics, "checkpoints_fail")? == Some(0.0));

    std::fs::write(arena.work().join("gate"), "")?;
    running.wait(PATIENCE)?.well("the job")?;
    ensure!(!metrics.exists(), "what it says is no longer true");
    ensure!(states().len() == 2, "once each: {:?}", states());
    Ok(())
}

/// A job is watched on a wide terminal, on one of twenty columns that changes its size, and without a terminal; and its past
/// becomes a page.
#[test]
fn a_job_is_watched_until_it_ends_and_its_past_is_a_page() -> Result<()> {
    let arena = Arena::new()?;
    let standfast = Standfast::new(&arena)?;
    let program = PACER.with(&["8", "2", "3600"])?;
    let mut running = standfast.run(Checkpoints::EveryMilliseconds(300), &program)?;
    standfast.await_program()?;
    let images = arena.images();
    let directory = images.to_str().context("a name")?;
    let watch = standfast.command(&["status", "--watch", directory]);
    let mut wide = Desk::start(&arena, 40, 120, &watch)?;
    let mut narrow = Desk::start(&arena, 10, 20, &watch)?;
    let mut lines =
        Running::start(&arena, "lines", Output::Log, &mut standfast.command(&["status", "--watch", directory]))?;
    wide.screen.await_text("pauses")?;
    wide.screen.await_text("is durable")?;
    narrow.screen.await_text("\u{2026}")?;
    narrow.screen.resize(5, 12)?;
    standfast.await_generation(Some(3), &mut running)?.context("it goes on")?;
    ensure!(!lines.has_ended()?, "it watches until the job ends");
    let dead = Desk::start(&arena, 24, 80, &watch)?;
    drop(dead);

    let report = arena.work().join("job.html");
    standfast.ask("report", &images, &["--html", report.to_str().context("a name")?])?.well("report")?;
    let page = std::fs::read_to_string(&report)?;
    ensure!(page.len() < 300_000 && page.matches("<svg").count() == 3 && page.matches("<circle").count() > 6, "{page}");
    ensure!(!page.contains("NaN") && !page.contains(" src=") && !page.contains(" href="), "{page}");
    let past: Value = serde_json::from_str(&standfast.ask("report", &images, &["--json"])?.well("report")?.output)?;
    ensure!(past["lives"][0]["checkpoints"].as_array().is_some_and(|it| it.len() >= 3), "{past}");

    ensure!(standfast.ask("checkpoint", &images, &["--stop"])?.status.success());
    running.wait(PATIENCE)?;
    ensure!(wide.wait()?.success() && narrow.wait()?.success());
    ensure!(wide.screen.shown.contains("was stopped after a checkpoint"), "{}", wide.screen.shown);
    let said = lines.wait(PATIENCE)?.well("the lines")?.output;
    ensure!(said.contains("runs as process") && said.contains("paused"), "{said}");
    ensure!(said.contains("was stopped after a checkpoint") && !said.contains('\u{1b}'), "{said}");
    Ok(())
}
