//! Lists of nodes and partitions as text: which columns, and the lines.

use super::cells::{ValueStyle, cell};
use super::fields::Field;
use super::groups::{Group, groups, read, sort};
use super::options::Query;
use crate::layout::{Layout, all, is_all};
use crate::node::HeldFor;
use crate::squeue::options::Format;
use crate::times::{self, TimeWriter};
use cosy_model::Time;
use cosy_model::api::{NodeInfo, QueueInfo};
/// Letters of `%all`; capitals have a blank after their columns there.
const ALL: &str = "abcdefghlmnoprstuvwzABCDEFGHILMNOPRSTUVXYZ";

/// The columns that are asked for. Columns of names are as wide as the longest of them.
pub fn layout(
    query: &Query,
    nodes: &[(NodeInfo, HeldFor)],
    partitions: &[QueueInfo],
) -> Layout<Field> {
    match &query.format {
        Some(Format::Letters(text)) if is_all(text) => {
            Layout::of_letters(&all(ALL, " "), Field::of_letter)
        }
        Some(Format::Letters(text)) => Layout::of_letters(text, Field::of_letter),
        Some(Format::Names(text)) if text.eq_ignore_ascii_case("all") => {
            Layout::of_letters(&all(ALL, " "), Field::of_letter)
        }
        Some(Format::Names(text)) => Layout::of_names(text, Field::of_word),
        None => {
            let longest = |names: &mut dyn Iterator<Item = usize>| names.max().unwrap_or(0).max(9);
            let n = longest(&mut nodes.iter().map(|(node, _)| node.name.chars().count()));
            let mark = |p: &QueueInfo| p.spec.name.chars().count() + usize::from(p.default);
            let p = longest(&mut partitions.iter().map(mark));
            Layout::of_letters(&usual(query, n, p), Field::of_letter)
        }
    }
}

fn usual(query: &Query, n: usize, p: usize) -> String {
    match query {
        Query { summary: true, .. } => format!("%{p}P %.5a %.10l %.16F %N"),
        Query {
            by_node: true,
            long: false,
            ..
        } => format!("%{n}N %.6D %.{p}P %6t"),
        Query {
            by_node: true,
            long: true,
            ..
        } => format!("%{n}N %.6D %.{p}P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"),
        Query {
            reasons: true,
            long: false,
            ..
        } => "%20E %9u %19H %N".to_owned(),
        Query {
            reasons: true,
            long: true,
            ..
        } => "%20E %12U %19H %6t %N".to_owned(),
        Query { long: true, .. } => {
            format!("%{p}P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N")
        }
        _ => format!("%{p}P %.5a %.10l %.6D %.6t %N"),
    }
}

/// The lines about columns that mean nothing.
pub fn complaints(layout: &Layout<Field>) -> Vec<String> {
    let one = |word: &String| format!("Invalid node format specification: {word}");
    layout.unknown.iter().map(one).collect()
}

/// The line of headings.
pub fn heading(layout: &Layout<Field>) -> String {
    let mut out = String::new();
    layout.line(&mut out, |field, out| out.push_str(field.head()));
    out
}

/// The groups of nodes in order.
///
/// # Errors
/// What is no key of `--sort`.
pub fn sorted<'a>(
    query: &Query,
    layout: &Layout<Field>,
    partitions: &'a [QueueInfo],
    nodes: &'a [(NodeInfo, HeldFor)],
    named: Option<&[String]>,
    look: &ValueStyle,
) -> Result<Vec<Group<'a>>, String> {
    let shown: Vec<Field> = layout.columns.iter().map(|c| c.field).collect();
    let mut all = groups(query, &shown, partitions, nodes, named);
    let usual = match query {
        Query { by_node: true, .. } => super::groups::BY_NODE,
        Query { reasons: true, .. } => super::groups::REASONS,
        _ => super::groups::USUAL,
    };
    let keys = read(query.sort.as_deref().unwrap_or(usual))?;
    if query.by_node {
        // As captured: of two partitions of a node the later one comes first.
        all.reverse();
    }
    sort(&mut all, &keys, |field, group| {
        let mut text = String::new();
        cell(field, group, look, &mut text);
        text
    });
    Ok(all)
}

/// The lines of groups.
pub fn lines(layout: &Layout<Field>, groups: &[Group<'_>], look: &ValueStyle) -> String {
    let mut out = String::new();
    for group in groups {
        layout.line(&mut out, |field, out| cell(*field, group, look, out));
    }
    out
}

/// A reservation in `sinfo -T`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reserved {
    /// Name that the reservation is shown by.
    pub name: String,
    /// It has begun.
    pub active: bool,
    /// When the reservation begins.
    pub start: Time,
    /// When the reservation ends.
    pub end: Time,
    /// Nodes as a host list.
    pub nodes: String,
}

/// The report of `sinfo -T`: one line for each reservation.
pub fn reservations(all: &[Reserved], bare: bool, stamps: &TimeWriter) -> String {
    if all.is_empty() {
        return "No reservations in the system\n".to_owned();
    }
    let names = all.iter().map(|r| r.name.chars().count());
    let width = names.max().unwrap_or(0).max(9);
    let row = |cells: [&str; 6]| {
        let [name, state, start, end, length, nodes] = cells;
        format!("{name:<width$}  {state:>8}  {start:>19}  {end:>19}  {length:>11}  {nodes}\n")
    };
    let mut text = String::new();
    if !bare {
        text.push_str(&row([
            "RESV_NAME",
            "STATE",
            "START_TIME",
            "END_TIME",
            "DURATION",
            "NODELIST",
        ]));
    }
    for r in all {
        let state = if r.active { "ACTIVE" } else { "INACTIVE" };
        let length = times::duration(r.end.since(r.start));
        let (start, end) = (stamps.text(r.start), stamps.text(r.end));
        text.push_str(&row([&r.name, state, &start, &end, &length, &r.nodes]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinfo::options::{Invocation, read};
    use crate::times::TimeFormat;
    use cosy_model::{AccessLevel, Amounts, MiB, QueueSpec, Span};

    fn queue(name: &str, limit: Option<Span>) -> QueueInfo {
        QueueInfo {
            spec: QueueSpec {
                name: name.into(),
                max_time: limit,
                default_time: limit.is_none().then(|| Span::from_minutes(60)),
                ..QueueSpec::default()
            },
            default: limit.is_none(),
            your_level: AccessLevel::Allow,
            ..QueueInfo::default()
        }
    }

    fn node(n: u32) -> (NodeInfo, HeldFor) {
        let (jobs, cores, held_for) = match n {
            1 => (1, 3, HeldFor::Nobody),
            2..=4 => (0, 0, HeldFor::Job),
            _ => (1, 16, HeldFor::Nobody),
        };
        let mut node = NodeInfo {
            name: format!("n{n}"),
            state: "idle".into(),
            jobs,
            weight: 1,
            features: vec!["fa".into()],
            queues: vec!["main".into()],
            ..NodeInfo::default()
        };
        node.amounts = Amounts {
            cores: 16,
            memory: MiB(16_000),
            ..Amounts::default()
        };
        node.used = Amounts {
            cores,
            ..Amounts::default()
        };
        node.machine.host = "vm".into();
        node.machine.address = "127.0.0.1".into();
        node.machine.load_hundredths = Some(if n == 1 { 283 } else { 229 + n });
        node.machine.free_memory = Some(MiB(11_709));
        if n <= 2 {
            node.queues.push("short".into());
        }
        (node, held_for)
    }

    fn check(line: &str, want: &[&str]) {
        let args: Vec<_> = line.split('~').map(Into::into).collect();
        let args: Vec<std::ffi::OsString> = if line.is_empty() { Vec::new() } else { args };
        let Invocation::Report(query) = read(&args, |_| None) else {
            panic!("{line}")
        };
        let partitions = [
            queue("main", None),
            queue("short", Some(Span::from_minutes(30))),
        ];
        let nodes: Vec<_> = (1..=8).map(node).collect();
        let named: Option<Vec<String>> = query
            .nodes
            .as_ref()
            .map(|n| n.split(',').map(str::to_owned).collect());
        let now: jiff::Zoned = "2026-11-21T02:20:31+00:00[+00:00]".parse().unwrap();
        let look = ValueStyle {
            stamps: TimeWriter::new(&now, TimeFormat::Standard),
            release: "22.05.8".into(),
            cluster: String::new(),
        };
        let layout = layout(&query, &nodes, &partitions);
        let groups = sorted(&query, &layout, &partitions, &nodes, named.as_deref(), &look);
        let mut text = if query.bare {
            String::new()
        } else {
            heading(&layout)
        };
        text.push_str(&lines(&layout, &groups.unwrap(), &look));
        assert_eq!(text.lines().collect::<Vec<_>>(), want, "{line}");
    }

    #[test]
    fn as_captured() {
        check(
            "",
            &[
                "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
                "main*        up   infinite      3   plnd n[2-4]",
                "main*        up   infinite      1    mix n1",
                "main*        up   infinite      4  alloc n[5-8]",
                "short        up      30:00      1   plnd n2",
                "short        up      30:00      1    mix n1",
            ],
        );
        check(
            "-s",
            &[
                "PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST",
                "main*        up   infinite          5/3/0/8 n[1-8]",
                "short        up      30:00          1/1/0/2 n[1-2]",
            ],
        );
        check(
            "-N~-l~-n~n1,n2",
            &[
                "NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON              ",
                "n1             1     short       mixed 16     1:16:1  16000        0      1       fa none                ",
                "n1             1     main*       mixed 16     1:16:1  16000        0      1       fa none                ",
                "n2             1     short     planned 16     1:16:1  16000        0      1       fa none                ",
                "n2             1     main*     planned 16     1:16:1  16000        0      1       fa none                ",
            ],
        );
        check(
            "-l",
            &[
                "PARTITION AVAIL  TIMELIMIT   JOB_SIZE ROOT OVERSUBS     GROUPS  NODES       STATE NODELIST",
                "main*        up   infinite 1-infinite   no       NO        all      3     planned n[2-4]",
                "main*        up   infinite 1-infinite   no       NO        all      1       mixed n1",
                "main*        up   infinite 1-infinite   no       NO        all      4   allocated n[5-8]",
                "short        up      30:00 1-infinite   no       NO        all      1     planned n2",
                "short        up      30:00 1-infinite   no       NO        all      1       mixed n1",
            ],
        );
        check("-R", &["REASON               USER      TIMESTAMP           NODELIST"]);
        check("-h~-p~short~-o~%P %D %t", &["short 1 plnd", "short 1 mix"]);
        check(
            "-n~nosuch",
            &[
                "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
                "main*        up   infinite      0    n/a ",
                "short        up      30:00      0    n/a ",
            ],
        );
        check("-n~n1,n7~-N~-h~-o~%N %t", &["n1 mix", "n1 mix", "n7 alloc"]);
        check("-p~nosuch", &["PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST"]);
    }

    #[test]
    fn letters_as_captured() {
        let letters = "%n|%N|%t|%T|%c|%m|%P|%R|%l|%D|%C|%f|%G|%a|%A|%F|%e|%O|%d|%w|%X|%Y|%Z|%z|%E|%H|%h|%g|%s|%r|%S|%L|%v|%V|%i|%I|%B|%b|%M|%p|%u|%U|%o|%k|%4";
        check(
            &format!("-h~-p~short~-o~{letters}"),
            &[
                "vm|n2|plnd|planned|16|16000|short|short|30:00|1|0/16/0/16|fa|(null)|up|0/1|0/1/0/1|11709|2.31|0|1|1|16|1|1:16:1|none|Unknown|NO|all|1-infinite|no|all|n/a|22.05.8|N/A|%i|1|UNLIMITED|fa|OFF|1|Unknown|Unknown|127.0.0.1|%k|%4",
                "vm|n1|mix|mixed|16|16000|short|short|30:00|1|3/13/0/16|fa|(null)|up|1/0|1/0/0/1|11709|2.83|0|1|1|16|1|1:16:1|none|Unknown|NO|all|1-infinite|no|all|n/a|22.05.8|N/A|%i|1|UNLIMITED|fa|OFF|1|Unknown|Unknown|127.0.0.1|%k|%4",
            ],
        );
        check("-h~-p~main~-o~%N %e %O", &["n[1-8] 11709 2.31-2.83"]);
        for all in ["-o~%all", "-O~ALL"] {
            check(
                &format!("-p~nosuch~{all}"),
                &[
                    "AVAIL|ACTIVE_FEATURES|CPUS|TMP_DISK|FREE_MEM|AVAIL_FEATURES|GROUPS|OVERSUBSCRIBE|TIMELIMIT|MEMORY|HOSTNAMES|NODE_ADDR|PRIO_TIER|ROOT|JOB_SIZE|STATE|USER|VERSION|WEIGHT|S:C:T|NODES(A/I) |MAX_CPUS_PER_NODE |CPUS(A/I/O/T) |NODES |REASON |NODES(A/I/O/T) |GRES |TIMESTAMP |PRIO_JOB_FACTOR |DEFAULTTIME |PREEMPT_MODE |NODELIST |CPU_LOAD |PARTITION |PARTITION |ALLOCNODES |STATE |USER |CLUSTER |SOCKETS |CORES |THREADS ",
                ],
            );
        }
    }

    #[test]
    fn reservations_as_captured() {
        let now: jiff::Zoned = "2026-11-21T02:20:41+00:00[+00:00]".parse().unwrap();
        let stamps = TimeWriter::new(&now, TimeFormat::Standard);
        let start = Time(now.timestamp().as_millisecond() + 3_600_000);
        let r1 = Reserved {
            name: "r1".into(),
            active: false,
            start,
            end: start + Span::from_minutes(60),
            nodes: "n1".into(),
        };
        let want = "RESV_NAME     STATE           START_TIME             END_TIME     DURATION  NODELIST\n\
            r1         INACTIVE  2026-11-21T03:20:41  2026-11-21T04:20:41     01:00:00  n1\n";
        assert_eq!(reservations(&[r1], false, &stamps), want);
        assert_eq!(reservations(&[], false, &stamps), "No reservations in the system\n");
    }
}
