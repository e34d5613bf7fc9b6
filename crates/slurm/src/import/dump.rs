//! The file of `sacctmgr dump`: accounts, users in them, shares, limits, lists of qualities of
//! service, coordinators. What is written is such a file again, for `sacctmgr load`. A line of which
//! something that binds jobs cannot be carried over is in it behind `#`, with all that is below it,
//! so that nobody gets more than before. Source: sacctmgr(1), "FLAT FILE DUMP AND LOAD"; recordings
//! of 22.05.8.

use super::lines::{Fault, Piece, Place, text};
use super::qos::{AllQos, sound_name};
use super::reader::Report;
use super::records::Enforced;
use super::tres::{Judged, judged};
use crate::sacctmgr::load::parts;
use crate::sacctmgr::settings::Target;
use crate::sacctmgr::words::{names, unquoted};
use cosy_model::limits;
use cosy_model::policy::{NORMAL, ROOT};
use std::collections::{BTreeMap, BTreeSet};

/// Options that say nothing about what somebody may do, in small letters.
const HARMLESS: &[&str] = &["classification", "comment", "flags"];

/// What a dump is read with.
pub(super) struct Around<'a> {
    pub enforced: &'a Enforced,
    pub qos: &'a AllQos,
    /// Names of the queues.
    pub queues: &'a BTreeSet<&'a str>,
}

/// What is carried over of a dump.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Accounts {
    /// Lines of the new file, from that of the cluster on.
    pub lines: Vec<String>,
    /// Login names of those with `AdminLevel=Administrator`.
    pub admins: BTreeSet<String>,
}

/// An account that has been named.
struct Account {
    /// Levels above it, the root among them.
    depth: usize,
    above: String,
    /// Qualities of service that users below may have; the usual one where nobody says anything.
    qos: BTreeSet<String>,
    /// It is left out.
    out: bool,
}

struct Reader<'a> {
    around: &'a Around<'a>,
    report: &'a mut Report,
    accounts: BTreeMap<String, Account>,
    parent: String,
    users: BTreeSet<(String, String, Option<String>)>,
    /// Where the line of a user for all queues is, by account and name.
    general: BTreeMap<(String, String), usize>,
    /// Users of whose lines in an account one for a queue is left out.
    shut: BTreeSet<(String, String)>,
    read: Accounts,
}

/// One line of it.
struct Entry<'a> {
    place: &'a Place,
    /// `Account - 'physics'`.
    head: String,
    /// Options that are kept, as they are written.
    options: Vec<String>,
    /// Why it is left out.
    out: Option<String>,
}

/// Names of all qualities of service in the lists of a dump.
pub(super) fn qos_names(piece: &Piece) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (_, line) in piece.lines() {
        let Some((_, rest)) = line.trim().split_once(" - ") else {
            continue;
        };
        for option in parts(rest).1 {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if is_one_of(name, &["qos", "defaultqos"]) {
                all.extend(listed(unquoted(value)).into_iter().map(|(_, name)| name));
            }
        }
    }
    all
}

/// Reads a dump.
///
/// # Errors
/// The first line that is wrong.
pub(super) fn read(
    piece: &Piece,
    around: &Around<'_>,
    report: &mut Report,
) -> Result<Accounts, Fault> {
    let mut reader = Reader {
        around,
        report,
        accounts: BTreeMap::new(),
        parent: ROOT.to_owned(),
        users: BTreeSet::new(),
        general: BTreeMap::new(),
        shut: BTreeSet::new(),
        read: Accounts::default(),
    };
    for (place, line) in piece.lines() {
        let line = text(&place, line)?.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        reader.line(&place, line)?;
    }
    match reader.accounts.is_empty() {
        true => Err(Fault::new(
            &piece.place,
            "no line of a cluster: write this file with 'sacctmgr dump CLUSTER file=FILE'",
        )),
        false => Ok(reader.closed()),
    }
}

impl Reader<'_> {
    fn line(&mut self, place: &Place, line: &str) -> Result<(), Fault> {
        let fault = |what: String| Fault::new(place, what);
        let unclear =
            || fault(format!("'{}' is no line of a dump: TYPE - 'NAME':OPTIONS", shown(line)));
        let (kind, rest) = line.split_once(" - ").ok_or_else(unclear)?;
        if rest.matches('\'').count() % 2 == 1 {
            return Err(fault(format!("'{}': a quote is not closed", shown(line))));
        }
        let (name, options) = parts(rest);
        let name = unquoted(name);
        match kind.trim() {
            "Cluster" => self.cluster(place, name, &options),
            "Parent" | "Account" | "User" if self.accounts.is_empty() => {
                Err(fault("the first line names the cluster: Cluster - 'NAME'".into()))
            }
            "Parent" => self.parent(place, name),
            "Account" => self.account(place, name, &options),
            "User" => self.user(place, name, &options),
            _ => Err(unclear()),
        }
    }

    fn cluster(&mut self, place: &Place, name: &str, options: &[&str]) -> Result<(), Fault> {
        if !self.accounts.is_empty() {
            return Err(Fault::new(place, "a second cluster: a dump is of one"));
        }
        let mut entry = Entry::new(place, "Cluster", name);
        let usual = BTreeSet::from([NORMAL.to_owned()]);
        let usual: BTreeSet<String> = usual
            .intersection(&self.around.qos.names)
            .cloned()
            .collect();
        let qos = self.options(&mut entry, Target::Account, options, &usual)?;
        let root = Account {
            depth: 0,
            above: String::new(),
            qos,
            out: entry.out.is_some(),
        };
        self.accounts.insert(ROOT.to_owned(), root);
        if let Some(why) = entry.out.take() {
            let text = format!(
                "limits of the whole cluster: {why}: no account is carried over until the lines behind '#' are"
            );
            self.report.at(place, text);
            entry.options.clear();
        }
        self.read.lines.push(entry.text());
        Ok(())
    }

    fn parent(&mut self, place: &Place, name: &str) -> Result<(), Fault> {
        let name = name.to_lowercase();
        let Some(account) = self.accounts.get(&name) else {
            return Err(Fault::new(
                place,
                format!(
                    "account '{}' is not there yet: its own line, below that of the account above it, comes first",
                    shown(&name)
                ),
            ));
        };
        let mark = if account.out { "#" } else { "" };
        self.read.lines.push(format!("{mark}Parent - '{name}'"));
        self.parent = name;
        Ok(())
    }

    fn account(&mut self, place: &Place, name: &str, options: &[&str]) -> Result<(), Fault> {
        let name = name.to_lowercase();
        if let Some(known) = self.accounts.get(&name) {
            return Err(Fault::new(
                place,
                format!(
                    "account {} is there twice, below '{}' and '{}': an account has one place in the tree",
                    shown(&name),
                    known.above,
                    self.parent
                ),
            ));
        }
        if self.accounts.len() > limits::ACCOUNTS {
            return Err(Fault::new(place, format!("more than {} accounts", limits::ACCOUNTS)));
        }
        let (depth, inherited, above_out) = self.above();
        let mut entry = Entry::new(place, "Account", &name);
        if !sound_name(&name) || matches!(name.as_str(), "grants" | "income") {
            entry.out = Some("no account can have that name here".into());
        } else if depth >= limits::ACCOUNT_LEVELS {
            entry.out =
                Some(format!("it is more than {} levels below the root", limits::ACCOUNT_LEVELS));
        }
        let qos = self.options(&mut entry, Target::Account, options, &inherited)?;
        self.keep(&entry, above_out, "and nobody below it may submit jobs");
        let account = Account {
            depth: depth + 1,
            above: self.parent.clone(),
            qos,
            out: above_out || entry.out.is_some(),
        };
        self.accounts.insert(name, account);
        Ok(())
    }

    /// Levels, qualities of service and fate of the account that is the parent.
    fn above(&self) -> (usize, BTreeSet<String>, bool) {
        let above = self.accounts.get(&self.parent);
        above.map_or_else(
            || (0, BTreeSet::new(), true),
            |above| (above.depth, above.qos.clone(), above.out),
        )
    }

    fn user(&mut self, place: &Place, name: &str, options: &[&str]) -> Result<(), Fault> {
        let (_, inherited, above_out) = self.above();
        let mut entry = Entry::new(place, "User", name);
        let value = |wanted: &str| {
            let all = options.iter().filter_map(|option| option.split_once('='));
            let found = all.filter(|(name, _)| name.trim().eq_ignore_ascii_case(wanted));
            found
                .map(|(_, value)| unquoted(value).to_owned())
                .next_back()
        };
        let queue = value("Partition");
        if !sound_user(name) {
            entry.out = Some("no user can have that name here".into());
        } else if let Some(queue) = queue.as_deref().filter(|q| !self.around.queues.contains(q)) {
            entry.out = Some(format!("there is no partition '{}'", shown(queue)));
        } else if self.around.enforced.wckeys
            && value("WCKeys").is_none_or(|keys| names(&keys).is_empty())
        {
            entry.out = Some("AccountingStorageEnforce has wckeys, and the user has no key".into());
        }
        let key = (self.parent.clone(), name.to_owned(), queue.clone());
        if !self.users.insert(key) {
            let text = format!("user {} is there twice in {}", shown(name), self.parent);
            self.report.at(place, format!("{text}: the first counts"));
            return Ok(());
        }
        let level = value("AdminLevel").unwrap_or_default().to_lowercase();
        if sound_user(name) && ["administrator", "superuser"].contains(&level.as_str()) {
            self.read.admins.insert(name.to_owned());
        }
        let qos = self.options(&mut entry, Target::User, options, &inherited)?;
        if self.around.enforced.qos && qos.is_empty() {
            let why = "no quality of service that the user may have is carried over";
            entry.out.get_or_insert(why.into());
        }
        let own = (self.parent.clone(), name.to_owned());
        match (queue, above_out || entry.out.is_some()) {
            (None, false) => drop(self.general.insert(own, self.read.lines.len())),
            (Some(queue), true) if self.around.queues.contains(queue.as_str()) => {
                self.shut.insert(own);
            }
            _ => {}
        }
        let text = format!("and cannot use account {}", self.parent);
        self.keep(&entry, above_out, &text);
        Ok(())
    }

    /// What is carried over, without the lines for all queues of users of whom one for a queue is left out:
    /// without it that for all would hold there.
    fn closed(self) -> Accounts {
        let shut = self.shut.iter().filter_map(|own| self.general.get(own));
        let shut: BTreeSet<usize> = shut.copied().collect();
        let mut lines = Vec::with_capacity(self.read.lines.len() + shut.len());
        for (at, line) in self.read.lines.into_iter().enumerate() {
            if shut.contains(&at) {
                lines.push(
                    "# it would hold for the partition of which the user's own line is left out:"
                        .to_owned(),
                );
                lines.push(format!("#{line}"));
            } else {
                lines.push(line);
            }
        }
        Accounts {
            lines,
            admins: self.read.admins,
        }
    }

    /// Writes a line, behind `#` where it is left out.
    fn keep(&mut self, entry: &Entry<'_>, above_out: bool, meaning: &str) {
        match (&entry.out, above_out) {
            (None, false) => self.read.lines.push(entry.text()),
            (None, true) => self.read.lines.push(format!("#{}", entry.text())),
            (Some(why), _) => {
                self.read.lines.push(format!("# {}:", clean(why)));
                self.read.lines.push(format!("#{}", entry.text()));
                let text = format!("{}: {}: left out, {meaning}", clean(&entry.head), clean(why));
                self.report.at(entry.place, text);
            }
        }
    }

    /// Judges the options of a line; what its jobs may have of qualities of service.
    fn options(
        &mut self,
        entry: &mut Entry<'_>,
        target: Target,
        options: &[&str],
        inherited: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Fault> {
        let mut allowed = inherited.clone();
        let mut default = None;
        for option in options.iter().map(|o| o.trim()).filter(|o| !o.is_empty()) {
            let (name, value) = option.split_once('=').ok_or_else(|| {
                Fault::new(entry.place, format!("'{}': an option is NAME=VALUE", shown(option)))
            })?;
            let name = name.trim_end_matches(['+', '-']).trim();
            let value = unquoted(value);
            if is_one_of(name, &["qos", "qoslevel"]) {
                allowed = self.qos_list(entry, value, inherited);
            } else if name.eq_ignore_ascii_case("defaultqos") {
                default = Some(value.to_lowercase()).filter(|n| !n.is_empty());
            } else if is_one_of(name, HARMLESS) {
                self.report
                    .at(entry.place, format!("{option} is not carried over"));
            } else if target == Target::User && is_one_of(name, &["partition", "coordinator"]) {
                entry.options.push((*option).to_owned());
            } else {
                self.setting(entry, target, option)?;
            }
        }
        if let Some(name) = default {
            match allowed.contains(&name) {
                true => entry.options.push(format!("DefaultQOS='{name}'")),
                false => self.report.at(
                    entry.place,
                    format!(
                        "{}: DefaultQOS={} is not carried over: it is not among those allowed",
                        clean(&entry.head),
                        shown(&name)
                    ),
                ),
            }
        }
        Ok(allowed)
    }

    fn setting(
        &mut self,
        entry: &mut Entry<'_>,
        target: Target,
        option: &str,
    ) -> Result<(), Fault> {
        match judged(target, option).map_err(|why| Fault::new(entry.place, why))? {
            Judged::Taken(option) => entry.options.push(option),
            Judged::Lost(lost) if self.around.enforced.associations => {
                let why = format!("{lost} is not carried over");
                entry.out.get_or_insert(why);
            }
            Judged::Lost(lost) => {
                let text = format!("{lost} is not carried over; it bound nobody");
                self.report.at(entry.place, text);
            }
        }
        Ok(())
    }

    /// A list of qualities of service, without those that are not carried over.
    fn qos_list(
        &mut self,
        entry: &mut Entry<'_>,
        value: &str,
        inherited: &BTreeSet<String>,
    ) -> BTreeSet<String> {
        let known = &self.around.qos.names;
        let list = listed(value);
        let unknown: Vec<&str> = list
            .iter()
            .filter(|(sign, name)| *sign != Some('-') && !known.contains(name))
            .map(|(_, name)| name.as_str())
            .collect();
        if !unknown.is_empty() {
            let text = format!(
                "{}: not carried over: quality of service {}",
                clean(&entry.head),
                shown(&unknown.join(","))
            );
            self.report.at(entry.place, text);
        }
        let relative = list.iter().any(|(sign, _)| sign.is_some());
        let mut all = match relative {
            true => inherited.clone(),
            false => BTreeSet::new(),
        };
        for (sign, name) in &list {
            match sign {
                Some('-') => drop(all.remove(name)),
                _ if known.contains(name) => drop(all.insert(name.clone())),
                _ => {}
            }
        }
        if list.is_empty() {
            return inherited.clone();
        }
        if !all.is_empty() {
            let names: Vec<&str> = all.iter().map(String::as_str).collect();
            entry.options.push(format!("QOS='{}'", names.join(",")));
        }
        all
    }
}

impl<'a> Entry<'a> {
    fn new(place: &'a Place, kind: &str, name: &str) -> Self {
        Self {
            place,
            head: format!("{kind} - '{name}'"),
            options: Vec::new(),
            out: None,
        }
    }

    fn text(&self) -> String {
        let all = std::iter::once(self.head.as_str());
        let all = all.chain(self.options.iter().map(String::as_str));
        all.collect::<Vec<_>>().join(":")
    }
}

/// Names of a list in small letters, each with its sign.
fn listed(value: &str) -> Vec<(Option<char>, String)> {
    let names = names(value).into_iter().map(|name| name.to_lowercase());
    let signed = |name: String| match name.strip_prefix(['+', '-']) {
        Some(rest) => (name.chars().next(), rest.to_owned()),
        None => (None, name),
    };
    names
        .map(signed)
        .filter(|(_, name)| !name.is_empty())
        .collect()
}

fn is_one_of(name: &str, words: &[&str]) -> bool {
    words
        .iter()
        .any(|word| word.eq_ignore_ascii_case(name.trim()))
}

fn sound_user(name: &str) -> bool {
    let fine = sound_name(name) && !name.starts_with(['@', '-', '#']);
    fine && !name.contains(char::REPLACEMENT_CHARACTER)
}

/// A text of others in one line of a report, cut.
fn shown(text: &str) -> String {
    clean(text).chars().take(80).collect()
}

fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
