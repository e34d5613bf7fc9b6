//! The PMI server with real programs: MPICH of Debian (PMI-1), and a client of PMI-2.
//! Processes of one machine play a step of several nodes, each with a server of its own.
//!
//! Programs are compiled from `tests/mpi`; without a compiler for them a test says so.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::OsText;
use noded::pmi::{Pmi, PmiAct, PmiJob};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a step may take before a test gives it up.
const DEADLINE: Duration = Duration::from_secs(120);

/// Compiles a program of `tests/mpi`; `None` without the compiler.
fn compiled(directory: &Path, compiler: &str, source: &str, library: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/mpi")
        .join(source);
    let program = directory.join(source.file_stem().unwrap());
    let mut command = Command::new(compiler);
    command.arg("-o").arg(&program).arg(source).args(library);
    match command.output() {
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{error}");
            Some(program)
        }
        Err(_) => {
            cosy_skip::not_installed(&format!("no {compiler}"));
            None
        }
    }
}

/// A step whose tasks are processes here and whose nodes are servers.
struct Step {
    nodes: Vec<Pmi>,
    node_of: Vec<usize>,
    children: Vec<Child>,
    ends: Vec<UnixStream>,
    shares: Vec<Option<OsText>>,
    aborts: Vec<(u32, i32)>,
    directory: tempfile::TempDir,
}

/// What came from a task's descriptor; nothing is its end.
type Heard = (usize, Vec<u8>);

impl Step {
    fn start(
        program: &Path,
        arguments: &[&str],
        node_of: &[usize],
    ) -> (Self, mpsc::Receiver<Heard>) {
        let nodes = servers(node_of);
        let mut step = Self {
            shares: vec![None; nodes.len()],
            nodes,
            node_of: node_of.to_vec(),
            children: Vec::new(),
            ends: Vec::new(),
            aborts: Vec::new(),
            directory: tempfile::tempdir().unwrap(),
        };
        let (sender, heard) = mpsc::channel();
        for rank in 0..node_of.len() {
            step.start_task(program, arguments, rank, sender.clone());
        }
        (step, heard)
    }

    /// The task's descriptor is its standard input: that alone is inherited by nobody
    /// else that is started at the same time.
    fn start_task(
        &mut self,
        program: &Path,
        arguments: &[&str],
        rank: usize,
        to: mpsc::Sender<Heard>,
    ) {
        let (here, there) = UnixStream::pair().unwrap();
        let output = File::create(self.output(rank)).unwrap();
        let mut command = Command::new(program);
        command.args(arguments).env("PMI_FD", "0");
        for variable in self.nodes[self.node_of[rank]].variables(rank as u32) {
            let at = variable.0.iter().position(|&b| b == b'=').unwrap();
            let (name, value) = variable.0.split_at(at);
            command.env(OsStr::from_bytes(name), OsStr::from_bytes(&value[1..]));
        }
        command.stdin(OwnedFd::from(there));
        command.stdout(output.try_clone().unwrap()).stderr(output);
        self.children.push(command.spawn().unwrap());
        let mut reader = here.try_clone().unwrap();
        self.ends.push(here);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                let length = reader.read(&mut bytes).unwrap_or(0);
                let sent = to.send((rank, bytes[..length].to_vec()));
                if length == 0 || sent.is_err() {
                    return;
                }
            }
        });
    }

    fn output(&self, rank: usize) -> PathBuf {
        self.directory.path().join(rank.to_string())
    }

    fn output_text(&self, rank: usize) -> String {
        fs::read_to_string(self.output(rank)).unwrap()
    }

    /// Serves until all tasks have closed their end, or one wants an end of all.
    fn serve(&mut self, heard: &mpsc::Receiver<Heard>) {
        let until = Instant::now() + DEADLINE;
        let mut open = self.node_of.len();
        while open > 0 && self.aborts.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let (rank, bytes) = heard.recv_timeout(left).expect("the step comes to an end");
            let node = self.node_of[rank];
            let acts = if bytes.is_empty() {
                open -= 1;
                self.nodes[node].closed(rank as u32)
            } else {
                self.nodes[node].heard(rank as u32, &bytes)
            };
            self.act(node, acts);
            self.exchange();
        }
    }

    fn act(&mut self, node: usize, acts: Vec<PmiAct>) {
        for act in acts {
            match act {
                PmiAct::Answer { rank, bytes } => {
                    // A task that has gone is told of by its end.
                    let _ = self.ends[rank as usize].write_all(&bytes);
                }
                PmiAct::Contribute(share) => self.shares[node] = Some(OsText(share)),
                PmiAct::Abort { rank, code, .. } => self.aborts.push((rank, code)),
                PmiAct::Broken { rank, reason } => panic!("rank {rank}: {reason}"),
            }
        }
    }

    fn exchange(&mut self) {
        if self.shares.iter().any(Option::is_none) {
            return;
        }
        let shares = self.shares.iter_mut().map(|share| share.take().unwrap());
        let parts: Vec<(u32, OsText)> = (0_u32..).zip(shares).collect();
        for node in 0..self.nodes.len() {
            let acts = self.nodes[node].spread(&parts);
            self.act(node, acts);
        }
    }

    fn ends(&mut self) -> Vec<ExitStatus> {
        self.children
            .iter_mut()
            .map(|child| child.wait().unwrap())
            .collect()
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn servers(node_of: &[usize]) -> Vec<Pmi> {
    let nodes = node_of.iter().max().unwrap() + 1;
    let of = |node| (0_u32..).zip(node_of).filter(move |(_, at)| **at == node);
    let ranks: Vec<Vec<u32>> = (0..nodes)
        .map(|node| of(node).map(|(r, _)| r).collect())
        .collect();
    let server = |node| {
        Pmi::new(PmiJob {
            name: format!("test-{}", std::process::id()),
            tasks: node_of.len() as u32,
            node,
            ranks: ranks.clone(),
        })
    };
    (0..nodes as u32).map(server).collect()
}

/// Every rank of a step that is laid out like that says what it should.
fn runs(program: &Path, node_of: &[usize], expected: impl Fn(usize) -> String) {
    let (mut step, heard) = Step::start(program, &[], node_of);
    step.serve(&heard);
    for (rank, end) in step.ends().iter().enumerate() {
        let output = step.output_text(rank);
        assert!(end.success(), "rank {rank} of {node_of:?}: {end}: {output}");
        assert!(output.contains(&expected(rank)), "rank {rank} of {node_of:?}: {output}");
    }
}

const LAYOUTS: &[&[usize]] = &[
    &[0],
    &[0, 0],
    &[0, 1],
    &[0, 0, 1, 1, 2, 2, 3, 3],
    &[0, 1, 2, 3, 0, 1, 2, 3],
    &[0, 1, 1, 2, 0],
];

#[test]
fn mpich_runs_on_several_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), "mpicc.mpich", "collectives.c", &[]) else {
        return;
    };
    for layout in LAYOUTS {
        runs(&program, layout, |rank| {
            let before = layout[..rank].iter().filter(|node| **node == layout[rank]);
            format!("rank {rank} of {} on {}: good", layout.len(), before.count())
        });
    }
}

#[test]
fn mpi_abort_gives_rank_and_code() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), "mpicc.mpich", "collectives.c", &[]) else {
        return;
    };
    let (mut step, heard) = Step::start(&program, &["abort", "2", "17"], &[0, 0, 1, 1]);
    step.serve(&heard);
    assert_eq!(step.aborts, [(2, 17)]);
}

#[test]
fn a_client_of_pmi_2_runs_on_several_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), "cc", "pmi2_client.c", &[]) else {
        return;
    };
    for layout in LAYOUTS {
        let tasks = layout.len();
        runs(&program, layout, |rank| format!("rank {rank} of {tasks}: good"));
    }
}

/// A client's side that is not ours.
#[test]
fn slurms_library_of_pmi_2_runs_on_several_nodes() {
    if !Path::new("/usr/include/slurm/pmi2.h").exists() {
        return cosy_skip::skip("no libpmi2-0-dev");
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), "cc", "pmi2_library.c", &["-lpmi2"]) else {
        return;
    };
    for layout in LAYOUTS {
        let tasks = layout.len();
        runs(&program, layout, |rank| format!("rank {rank} of {tasks}: good"));
    }
}

#[test]
fn mpich_is_refused_what_there_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled(directory.path(), "mpicc.mpich", "dynamic.c", &[]) else {
        return;
    };
    runs(&program, &[0, 1], |rank| format!("rank {rank} of 2: good"));
}
