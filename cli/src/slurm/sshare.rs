//! `sshare`: shares and use of accounts and users. Source: sshare(1); recordings.

use super::messages::{error, say};
use super::{policy, reports};
use crate::{Context, exit, output, users};
use cosy_slurm::getopt::Parsed;
use cosy_slurm::small_reports::{Invocation, SSHARE, read};
use cosy_slurm::sshare::{self, Column, LONG, PARTITION, Selection, Style, USUAL};

/// Runs `sshare`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    match read(SSHARE, context.args()) {
        Invocation::Help => reports::help(context, SSHARE),
        Invocation::Usage => reports::usage(context, SSHARE),
        Invocation::Version => reports::version(),
        Invocation::UsageError(mistake) => reports::mistake(context, &mistake),
        Invocation::Report(parsed) => report(context, &parsed),
    }
}

/// What the command line asks for.
struct Wanted {
    columns: Vec<Column>,
    selection: Selection,
    style: Style,
}

fn wanted(parsed: &Parsed) -> Result<Wanted, String> {
    let (mut columns, mut style) = (USUAL.to_vec(), Style::default());
    let (mut selection, mut all, mut queues) = (Selection::default(), false, false);
    let names = |text: &str| -> Vec<String> {
        let names = text.split(',').filter(|n| !n.is_empty());
        names.map(str::to_owned).collect()
    };
    for found in &parsed.found {
        match found.name {
            "all" => all = true,
            "accounts" => {
                let accounts = names(&found.text()).into_iter().map(|a| a.to_lowercase());
                selection.accounts.extend(accounts);
            }
            "users" => {
                let users = selection.users.get_or_insert_default();
                users.extend(names(&found.text()));
            }
            "Users" => selection.users_only = true,
            "long" => columns = LONG.to_vec(),
            "partition" => queues = true,
            "format" => columns = sshare::columns(&found.text())?,
            "noheader" => style.bare = true,
            "parsable" => style.separated = Some(true),
            "parsable2" => style.separated = Some(false),
            _ => {}
        }
    }
    if queues && !columns.contains(&PARTITION) {
        columns.insert(columns.len().min(2), PARTITION);
    }
    if !all && selection.users.is_none() {
        selection.users = Some(users::current_user().into_iter().collect());
    }
    Ok(Wanted {
        columns,
        selection,
        style,
    })
}

fn report(context: &Context, parsed: &Parsed) -> u8 {
    if parsed.found.iter().any(|found| found.name == "helpformat") {
        return reports::print_text(&sshare::names());
    }
    let wanted = match wanted(parsed) {
        Ok(wanted) => wanted,
        Err(why) => {
            error(context, &why);
            return exit::FAILED;
        }
    };
    let rows = match policy::associations(context, true) {
        Ok(rows) => rows,
        Err(e) => {
            say(&format!("sshare: error: {e}"));
            return exit::FAILED;
        }
    };
    let cluster = reports::cluster(context);
    let text = sshare::table(&cluster, &rows, &wanted.selection, &wanted.columns, wanted.style);
    output::print(&text);
    exit::OK
}
