//! `sreport`: use of the cluster, of accounts and users, summed up out of the history by this
//! command. Source: sreport(1); recordings.

use super::messages::{error, say};
use super::{policy, reports};
use crate::{Context, exit, output, times, users};
use cosy_client::CallError;
use cosy_model::Time;
use cosy_model::api::{JobField, JobFilter, Reply, Request, Table};
use cosy_slurm::getopt::{self, Order, Parsed};
use cosy_slurm::sreport::options::{self, OPTIONS, Query, unit_of};
use cosy_slurm::sreport::report::{Facts, JobUse, Style, text};
use cosy_slurm::table;
use std::collections::{BTreeMap, BTreeSet};

/// Runs `sreport`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    let parsed = getopt::parse(&table::opts(OPTIONS), Order::Permute, context.args());
    for found in &parsed.found {
        match found.name {
            "help" => return reports::help(context, OPTIONS),
            "usage" => return reports::usage(context, OPTIONS),
            "version" => return reports::version(),
            _ => {}
        }
    }
    if let Some(mistake) = &parsed.mistake {
        return reports::mistake(context, mistake);
    }
    let style = match style(&parsed) {
        Ok(style) => style,
        Err(why) => {
            error(context, &why);
            return exit::FAILED;
        }
    };
    let words = parsed
        .words
        .iter()
        .map(|w| w.to_string_lossy().into_owned());
    let now = times::now();
    match options::read(&words.collect::<Vec<String>>(), &now) {
        Ok(query) => report(context, &query, style),
        Err(lines) => {
            lines.iter().for_each(|line| say(line));
            exit::FAILED
        }
    }
}

fn style(parsed: &Parsed) -> Result<Style, String> {
    let mut style = Style {
        unit: unit_of("Minutes")?,
        bare: false,
        separated: None,
    };
    for found in &parsed.found {
        match found.name {
            "noheader" => style.bare = true,
            "parsable" => style.separated = Some(true),
            "parsable2" => style.separated = Some(false),
            "time" => style.unit = unit_of(&found.text())?,
            "tres" if !found.text().eq_ignore_ascii_case("cpu") => {
                return Err("only the use of cpu is reported: leave out --tres".to_owned());
            }
            _ => {}
        }
    }
    Ok(style)
}

fn report(context: &Context, query: &Query, style: Style) -> u8 {
    let told = facts(context).and_then(|facts| Ok((jobs(context, query)?, facts)));
    let (jobs, mut facts) = match told {
        Ok(told) => told,
        Err(e) => return reports::failed("slurmdb_report", &e),
    };
    let foreign = |name: &String| !name.eq_ignore_ascii_case(&facts.cluster);
    if let Some(name) = query.clusters.iter().find(|c| foreign(c)) {
        error(context, &format!("there is no cluster '{}' here", name.escape_debug()));
        return exit::FAILED;
    }
    let names: BTreeSet<&str> = jobs.iter().map(|job| job.user.as_str()).collect();
    let full = names
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), full_name(name)?)));
    facts.proper_names = full.collect();
    let writer = reports::stamps(&times::now());
    match text(query, style, &facts, &jobs, &writer) {
        Ok(text) => {
            output::print(&text);
            exit::OK
        }
        Err(why) => {
            say(&why);
            exit::FAILED
        }
    }
}

fn facts(context: &Context) -> Result<Facts, CallError> {
    let nodes = match context.ask(Request::Nodes)? {
        Reply::Nodes(nodes) => nodes,
        _ => return Err(CallError::Unexpected),
    };
    // Without a policy every account is below the root.
    let accounts = policy::view(context)
        .map(|view| view.accounts)
        .unwrap_or_default();
    let parents = accounts
        .into_iter()
        .filter_map(|a| Some((a.name, a.parent?)));
    Ok(Facts {
        cluster: reports::cluster(context),
        cores: nodes.iter().map(|node| u64::from(node.amounts.cores)).sum(),
        parents: parents.collect(),
        proper_names: BTreeMap::new(),
    })
}

/// Jobs that ran in the time asked for, those that still run too.
fn jobs(context: &Context, query: &Query) -> Result<Vec<JobUse>, CallError> {
    let filter = JobFilter {
        since: Some(query.start),
        until: Some(query.end),
        ..JobFilter::default()
    };
    let fields = vec![
        JobField::Id,
        JobField::User,
        JobField::Account,
        JobField::Cores,
        JobField::Start,
        JobField::End,
    ];
    let table = reports::table(context, Request::History { filter, fields })?;
    Ok((0..table.rows).filter_map(|row| job(&table, row)).collect())
}

fn job(table: &Table, row: usize) -> Option<JobUse> {
    Some(JobUse {
        user: table.text(row, JobField::User).to_owned(),
        account: table.text(row, JobField::Account).to_owned(),
        cores: u64::try_from(table.number(row, JobField::Cores)?).ok()?,
        start: Time(table.number(row, JobField::Start)?),
        end: table.number(row, JobField::End).map(Time),
    })
}

/// The name of a user in full, out of the list of the machine.
fn full_name(name: &str) -> Option<String> {
    users::full_name(name).filter(|full| !full.is_empty())
}
