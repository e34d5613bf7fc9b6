//! The command `cosy-sim try`: who would have waited longer or shorter under another
//! policy, on a site's own history.

use super::output::Output;
use super::progress::Progress;
use super::run::{self, file, machine_option};
use super::source;
use super::try_report::{TryReport, WaitSource};
use anyhow::{Context, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cosy_model::Span;
use cosy_sim::compare::{compare, recorded_waits, replayed_waits};
use cosy_sim::log_input::Strictness;
use cosy_sim::machine::Machine;
use cosy_sim::metrics::Metrics;
use cosy_sim::policy::{self, PolicyFile};
use cosy_sim::replay::{ReplayOptions, replay};
use cosy_sim::site::{self, Accounts, SiteReplay};
use cosy_sim::workload::Workload;
use cosy_slurm::import::lines::Piece;
use cosy_slurm::import::qos;
use cosy_slurm::sacctmgr::load;
use std::io::Read as _;
use std::process::ExitCode;

const EXAMPLES: &str = "\
A policy is one of the words of 'cosy-sim run --policy', 'fair-share' (easy, who has used least of
what is theirs first), or a TOML file with words of cosy.toml:
  [policy]
  backfill = true
  backfill_depth = 1         # or \"all\"
  order = \"weights\"          # or \"fcfs\", \"fair-share\"
  enforce = [\"limits\"]       # what of --accounts binds jobs
  [priority]
  half_life = \"7d\"          # max_age, period, size_factor, tied_accounts, committed
  [priority.weights]
  fair_share = 1000          # age, size, queue, qos, association
  [queues.short]
  priority = 10              # the higher is served first; 0 where none is named
  order = \"fcfs\"             # priority_factor

Examples:
  sacct -a -X -P -S 2026-01-01 -o ALL > history.txt
  sacctmgr dump CLUSTER file=accounts.dump
  cosy-sim try --sacct history.txt --machine 64x32 --accounts accounts.dump --policy fair-share --against easy --lenient
  cosy-sim try --sacct history.txt --machine 64x32 --policy new.toml --lenient
  cosy-sim try --sacct history.txt --machine 64x32 --policy new.toml --against easy --lenient

Without --against, waits are compared with those that were recorded. These hold much that a
replay does not know: holds, dependencies, limits of users, nodes that were down, the old
system's priorities. Compare like with like by naming the old policy with --against.";

pub fn command() -> Command {
    Command::new("try")
        .about("Replay your own history under another policy: who would have waited longer?")
        .after_help(EXAMPLES)
        .arg(
            Arg::new("sacct")
                .long("sacct")
                .value_name("DUMP")
                .help("Text of 'sacct -a -X -P -o ALL', or a log in the Standard Workload Format, packed with gzip or not; '-' is standard input")
                .required(true),
        )
        .arg(
            Arg::new("policy")
                .long("policy")
                .value_name("POLICY")
                .help("The new policy: a word or a file")
                .required(true),
        )
        .arg(
            Arg::new("against")
                .long("against")
                .value_name("POLICY")
                .help("The old policy [default: the waits that were recorded]"),
        )
        .arg(
            Arg::new("accounts")
                .long("accounts")
                .value_name("DUMP")
                .help("Accounts, users, shares and limits, as 'sacctmgr dump CLUSTER file=DUMP' writes them [default: every user has the same shares]"),
        )
        .arg(
            Arg::new("qos")
                .long("qos")
                .value_name("FILE")
                .requires("accounts")
                .help(format!("Qualities of service, as '{} > FILE' writes them", qos::command())),
        )
        .arg(machine_option())
        .arg(
            Arg::new("lenient")
                .long("lenient")
                .action(ArgAction::SetTrue)
                .help("Leave out and count rows that are no usable jobs, and jobs larger than the machine"),
        )
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("S")
                .help("Weeks drawn by chance repeat with the same seed")
                .value_parser(value_parser!(u64))
                .default_value("1"),
        )
        .arg(file("json", "OUT", "Write everything as JSON; '-' is standard output"))
}

/// Runs the command.
///
/// # Errors
/// History, machine, policies or files are not as they should be.
pub fn run(options: &ArgMatches) -> anyhow::Result<ExitCode> {
    let mut output = Output::of(options, &["json"])?;
    let new = policy_of(text(options, "policy"))?;
    let old = options.get_one::<String>("against");
    let old = old.map(|old| policy_of(old)).transpose()?;
    let (machine, mut workload) = read(options)?;
    let history = text(options, "sacct");
    run::fit(machine, &mut workload, history, options.get_flag("lenient"))?;
    let all = || old.iter().chain([&new]).map(|(_, file)| &file.order);
    let limits = all().any(|order| order.enforce.limits);
    let mut side = Side {
        machine,
        workload: &workload,
        accounts: accounts(options, &workload, limits)?,
        remarks: Vec::new(),
    };
    side.remarks.extend(side.accounts.notes.iter().cloned());
    let (before, waits_before) = match &old {
        Some(old) => side.replayed(old)?,
        None => recorded(&workload)?,
    };
    let (after, waits_after) = side.replayed(&new)?;
    let seed = options.get_one("seed").copied().unwrap_or(1);
    let comparison = compare(&workload, &waits_before, &waits_after, seed)
        .context("no job has a wait on both sides: there is nothing to compare")?;
    let report = TryReport {
        history: history.to_owned(),
        machine,
        dropped: super::report::dropped(&workload),
        before,
        after,
        comparison,
        by_controller: all().any(|order| !order.is_plain()),
        remarks: side.remarks,
    };
    output.put("json", || report.json())?;
    output.finish(&report.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// The accounts of the dump; none without one.
fn accounts(options: &ArgMatches, workload: &Workload, limits: bool) -> anyhow::Result<Accounts> {
    let file = |id: &str| {
        let path = options.get_one::<String>(id);
        path.map(|path| piece(path)).transpose()
    };
    let (dump, qos) = (file("accounts")?, file("qos")?);
    let Some(dump) = dump else {
        return Ok(Accounts::default());
    };
    Ok(Accounts::read(&dump, qos.as_ref(), &workload.queues, limits)?)
}

/// A file, no longer than a dump may be.
fn piece(path: &str) -> anyhow::Result<Piece> {
    let named = || format!("cannot read {path}");
    let most = u64::try_from(load::LONGEST).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).with_context(named)?;
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .with_context(named)?;
    if bytes.len() > load::LONGEST {
        bail!("{path} is larger than {} MiB", load::LONGEST >> 20);
    }
    Ok(Piece::file(path, &String::from_utf8_lossy(&bytes)))
}

fn text<'a>(options: &'a ArgMatches, id: &str) -> &'a str {
    options.get_one::<String>(id).map_or("", String::as_str)
}

/// A word, or a file.
fn policy_of(text: &str) -> anyhow::Result<(String, PolicyFile)> {
    if let Ok(file) = PolicyFile::of_word(text) {
        return Ok((text.to_owned(), file));
    }
    if text.starts_with("depth=") {
        policy::parse(text)?;
    }
    let content = std::fs::read_to_string(text).with_context(|| {
        format!("'{text}' is neither fcfs, easy, conservative, depth=N, fair-share nor a file that can be read")
    })?;
    let file = PolicyFile::parse(&content).with_context(|| format!("policy '{text}'"))?;
    Ok((text.to_owned(), file))
}

fn read(options: &ArgMatches) -> anyhow::Result<(Machine, Workload)> {
    let strictness = match options.get_flag("lenient") {
        true => Strictness::Lenient,
        false => Strictness::Strict,
    };
    let workload = source::log(text(options, "sacct"), strictness)?;
    run::machine_of(options, &workload).map(|machine| (machine, workload))
}

type Waits = Vec<Option<Span>>;

/// What each side of the comparison is replayed with.
struct Side<'a> {
    machine: Machine,
    workload: &'a Workload,
    accounts: Accounts,
    /// What is told about accounts.
    remarks: Vec<String>,
}

impl Side<'_> {
    fn replayed(
        &mut self,
        (name, file): &(String, PolicyFile),
    ) -> anyhow::Result<(WaitSource, Waits)> {
        let (machine, workload) = (self.machine, self.workload);
        let named = || format!("policy '{name}'");
        let priorities = file.priorities_of(&workload.queues).with_context(named)?;
        let mut progress = Progress::of(workload.jobs.len() as u64);
        let mut show = |started| progress.show(started);
        let replay = match file.order.is_plain() {
            true => {
                let options = ReplayOptions {
                    priorities: &priorities,
                    progress: Some(&mut show),
                    ..ReplayOptions::default()
                };
                replay(machine, file.policy, workload, options)
            }
            false => {
                let all = site::replay(machine, file, workload, &self.accounts, &mut show);
                let all = all.map_err(anyhow::Error::msg).with_context(named)?;
                self.remark(name, &all);
                all.replay
            }
        };
        progress.end();
        let side = WaitSource::Replayed {
            name: name.clone(),
            policy: policy::name(file.policy),
            metrics: Metrics::of(machine, workload, &replay),
        };
        Ok((side, replayed_waits(workload, &replay)))
    }

    fn remark(&mut self, name: &str, all: &SiteReplay) {
        if all.strangers > 0 {
            self.remarks.push(format!(
                "{name}: {} jobs of users who are not in the account that the history names: they have their default account, if they have one",
                all.strangers
            ));
        }
        if let Some(why) = &all.why {
            self.remarks
                .push(format!("{name}: {} jobs were refused; the first: {why}", all.refused));
        }
    }
}

fn recorded(workload: &Workload) -> anyhow::Result<(WaitSource, Waits)> {
    let waits = recorded_waits(workload);
    if waits.iter().all(Option::is_none) {
        bail!("the history does not say when jobs started: name the old policy with --against");
    }
    Ok((WaitSource::Recorded, waits))
}
