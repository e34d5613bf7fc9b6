//! A workflow file, TOML or JSON, made a [`FlowSpec`].
//!
//! Every error in the file is reported with file and line before anything is sent to the
//! controller, which checks again. Scripts are named as seen from the file's directory, working
//! directories as `csub` has them.

use crate::native::arg::parse_name;
use crate::native::flow::graph::{self, TaskParents};
use crate::native::flow::header::{self, HeaderContext};
use crate::native::flow::origin::Origin;
use crate::native::flow::source_lines::SourceLines;
use crate::native::flow::task::TaskReader;
use crate::native::flow::tree::{self, Fields, Node, ParseError};
use anyhow::Context as _;
use cosy_model::limits::{FLOW_FILE_BYTES, FLOW_TASKS};
use cosy_model::workflow::{FlowSpec, FlowTask};
use jiff::Zoned;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The bytes of a workflow file, and its names.
pub struct SourceFile {
    /// Name of the file in messages.
    pub name: String,
    /// The directory that it is in.
    pub dir: PathBuf,
    /// The last part of its name, without what follows the last dot.
    pub stem: String,
    /// Contents of the file, which may be no text.
    pub bytes: Vec<u8>,
}

impl SourceFile {
    /// Reads a file; `-` is standard input.
    ///
    /// # Errors
    /// The file cannot be read, or is larger than [`FLOW_FILE_BYTES`].
    pub fn read(file: &OsStr) -> anyhow::Result<Self> {
        let path = Path::new(file);
        let name = path.display().to_string();
        let named = || format!("cannot read '{name}'");
        let mut bytes = Vec::new();
        let most = FLOW_FILE_BYTES as u64 + 1;
        if file == "-" {
            io::stdin()
                .lock()
                .take(most)
                .read_to_end(&mut bytes)
                .with_context(named)?;
        } else {
            let open = File::open(path).with_context(named)?;
            open.take(most)
                .read_to_end(&mut bytes)
                .with_context(named)?;
        }
        if bytes.len() > FLOW_FILE_BYTES {
            anyhow::bail!("{name}: it is larger than {} MiB", FLOW_FILE_BYTES >> 20);
        }
        let stem = path.file_stem().unwrap_or(OsStr::new("workflow"));
        Ok(Self {
            dir: path.parent().map(Path::to_owned).unwrap_or_default(),
            stem: stem.to_string_lossy().into_owned(),
            name,
            bytes,
        })
    }

    /// The contents as text, without a byte order mark.
    ///
    /// # Errors
    /// The contents are no text.
    pub fn text(&self) -> Result<&str, ParseError> {
        let text = std::str::from_utf8(&self.bytes).map_err(|e| {
            let before = &self.bytes[..e.valid_up_to()];
            let breaks = before.iter().filter(|b| **b == b'\n').count();
            let line = u32::try_from(breaks + 1).unwrap_or(u32::MAX);
            ParseError::new(line, "no text in UTF-8")
        })?;
        Ok(text.trim_start_matches('\u{feff}'))
    }
}

/// A workflow that was read from a file.
pub struct ParsedFlow {
    /// The workflow with all tasks and edges, as it is sent to the controller.
    pub spec: FlowSpec,
    /// Notes for the user about times that do not exist or exist twice.
    pub notes: Vec<String>,
    /// Lines of the tasks and of the deadline.
    pub source_lines: SourceLines,
}

/// True for JSON, by what it begins with.
pub fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// The workflow that a file describes; times are read in the zone of `now`.
///
/// # Errors
/// The first error in the file, with its line.
pub fn parse(source: &SourceFile, now: &Zoned) -> Result<ParsedFlow, ParseError> {
    parse_from(source, now, Origin::Own)
}

/// The same of a file of that origin.
///
/// # Errors
/// The first error in the file, with its line.
pub fn parse_from(
    source: &SourceFile,
    now: &Zoned,
    origin: Origin<'_>,
) -> Result<ParsedFlow, ParseError> {
    let text = source.text()?;
    let root = if is_json(text) {
        tree::json::read(text)?
    } else {
        tree::toml::read(text)?
    };
    let context = HeaderContext {
        now,
        name: default_name(&source.stem),
        origin,
    };
    let mut parsed = of_tree(&root, &context, &source.dir)?;
    parsed.source_lines.file.clone_from(&source.name);
    Ok(parsed)
}

fn default_name(stem: &str) -> String {
    match parse_name(stem) {
        Ok(name) if name != "-" => name,
        _ => "workflow".to_owned(),
    }
}

fn of_tree(root: &Node, context: &HeaderContext<'_>, dir: &Path) -> Result<ParsedFlow, ParseError> {
    let mut fields = Fields::new("the file", root)?;
    let header = fields.take("workflow");
    let defaults = fields.take("defaults");
    let speeds = header::speeds(fields.take("speeds"))?;
    let transfers = header::transfers(fields.take("transfer"))?;
    let (tasks, list) = (fields.take("tasks"), fields.take("task"));
    fields.finish()?;
    let entries = task_entries(tasks, list)?;
    let waiting: Vec<TaskParents<'_>> = entries.iter().map(TaskEntry::waiting).collect();
    let edges = graph::edges(&waiting)?;
    let source_lines = SourceLines {
        file: String::new(),
        tasks: entries.iter().map(|t| (t.name.clone(), t.line)).collect(),
        deadline: SourceLines::deadline_in(header),
    };
    let header = header::read(header, context)?;
    let mut reader = TaskReader::new(dir.to_owned(), header.login, context.origin);
    for (option, node) in header.defaults {
        reader.set_default(option, node);
    }
    reader.read_defaults(defaults)?;
    let tasks: Vec<FlowTask> = entries
        .iter()
        .map(|t| reader.task(&t.name, t.line, t.node))
        .collect::<Result<_, _>>()?;
    Ok(ParsedFlow {
        spec: FlowSpec {
            tasks,
            edges,
            speeds,
            transfers,
            ..header.spec
        },
        notes: header.notes,
        source_lines,
    })
}

/// A task's name and its table.
struct TaskEntry<'a> {
    name: String,
    line: u32,
    node: &'a Node,
}

impl TaskEntry<'_> {
    fn waiting(&self) -> TaskParents<'_> {
        TaskParents {
            name: &self.name,
            line: self.line,
            after: self.node.get("after"),
        }
    }
}

/// The tasks of `[tasks.NAME]` and of `[[task]]`, once it is clear that they are not too
/// many.
fn task_entries<'a>(
    tasks: Option<&'a Node>,
    list: Option<&'a Node>,
) -> Result<Vec<TaskEntry<'a>>, ParseError> {
    let tables = tasks
        .map(|n| n.table("[tasks]"))
        .transpose()?
        .unwrap_or_default();
    let list = list
        .map(|n| n.list("[[task]]"))
        .transpose()?
        .unwrap_or_default();
    let count = tables.len() + list.len();
    if count > FLOW_TASKS {
        return Err(ParseError::new(
            0,
            format!(
                "{count} tasks are too many: a workflow has at most {FLOW_TASKS}; make one task of several short ones"
            ),
        ));
    }
    if count == 0 {
        let message = "there is no task: add [tasks.NAME] with command or script, and estimate";
        return Err(ParseError::new(0, message));
    }
    let mut all = Vec::with_capacity(count);
    for entry in tables {
        if let Some(node) = entry.node.get("name") {
            let message = format!("task '{}': its name stands in [tasks.NAME] already", entry.key);
            return Err(ParseError::new(node.line, message));
        }
        all.push(one(&entry.key, entry.line, &entry.node)?);
    }
    for node in list {
        let name = node
            .get("name")
            .ok_or_else(|| ParseError::new(node.line, "[[task]]: 'name' is missing"))?;
        all.push(one(name.text("[[task]], name")?, node.line, node)?);
    }
    Ok(all)
}

fn one<'a>(name: &str, line: u32, node: &'a Node) -> Result<TaskEntry<'a>, ParseError> {
    let name =
        parse_name(name).map_err(|e| ParseError::new(line, format!("a task's name: {e}")))?;
    Ok(TaskEntry { name, line, node })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::flow::plan::sample::{at, now};
    use cosy_model::job::MemoryRequest;
    use cosy_model::workflow::{FlowDeadline, FlowScheduler, Overrun};
    use cosy_model::{MiB, Program, Span, Su};
    use proptest::prelude::*;

    fn source(dir: &Path, text: &str) -> SourceFile {
        SourceFile {
            name: "f.toml".into(),
            dir: dir.to_owned(),
            stem: "f".into(),
            bytes: text.as_bytes().to_vec(),
        }
    }

    fn get(text: &str) -> Result<FlowSpec, String> {
        let source = source(Path::new(""), text);
        let parsed = parse(&source, &now()).map_err(|e| e.in_file("f.toml"))?;
        Ok(parsed.spec)
    }

    fn fine(text: &str) -> FlowSpec {
        get(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
    }

    const WHOLE: &str = r#"
[workflow]
name = "night"
deadline = "now+6h"
earliest = 2026-11-21T13:00:00Z
queue = "day"
account = "physics"
scheduler = "heft"
slack_policy = "r_even_time"
threshold = "2.5%"
overrun = "replan"
early = true
max_price = 12.5
comment = "c"
environment = ["NONE", "A=1"]
workdir = "/w"

[defaults]
nodes = 2
retries = 3
queue = "night"

[speeds]
fast = 2
slow = 0.5

[[transfer]]
from = "fast"
to = "slow"
rate = "100M/s"
[[transfer]]
rate = 1000

[tasks.b]
command = ["prog", "-x", 7]
estimate = "10m"
nodes = 1
after = ["a", { task = "z", data = "2G" }]

[tasks.a]
run = "echo hello; ls"
time = "2h"
memory = "2G"
gpus = { a100 = 2 }
features = ["x", "y"]
exclusive = true
requeue = false
stdout = "out.%j"
workdir = "/v"
tasks_per_node = 4

[[task]]
name = "z"
command = "make -j 'all of it'"
estimate = 5
estimates = { fast = "90s", slow = "10.5s" }
retries = 0
"#;

    #[test]
    fn the_whole_language() {
        let f = fine(WHOLE);
        assert_eq!((&*f.name, f.scheduler), ("night", FlowScheduler::Heft));
        assert_eq!(f.deadline, Some(FlowDeadline::By(at(360))));
        assert_eq!(f.earliest, Some(at(60)));
        assert_eq!((f.threshold_permille, f.early), (25, true));
        assert_eq!((f.overrun, f.max_price), (Overrun::Replan, Some(Su(12_500_000))));
        assert_eq!((f.account.as_deref(), &*f.comment), (Some("physics"), "c"));
        assert_eq!(f.environment.lossy(), "A=1");
        assert!(!f.rlimits.is_empty());
        let speeds: Vec<_> = f
            .speeds
            .iter()
            .map(|s| (&*s.set, s.speed_permille))
            .collect();
        assert_eq!(speeds, [("fast", 2000), ("slow", 500)]);
        let t = &f.transfers[0];
        assert_eq!((t.from.as_deref(), t.bytes_per_second), (Some("fast"), 100 << 20));
        assert_eq!((f.transfers[1].to.as_deref(), f.transfers[1].bytes_per_second), (None, 1000));
        let edges: Vec<_> = f
            .edges
            .iter()
            .map(|e| (e.from, e.to, e.data_bytes))
            .collect();
        assert_eq!(edges, [(1, 0, 0), (2, 0, 2 << 30)]);
    }

    #[test]
    fn tasks_are_what_csub_makes_of_them() {
        let f = fine(WHOLE);
        let [b, a, z] = f.tasks.as_slice() else {
            panic!("{f:?}")
        };
        assert_eq!((&*a.name, &*b.name, &*z.name), ("a", "b", "z"));
        assert_eq!((a.retries, b.retries, z.retries), (3, 3, 0));
        assert_eq!(a.estimate, Span::from_minutes(120));
        assert_eq!(a.script.lossy(), "#!/bin/sh\necho hello; ls\n");
        let spec = &a.spec;
        let r = &spec.request;
        assert_eq!((&*spec.name, spec.queue.as_deref()), ("a", Some("night")));
        assert_eq!(spec.time_limit, Some(Span::from_minutes(120)));
        assert_eq!((r.nodes, r.tasks_per_node, r.gpus_per_node), (Some(2), Some(4), 2));
        assert_eq!(r.memory, MemoryRequest::PerNode(MiB(2048)));
        assert!(r.exclusive && !spec.requeue && r.features == ["x", "y"]);
        assert_eq!(
            (spec.stdout.clone(), spec.workdir.lossy()),
            (Some("out.%j".into()), "/v".into())
        );
        assert!(spec.environment.0.is_empty() && spec.rlimits.is_empty() && spec.umask == 0);
        assert_eq!((b.spec.request.nodes, b.estimate), (Some(1), Span::from_minutes(10)));
        assert_eq!((b.spec.time_limit, b.spec.workdir.lossy()), (None, "/w".into()));
        let argv = |p: &Program| match p {
            Program::Command { argv } => argv.iter().map(|a| a.lossy()).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(argv(&b.spec.program), ["prog", "-x", "7"]);
        assert_eq!(argv(&z.spec.program), ["make", "-j", "all of it"]);
        assert_eq!(z.estimate, Span::from_minutes(5));
        let by_set = [("fast".into(), Span(90_000)), ("slow".into(), Span(10_500))];
        assert_eq!(z.estimates, by_set);
    }

    #[test]
    fn json_says_the_same() {
        let f = fine(
            "{\"workflow\": {\"slack\": \"50%\", \"name\": \"j\"},\n \"tasks\": {\"a\": \
             {\"command\": [\"true\"], \"estimate\": \"5m\"}, \"b\": {\"command\": \"true\", \
             \"estimate\": 5, \"after\": \"a\", \"nodes\": 2}}}",
        );
        assert_eq!(f.deadline, Some(FlowDeadline::Slack(500)));
        assert_eq!((f.tasks.len(), f.edges.len()), (2, 1));
        assert_eq!(f.tasks[1].spec.request.nodes, Some(2));
    }

    #[test]
    fn scripts_with_lines_of_options() {
        let dir = tempfile::tempdir().unwrap();
        let script = "#!/bin/sh\n#COSY -N 3 -t 30 -J other\nls\n";
        std::fs::write(dir.path().join("s.sh"), script).unwrap();
        let text = "[tasks.a]\nscript = 's.sh'\nargs = ['1', 2]\n\
                    [tasks.b]\nscript = 's.sh'\nnodes = 5\nestimate = '1m'\n";
        let f = parse(&source(dir.path(), text), &now()).unwrap().spec;
        assert_eq!(f.tasks[0].spec.request.nodes, Some(3));
        assert_eq!(f.tasks[0].estimate, Span::from_minutes(30));
        assert_eq!((&*f.tasks[0].spec.name, f.tasks[1].spec.request.nodes), ("a", Some(5)));
        assert_eq!(f.tasks[1].script.lossy(), script);
        assert_eq!(f.deadline, None);
        for (line, want) in [
            ("-a 1-5", "has --array"),
            ("--env A=1", "has --env"),
            ("-d afterok:7", "use 'after'"),
            ("--begin now+1h", "has --begin"),
            ("--nodes x", "s.sh:2: "),
        ] {
            let script = format!("#!/bin/sh\n#COSY {line}\nls\n");
            std::fs::write(dir.path().join("s.sh"), script).unwrap();
            let error = parse(&source(dir.path(), text), &now()).err().unwrap();
            assert!(error.message.contains(want), "{line}: {error}");
            assert_eq!(error.line, 1, "{line}: {error}");
        }
    }

    #[test]
    fn nonsense_is_told_with_its_line() {
        let check = |text: &str, want: &str| {
            let error = get(text).expect_err(text);
            assert!(error.starts_with(want), "{text}\n{error}\n{want}");
            assert!(!error.contains('\n'), "{error}");
        };
        let task = |lines: &str| format!("[tasks.a]\ncommand = ['x']\nestimate = '1m'\n{lines}");
        let check_task = |line: &str, want: &str| {
            check(&task(line), &format!("f.toml:4: {want}"));
        };
        check("", "f.toml: there is no task");
        check("[workflow]\n", "f.toml: there is no task");
        check("{", "f.toml:1: no JSON");
        check("a = [", "f.toml:1: no TOML");
        check("\n[work]\n", "f.toml:2: the file: there is no key 'work'");
        check("[tasks.a]\nestimate = '1m'\n", "f.toml:1: task 'a': one of script");
        check("[tasks.a]\ncommand = 'x'\nrun = 'y'\n", "f.toml:1: task 'a': one of script");
        check("[tasks.a]\ncommand = 'x'\n", "f.toml:1: task 'a': an estimate is missing");
        check(
            "[tasks.a]\ncommand = []\nestimate = 1\n",
            "f.toml:2: task 'a', command: it is empty",
        );
        check("[tasks.a]\nscript = '/no/such'\nestimate = 1\n", "f.toml:2: task 'a': cannot read");
        check("[tasks.a]\nscript = ''\nestimate = 1\n", "f.toml:1: task 'a': 'script' is");
        check("[tasks.a]\nargs = []\nrun = ''\n", "f.toml:1: task 'a': 'args' belongs to");
        check("[tasks.a]\ncommand = \"'x\"\n", "f.toml:2: task 'a', command: a quote");
        check("[[task]]\ncommand = 'x'\n", "f.toml:1: [[task]]: 'name' is missing");
        check("[tasks.a]\nname = 'b'\n", "f.toml:2: task 'a': its name stands");
        check("[tasks.\"\"]\ncommand = 'x'\n", "f.toml:1: a task's name: a name is needed");
        check("tasks = 7", "f.toml:1: [tasks]: a table is needed");
        check_task("nods = 2", "task 'a': there is no key 'nods': is 'nodes' meant?");
        check_task("estimat = {}", "task 'a': there is no key 'estimat': is 'estimate' meant?");
        check_task("colour = 2", "task 'a': there is no key 'colour': a task has");
        check_task("nodes = 0", "task 'a': invalid value '0' for '--nodes <N>'");
        check_task("nodes = [{}]", "task 'a', nodes: a value is needed");
        check_task("memory = '-1'", "task 'a': invalid value '-1' for '--mem <SIZE>'");
        check_task("array = '1-5'", "task 'a': 'array' is not for tasks: write a task");
        check_task("depend = 'after:1'", "task 'a': 'depend' is not for tasks: use 'after'");
        check_task("retries = -1", "task 'a', retries: a whole number from 0 to 100");
        check_task("estimates = { x = -5 }", "task 'a', estimates, x: '-5' is no length");
        check_task("after = 'b'", "task 'a' waits for 'b', which is no task");
        check(&task("after = 'a'"), "f.toml:1: the tasks wait for each other in a circle: a -> a");
        check(
            "[tasks.a]\ncommand = 'x'\nestimate = -1\n",
            "f.toml:3: task 'a', estimate: '-1' is no",
        );
        check(
            "[tasks.a]\ncommand = 'x'\nestimate = 1.5\n",
            "f.toml:3: task 'a', estimate: a length",
        );
        check(
            "[[task]]\nname = 'a'\n[[task]]\nname = 'a'\n",
            "f.toml:3: there are two tasks 'a': the first on line 1",
        );
    }

    #[test]
    fn nonsense_in_the_head() {
        let check = |line: &str, want: &str| {
            let text = format!("[workflow]\n{line}\n[tasks.a]\ncommand = 'x'\nestimate = 1\n");
            let error = get(&text).expect_err(&text);
            assert!(error.starts_with(&format!("f.toml:2: {want}")), "{line}\n{error}");
        };
        check("name = 7", "name: a text is needed");
        check("name = ''", "name: a name is needed");
        check("nam = 'x'", "[workflow]: there is no key 'nam'; there are name, ");
        check("deadline = 'soon'", "deadline: 'soon' is no point in time");
        check("slack = '50'", "slack: '50' is no share");
        check("slack = '-5%'", "slack: '-5%' is no share");
        check("scheduler = 'fast'", "scheduler: 'fast' is no scheduler of workflows: use heft");
        check("slack_policy = 'x'", "slack_policy: 'x' is no way to share out spare time");
        check("overrun = 'x'", "overrun: 'x' is no way");
        check("early = 'yes'", "early: true or false is needed, not a text");
        check("max_price = -1", "max_price: '-1' is no sum");
        check("environment = 7", "environment: a list like");
        check("environment = ['A=1,2']", "environment: 'A=1,2' has a comma");
        check("environment = ['=1']", "environment: invalid value");
        check("queue = ''", "task 'a': invalid value '' for '--queue");
        let twice = "[workflow]\ndeadline = 'now+1h'\nslack = '5%'\n[tasks.a]\ncommand = 'x'\nestimate = 1\n";
        assert!(get(twice).unwrap_err().contains("exclude each other"));
        let rate = "[[transfer]]\nrate = 0\n";
        assert!(
            get(rate)
                .unwrap_err()
                .starts_with("f.toml:2: [[transfer]], rate: it must be more")
        );
        let rate = "[[transfer]]\nrates = 1\n";
        assert!(
            get(rate)
                .unwrap_err()
                .starts_with("f.toml:1: [[transfer]]: 'rate' is missing")
        );
        let speed = "[speeds]\n\nx = 0\n";
        assert!(
            get(speed)
                .unwrap_err()
                .starts_with("f.toml:3: [speeds], x: a speed from")
        );
    }

    #[test]
    fn far_too_many_tasks() {
        let mut text = String::new();
        for n in 0..100_000 {
            text.push_str(&format!("[tasks.t{n}]\ncommand=['x']\nestimate=1\n"));
        }
        let error = get(&text).unwrap_err();
        assert!(error.starts_with("f.toml: 100000 tasks are too many"), "{error}");
    }

    #[test]
    fn as_many_tasks_as_are_allowed() {
        let mut text = String::from("[defaults]\nestimate = '1m'\n");
        for n in 0..FLOW_TASKS {
            let after = if n == 0 {
                String::new()
            } else {
                format!("after = ['t{}']\n", n - 1)
            };
            text.push_str(&format!("[tasks.t{n}]\ncommand = ['x']\nnodes = 2\n{after}"));
        }
        let spec = fine(&text);
        assert_eq!((spec.tasks.len(), spec.edges.len()), (FLOW_TASKS, FLOW_TASKS - 1));
        let spec = Box::new(spec);
        let ask = cosy_proto::client::RequestFrame::new(
            cosy_model::api::Request::PlanFlow { spec },
            None,
        );
        let frame = cosy_proto::frame::encode(&ask, cosy_model::limits::FRAME_BYTES);
        let size = frame.unwrap().len();
        assert!(size < cosy_model::limits::FRAME_BYTES * 3 / 4, "{size}");
    }

    /// Pieces of files, thrown together.
    fn file_pieces() -> impl Strategy<Value = String> {
        let scrap = prop::sample::select(vec![
            "[workflow]\n",
            "[tasks.a]\n",
            "[[task]]\n",
            "name = 'a'\n",
            "command = ['x']\n",
            "estimate = '1m'\n",
            "after = ['a']\n",
            "after = [{ task = 'b', data = 3 }]\n",
            "[tasks.b]\n",
            "{\"tasks\":",
            "{",
            "}",
            "[",
            "]",
            "\"a\":",
            "1,",
            "slack = '5%'\n",
            "estimates = { x = 1 }\n",
            "jobs:\n",
            "- id: a\n",
            "  uses: [",
            "\n",
            " ",
            "é",
            "\0",
            "99999999999999999999\n",
            "run = \"\"\"\n",
            "[speeds]\nx = 1e400\n",
            "'",
            "\"",
            "\\u00",
            "\"workflow\": {\"tasks\": [",
            "nodes = 0x10\n",
            "= -inf\n",
            "true",
            "null",
            ": ",
            "&x ",
            "*x ",
        ]);
        prop::collection::vec(scrap, 0..24).prop_map(|v| v.concat())
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut source = source(Path::new("/nonexistent"), "");
            source.bytes = bytes;
            let _ = parse(&source, &now());
            let _ = crate::native::flow::import::convert(&source, Span::from_secs(1));
        }

        #[test]
        fn no_pieces_make_it_panic(text in file_pieces()) {
            let source = source(Path::new("/nonexistent"), &text);
            if let Err(e) = parse(&source, &now()) {
                prop_assert!(!e.message.is_empty() && !e.message.contains('\n'), "{e}");
            }
            let _ = crate::native::flow::import::convert(&source, Span::from_secs(1));
        }
    }
}
