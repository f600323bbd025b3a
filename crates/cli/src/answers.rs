//! Commands that query a job and print the answer, for people or as JSON.

use crate::arguments::{
    Advise, Arguments, Batch, Checkpoint, Clean, Coalesce, Command, Core, Doctor, Inspect, Man, Place, Rehearse,
    Report, Status, Verify,
};
use crate::homes::shared_binaries;
use crate::output::{print, write_out};
use crate::reporter::speak;
use crate::{batch, page, refusals, tables, watching, whole};
use anyhow::bail;
use clap::CommandFactory;
use serde::Serialize;
use standfast::doctor::{Finding, examine_machine, examine_process};
use standfast::{
    AdviceRequest, Afterwards, CleanRequest, CoreFilesRequest, ForShell, StatusWatch, examine_group_memory,
    group_memory,
};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn answer(question: Command) -> anyhow::Result<ExitCode> {
    if let Some(answered) = whole::answer(&question)? {
        return Ok(answered);
    }
    match question {
        Command::Checkpoint(checkpoint) => take_checkpoint(&checkpoint),
        Command::Status(status) => show_status(status),
        Command::List(list) => {
            let generations = standfast::list(&list.place.directory)?;
            let overhead = standfast::overhead(&list.place.directory)?;
            print(list.place.form, &generations, || tables::list(&generations, overhead.as_ref()))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Inspect(Inspect { place, at }) => {
            let report = standfast::inspect(&place.directory, at)?;
            print(place.form, &report, || tables::inspection(&report))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Verify(verify) => verify_generations(&verify),
        Command::Core(core) => write_core_files(core),
        Command::Rehearse(Rehearse { place, at, background }) => {
            if background {
                standfast::give_way();
            }
            let report = standfast::rehearse(&place.directory, at, &mut speak)?;
            print(place.form, &report, || tables::rehearsal(&report))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Coalesce(Coalesce { place }) => {
            let report = standfast::coalesce(&place.directory, &mut speak)?;
            print(place.form, &report, || tables::coalescing(&report))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Clean(clean) => remove(clean),
        Command::Report(Report { place, html }) => write_report(place, html),
        Command::Advise(advise) => show_advice(advise),
        Command::Doctor(doctor) => examine(&doctor),
        Command::Explain(explain) => {
            let text = explain.code.map_or_else(refusals::all, refusals::explanation);
            write_out(text.as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions(completions) => {
            let mut script = Vec::new();
            clap_complete::generate(completions.shell, &mut Arguments::command(), "standfast", &mut script);
            write_out(&script)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man(man) => manual(&man),
        Command::Part(_)
        | Command::Run(_)
        | Command::Restart(_)
        | Command::Attach(_)
        | Command::Group(_)
        | Command::Batch(_) => {
            unreachable!("these commands are not questions")
        }
    }
}

fn show_status(status: Status) -> anyhow::Result<ExitCode> {
    let Status { place, state, watch } = status;
    if watch {
        return watching::watch(place.directory);
    }
    if state {
        write_out(format!("{}\n", standfast::phase(&place.directory)?).as_bytes())?;
    } else {
        let status = standfast::status(&place.directory)?;
        print(place.form, &status, || tables::status(&status))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show_advice(advise: Advise) -> anyhow::Result<ExitCode> {
    let described = advise.described();
    let report = standfast::advise(&AdviceRequest { directory: advise.directory, described })?;
    if let Some(file) = &advise.html {
        page::advice(&report).write(file)?;
    }
    print(advise.form, &report, || tables::advice(&report))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a script for a scheduler.
pub(crate) fn print_script(batch: &Batch, line: &[OsString]) -> anyhow::Result<ExitCode> {
    write_out(&batch::script(batch, line)?)?;
    Ok(ExitCode::SUCCESS)
}

fn take_checkpoint(checkpoint: &Checkpoint) -> anyhow::Result<ExitCode> {
    let afterwards = if checkpoint.stop { Afterwards::Stop } else { Afterwards::Continue };
    let report = standfast::checkpoint(&checkpoint.place.directory, afterwards, &mut speak)?;
    print(checkpoint.place.form, &report, || tables::checkpoint(&report))?;
    Ok(ExitCode::SUCCESS)
}

fn remove(clean: Clean) -> anyhow::Result<ExitCode> {
    let Clean { place, dry_run, unfinished, force } = clean;
    let shared_binaries = shared_binaries();
    let directory = place.directory;
    let report =
        standfast::clean(&CleanRequest { directory, unfinished, force, dry_run, shared_binaries }, &mut speak)?;
    print(place.form, &report, || tables::cleaning(&report))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a job, and says where it is.
fn write_report(place: Place, html: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let mut watch = StatusWatch::new(place.directory);
    let status = watch.look()?;
    if place.form.json {
        print(place.form, watch.history(), String::new)?;
        return Ok(ExitCode::SUCCESS);
    }
    let program = Path::new(&status.program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = html.unwrap_or_else(|| format!("{program}-report.html").into());
    page::job(&status, watch.history()).write(&file)?;
    write_out(format!("written: {}\n", ForShell(&file)).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn write_core_files(core: Core) -> anyhow::Result<ExitCode> {
    let Core { place, at, output, pid, overwrite } = core;
    let request = CoreFilesRequest { directory: place.directory, at, output, pid, overwrite };
    let report = standfast::write_core_files(&request, &mut speak)?;
    print(place.form, &report, || tables::core_files(&report))?;
    Ok(ExitCode::SUCCESS)
}

fn verify_generations(verify: &Verify) -> anyhow::Result<ExitCode> {
    let verified = standfast::verify(&verify.place.directory, verify.at, &mut speak)?;
    if verified.is_empty() {
        bail!("there is no checkpoint yet: nothing to verify");
    }
    print(verify.place.form, &verified, || tables::verification(&verified))?;
    let is_good = verified.iter().all(|report| report.damage.is_none());
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Findings of `doctor`.
#[derive(Serialize)]
struct Diagnosis {
    machine: Vec<Finding>,
    process: Option<Vec<Finding>>,
}

fn examine(doctor: &Doctor) -> anyhow::Result<ExitCode> {
    if !doctor.nodes.is_empty() {
        return whole::examine_nodes(doctor);
    }
    let process = doctor.pid.map(examine_process).transpose()?;
    let variable = |name: &str| std::env::var_os(name);
    let mut machine = examine_machine();
    machine.extend(examine_group_memory(&group_memory(variable), variable));
    let diagnosis = Diagnosis { machine, process };
    print(doctor.form, &diagnosis, || tables::findings(&diagnosis.machine, diagnosis.process.as_deref()))?;
    let is_fine = diagnosis.machine.iter().chain(diagnosis.process.iter().flatten()).all(|finding| finding.is_fine);
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn manual(man: &Man) -> anyhow::Result<ExitCode> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let mut page = &command;
    for name in &man.command {
        match page.find_subcommand(name) {
            Some(found) => page = found,
            None => bail!("unknown command {name}: see {} --help", page.get_bin_name().unwrap_or("standfast")),
        }
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(page.clone()).render(&mut text)?;
    write_out(&text)?;
    Ok(ExitCode::SUCCESS)
}
