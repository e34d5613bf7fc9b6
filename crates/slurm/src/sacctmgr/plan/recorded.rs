//! Commands as recorded of Slurm 22.05.8, one after the other, on a policy in memory: what is
//! printed where, and the exit code. What differs on purpose is listed with the reason.

use super::{Verb, of_words};
use crate::sacctmgr::view::PolicyView;
use cosy_model::policy::{
    AccountRecord, AdminLevel, AssociationInfo, AssociationKey, AssociationSettings, NORMAL,
    PolicyChange, QosListChange, QosRecord, ROOT, UserEntry, UserRecord,
};
use std::collections::BTreeSet;

const ADD: &str = include_str!("../../../recordings/sacctmgr-add.txt");
const MODIFY: &str = include_str!("../../../recordings/sacctmgr-modify.txt");
const SETTINGS: &str = include_str!("../../../recordings/sacctmgr-settings.txt");

/// Commands that answer otherwise here, with the reason.
const OTHERWISE: &[(&str, &str)] = &[
    ("fairshare=-5", "shares below zero are refused, there they are taken as unset"),
    ("add qos bad priority=abc", "nothing is added when a value is wrong"),
    ("add qos bad UsageFactor=x", "one line, on standard error"),
    ("add qos bad flags=nosuch", "there are more flags here"),
    ("add user dan account=atoms qos=nosuch", "said once, not twice, and with the list of here"),
    ("set GrpTRES=cpu=-1,gres/gpu=4", "GPUs are always counted here"),
    ("modify account set GrpJobs=1", "there are fewer clusters, and an account that was refused"),
    ("set parent=atoms", "below itself an account cannot go"),
    ("set parent=physics", "follows from the one before"),
    ("modify account quarks set MaxWall", "users are told in the order of the tree"),
    ("modify user ann set", "accounts are told in the order of the tree, and of one cluster"),
    ("adminlevel=foo", "says what is wrong"),
    ("preempt+=low", "the controller finds circles"),
    ("modify qos high set priority=foo", "one line"),
    ("modify qos set priority=3", "there is one less"),
    ("set qos=normal,high,low", "users are told in the order of the tree, of one cluster"),
    ("sacctmgr modify account physics set GrpJobs=12", "asks, which the command does"),
    ("sacctmgr add account unsure", "asks, which the command does"),
    ("sacctmgr delete account atoms", "asks, which the command does"),
    ("MaxTRESRunMinsPA", "preempts one that is not there, usage thresholds are not kept"),
    ("add qos full", "follows from the one before"),
];

fn start() -> PolicyView {
    let root = AccountRecord {
        name: ROOT.to_owned(),
        id: 1,
        ..AccountRecord::default()
    };
    let normal = QosRecord {
        id: 1,
        name: NORMAL.to_owned(),
        ..QosRecord::default()
    };
    let mut view = PolicyView {
        cluster: "base".to_owned(),
        accounts: vec![root],
        qos: vec![normal],
        ..PolicyView::default()
    };
    let key = AssociationKey {
        account: ROOT.to_owned(),
        user: None,
        queue: None,
    };
    view.associations.push(info(key, ""));
    apply(
        &mut view,
        &PolicyChange::AddAssociation {
            key: AssociationKey {
                account: ROOT.to_owned(),
                user: Some("root".to_owned()),
                queue: None,
            },
            set: Default::default(),
        },
    );
    view
}

fn info(key: AssociationKey, parent: &str) -> AssociationInfo {
    AssociationInfo {
        id: 1,
        key,
        parent: parent.to_owned(),
        parent_id: 0,
        depth: 0,
        own: AssociationSettings::default(),
        effective: Vec::new(),
        qos: vec![NORMAL.to_owned()],
        default_qos: None,
        is_default: false,
        usage: None,
    }
}

/// As much of the policy as the lines depend on.
fn apply(view: &mut PolicyView, change: &PolicyChange) {
    match change {
        PolicyChange::AddAccount { name, parent, .. } => {
            let parent = parent.clone().unwrap_or_else(|| ROOT.to_owned());
            let key = AssociationKey {
                account: name.clone(),
                user: None,
                queue: None,
            };
            view.associations.push(info(key, &parent));
            view.accounts.push(AccountRecord {
                name: name.clone(),
                parent: Some(parent),
                ..AccountRecord::default()
            });
        }
        PolicyChange::AddAssociation { key, .. } => {
            let name = key.user.clone().unwrap();
            if view.user(&name).is_none() {
                view.users.push(UserEntry {
                    record: UserRecord {
                        name,
                        ..UserRecord::default()
                    },
                    coordinates: Vec::new(),
                    level: AdminLevel::None,
                });
            }
            view.associations.push(info(key.clone(), ""));
        }
        PolicyChange::ModifyAssociation { key, set } => {
            for row in view.associations.iter_mut().filter(|row| row.key == *key) {
                match &set.qos {
                    Some(QosListChange::Exactly(names)) => {
                        row.qos = names.iter().cloned().collect()
                    }
                    Some(QosListChange::Add(names)) => row.qos.extend(names.iter().cloned()),
                    Some(QosListChange::Remove(names)) => row.qos.retain(|q| !names.contains(q)),
                    Some(QosListChange::Inherit) => row.qos = vec![NORMAL.to_owned()],
                    None => {}
                }
            }
        }
        PolicyChange::AddQos { name, .. } => view.qos.push(QosRecord {
            name: name.clone(),
            ..QosRecord::default()
        }),
        _ => {}
    }
}

/// The words of a recorded command behind `sacctmgr`; only one has quotes with a blank.
fn words(line: &str) -> Vec<String> {
    let line = line.replace("\"the physics\"", "the_physics");
    line.split_whitespace()
        .filter(|w| *w != "-i")
        .map(|w| w.replace("the_physics", "the physics"))
        .collect()
}

fn run(view: &mut PolicyView, command: &str) -> String {
    let words = words(command);
    let (verb, rest) = words.split_first().unwrap();
    let plan = of_words(Verb::of(verb).unwrap(), view, rest);
    for change in &plan.changes {
        apply(view, change);
    }
    let out = plan.out.iter().map(|l| format!("1 {l}\n"));
    let err = plan.err.iter().map(|l| format!("2 {l}\n"));
    let text: String = out.chain(err).collect();
    let code = match plan.changes.is_empty() {
        true => plan.code,
        false => 0,
    };
    format!("{text}= {code}\n")
}

/// Runs a recording; gives how many commands were compared. Notes which exceptions were needed.
fn check(view: &mut PolicyView, recording: &str, needed: &mut BTreeSet<&'static str>) -> usize {
    let mut compared = 0;
    for block in recording.split("$ sacctmgr ").skip(1) {
        let (command, want) = block.split_once('\n').unwrap();
        if command.starts_with("-P") || command.contains("| sacctmgr") {
            continue;
        }
        let want = want.split("@ ").next().unwrap();
        let whole = format!("sacctmgr {command}");
        let told = run(view, command);
        let mut exceptions = OTHERWISE.iter().filter(|(part, _)| whole.contains(part));
        match exceptions.next() {
            Some((part, _)) if told != want => drop(needed.insert(part)),
            _ => {
                assert_eq!(told, want, "{command}");
                compared += 1;
            }
        }
    }
    compared
}

#[test]
fn commands_as_recorded() {
    let (mut view, mut needed) = (start(), BTreeSet::new());
    let mut compared = check(&mut view, ADD, &mut needed);
    compared += check(&mut view, MODIFY, &mut needed);
    compared += check(&mut start(), SETTINGS, &mut needed);
    let listed: BTreeSet<&str> = OTHERWISE.iter().map(|(part, _)| *part).collect();
    assert_eq!(needed, listed, "exceptions that are needed, and those that are listed");
    assert_eq!(compared, 61);
}
