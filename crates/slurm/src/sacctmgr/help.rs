//! The text of `sacctmgr --help`.

use crate::table::Row;

/// Commands, and what each does.
const COMMANDS: &[(&str, &str)] = &[
    ("add <ENTITY> <SPECS>", "add an entity"),
    ("delete <ENTITY> <SPECS>", "delete entities that fit the conditions"),
    ("dump <CLUSTER> [File=<FILE>]", "write accounts and users to a file, CLUSTER.cfg without one"),
    ("list <ENTITY> [<SPECS>]", "show what there is"),
    ("load <FILE> [clean]", "add what a file has; clean: delete what it does not have"),
    ("modify <ENTITY> <SPECS>", "change entities: where CONDITIONS set SETTINGS"),
    ("show <ENTITY> [<SPECS>]", "the same as list"),
    ("reconfigure", "read cosy.toml again, as 'cadm reload' does"),
    ("version", "display tool version number"),
];

/// What each pair of command and entity takes. LIMITS are those of the manual page.
const PAIRS: &[(&str, &str)] = &[
    ("add account", "Names=, Description=, Organization=, Parent=, Fairshare=, LIMITS"),
    ("add coordinator", "Accounts=, Names="),
    ("add qos", "Names=, Description=, Flags=, GraceTime=, Preempt=, PreemptMode=, LIMITS"),
    ("add user", "Names=, Accounts=, Partitions=, AdminLevel=, DefaultAccount=, LIMITS"),
    ("delete account", "Names=, Descriptions=, Organizations=, Parents="),
    ("delete coordinator", "Accounts=, Names="),
    ("delete qos", "Names="),
    ("delete user", "Names=, Accounts=, Partitions=, AdminLevel=, DefaultAccount="),
    ("list", "conditions as for delete, Format=, WithAssoc, WithCoordinators, Tree"),
    ("list event", "Start=, End=, Nodes=, State=, Reason=, User=, Event=, CondFlags=Open"),
    ("list transaction", "Start=, End=, Action=, Actor=, Accounts=, Users=, IDs="),
    ("modify", "the conditions of delete, then set and what add takes"),
    ("cluster, resource", "are listed; cosy.toml says what they are"),
];

/// The text of `--help` and `--usage`.
pub fn help(options: &[Row]) -> String {
    let mut text = "sacctmgr [<OPTION>] [<COMMAND>]\n    Valid <OPTION> values are:\n".to_owned();
    let mut lines = |title: &str, pairs: &mut dyn Iterator<Item = (String, &str)>| {
        text.push_str(title);
        pairs.for_each(|(what, about)| text.push_str(&format!("     {what:<26} {about}\n")));
    };
    let option = |row: &Row| {
        let short = row.opt.short.map(|s| format!("-{} or ", char::from(s)));
        let spelled = format!("{}--{}:", short.unwrap_or_default(), row.opt.long);
        (spelled, row.about)
    };
    let word = |(what, about): &(&'static str, &'static str)| ((*what).to_owned(), *about);
    lines("", &mut options.iter().map(option));
    lines("\n  Valid <COMMAND> values are:\n", &mut COMMANDS.iter().map(word));
    let names: Vec<&str> = super::entity::names().collect();
    let title = format!(
        "\n  <ENTITY> may be one of these, shortened as you like:\n     {}\n\n  \
         <SPECS> are different for each command entity pair:\n",
        names.join(" ")
    );
    lines(&title, &mut PAIRS.iter().map(word));
    text
}
