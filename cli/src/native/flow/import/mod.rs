//! `cosy flow import`: reads workflows that other systems have written (WfCommons JSON,
//! Pegasus 5 YAML) and writes a workflow file; what could not be carried over goes to
//! standard error, one line each.

pub mod foreign;
pub mod pegasus;
pub mod wfcommons;
pub mod write;

use crate::native::arg::value;
use crate::native::flow::amounts;
use crate::native::flow::file::{self, SourceFile};
use crate::native::flow::tree::{self, Node, ParseError};
use crate::native::resv;
use crate::{Context, exit, output};
use anyhow::Context as _;
use clap::{Arg, ArgMatches, Command};
use cosy_model::Span;
use foreign::ForeignWorkflow;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Estimate of tasks whose run time the file does not tell.
const DEFAULT_ESTIMATE: Span = Span::from_minutes(60);

/// The command line of `cosy flow import`.
pub fn command() -> Command {
    Command::new("import")
        .about("Convert a workflow of WfCommons (JSON) or Pegasus (YAML) to a workflow file")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .help("WfCommons JSON (WfFormat 1.0 to 1.6) or Pegasus 5 YAML; - is standard input")
                .required(true)
                .value_parser(clap::value_parser!(OsString)),
        )
        .arg(
            value(
                "output",
                "FILE",
                "Write to this file, which must not exist (default: standard output)",
            )
            .short('o')
            .value_parser(clap::value_parser!(PathBuf)),
        )
        .arg(
            value(
                "estimate",
                "LENGTH",
                "Estimate of tasks without a run time in the file (default: 1h)",
            )
            .value_parser(amounts::estimate),
        )
}

/// Runs `cosy flow import`.
///
/// # Errors
/// A file that cannot be read, understood or written.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let file = matches
        .get_one::<OsString>("file")
        .cloned()
        .unwrap_or_default();
    let default_estimate = matches
        .get_one("estimate")
        .copied()
        .unwrap_or(DEFAULT_ESTIMATE);
    let source = SourceFile::read(&file)?;
    let (text, notes) =
        convert(&source, default_estimate).map_err(|e| exit::usage(e.in_file(&source.name)))?;
    match matches.get_one::<PathBuf>("output") {
        Some(to) => save(to, &text)?,
        None => output::print(&text),
    }
    resv::print_notes(context, &notes);
    Ok(exit::OK)
}

/// The workflow file that a foreign file comes to, and what could not be carried over.
///
/// # Errors
/// The file has none of the known formats, or an error.
pub fn convert(
    source: &SourceFile,
    default_estimate: Span,
) -> Result<(String, Vec<String>), ParseError> {
    let text = source.text()?;
    let tree = if file::is_json(text) {
        tree::json::read(text)?
    } else {
        tree::yaml::read(text)?
    };
    let mut workflow = of_tree(&tree)?;
    workflow.estimate_missing(default_estimate);
    let text = write::toml(&workflow, &source.name, default_estimate);
    Ok((text, workflow.notes))
}

fn of_tree(tree: &Node) -> Result<ForeignWorkflow, ParseError> {
    if tree.get("workflow").is_some() {
        return wfcommons::read(tree);
    }
    if tree.get("jobs").is_some() {
        return pegasus::read(tree);
    }
    Err(ParseError::new(
        0,
        "no workflow of WfCommons (JSON with 'workflow') or of Pegasus 5 (YAML with 'jobs')",
    ))
}

fn save(to: &Path, text: &str) -> anyhow::Result<()> {
    let named = || format!("cannot write '{}'", to.display());
    let mut file = File::create_new(to).with_context(named)?;
    file.write_all(text.as_bytes()).with_context(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::flow::plan::sample::now;
    use cosy_model::workflow::FlowSpec;

    fn fixture(name: &str) -> SourceFile {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/flow")
            .join(name);
        SourceFile::read(path.as_os_str()).unwrap()
    }

    /// Reads what was imported as `cosy flow plan` would.
    fn again(name: &str) -> (FlowSpec, Vec<String>) {
        let (text, notes) = convert(&fixture(name), DEFAULT_ESTIMATE).unwrap();
        let source = SourceFile {
            name: "made.toml".into(),
            dir: PathBuf::new(),
            stem: "made".into(),
            bytes: text.clone().into_bytes(),
        };
        let parsed = file::parse(&source, &now());
        let parsed = parsed.unwrap_or_else(|e| panic!("{e}\n{text}"));
        (parsed.spec, notes)
    }

    fn edges(spec: &FlowSpec) -> Vec<(&str, &str, u64)> {
        let name = |n: u32| spec.tasks[n as usize].name.as_str();
        let edges = spec.edges.iter();
        edges
            .map(|e| (name(e.from), name(e.to), e.data_bytes))
            .collect()
    }

    #[test]
    fn wfcommons_of_today() {
        let (spec, notes) = again("wfcommons-1.5.json");
        assert_eq!(spec.name, "small-montage");
        assert_eq!(
            edges(&spec),
            [
                ("project_1", "diff_1", 4_000_000),
                ("project_2", "diff_1", 5_000_000),
                ("diff_1", "add_1", 70_000),
                ("project_2", "add_1", 5_000_000),
            ]
        );
        let estimates: Vec<i64> = spec.tasks.iter().map(|t| t.estimate.ms()).collect();
        assert_eq!(estimates, [13_250, 14_001, 1_500, 3_600_000]);
        assert_eq!(spec.tasks[1].spec.request.cores_per_task, 2);
        let notes = notes.join("\n");
        assert!(notes.contains("1 task has no run time") && notes.contains("add_1"), "{notes}");
        assert!(notes.contains("no command") && notes.contains("machines"), "{notes}");
    }

    #[test]
    fn wfcommons_of_old() {
        let (spec, notes) = again("wfcommons-1.3.json");
        assert_eq!(
            edges(&spec),
            [
                ("split_ID1", "count_ID2", 1024),
                ("split_ID1", "count_ID3", 2048)
            ]
        );
        assert_eq!(spec.tasks[2].estimate.ms(), 20_000);
        assert!(
            notes
                .iter()
                .any(|n| n.contains("worked out of their files")),
            "{notes:?}"
        );
    }

    #[test]
    fn pegasus_of_today() {
        let (spec, notes) = again("pegasus-5.yml");
        assert_eq!(spec.name, "diamond");
        assert_eq!(
            edges(&spec),
            [
                ("ID1", "ID2", 2048),
                ("ID1", "ID3", 4096),
                ("ID2", "ID4", 0),
                ("ID3", "ID4", 512),
            ]
        );
        let last = &spec.tasks[3];
        assert_eq!((last.retries, last.estimate.ms()), (2, 90_000));
        assert_eq!(last.spec.request.cores_per_task, 4);
        let argv = |n: usize| match &spec.tasks[n].spec.program {
            cosy_model::Program::Command { argv } => {
                argv.iter().map(|a| a.lossy()).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(argv(0), ["/opt/bin/preprocess", "-i", "f.a", "-T", "60"]);
        assert_eq!(argv(3), ["analyze", "it's", "two words"]);
        let notes = notes.join("\n");
        assert!(notes.contains("variables") && notes.contains("replicaCatalog"), "{notes}");
    }

    #[test]
    fn nonsense() {
        let check = |text: &str, want: &str| {
            let source = SourceFile {
                name: "f".into(),
                dir: PathBuf::new(),
                stem: "f".into(),
                bytes: text.as_bytes().to_vec(),
            };
            let error = convert(&source, DEFAULT_ESTIMATE).unwrap_err().in_file("f");
            assert!(error.contains(want), "{text}: {error}");
        };
        check("{}", "no workflow of WfCommons");
        check("a: 1", "no workflow of WfCommons");
        check("{\"workflow\": 7}", "f:1: workflow: a table is needed");
        check("{\"workflow\": {}}", "no tasks");
        check("{\"workflow\": {\"tasks\": [7]}}", "a table is needed");
        check("{\"workflow\": {\"tasks\": [\n{}]}}", "f:2: a task without name");
        check(
            "{\"workflow\": {\"tasks\": [{\"name\": \"a\"},\n{\"name\": \"a\"}]}}",
            "f:2: there are two tasks 'a'",
        );
        check(
            "{\"workflow\": {\"tasks\": [{\"name\": \"a\", \"parents\": [\"b\"]}]}}",
            "task 'a' waits for 'b', which is no task",
        );
        check("jobs: []", "no jobs");
        check("jobs:\n- type: pegasusWorkflow\n  id: x\n  file: y\n", "f:2: job 'x'");
        check("jobs: [{id: a}]\njobDependencies: [{id: a, children: [q]}]", "'q'");
        check("jobs: 7", "a list is needed");
        check("\"\u{0}", "no YAML");
    }
}
