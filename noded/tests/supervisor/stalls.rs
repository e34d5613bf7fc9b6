//! What users and their file systems can stop: nothing but their own tasks.

use super::hung_file_system::HungFileSystem;
use super::*;
use cosy_model::job::OpenMode;
use nix::libc;

const NOBODY: u32 = 65534;

/// The task's user is an ordinary one, where the test is root's.
fn as_nobody(task: &mut StepTask) {
    if sys::own_uid().0 == 0 {
        (task.allocation.uid, task.allocation.gid) = (Uid(NOBODY), Gid(NOBODY));
        task.allocation.groups = vec![Gid(NOBODY)];
        task.order.spec.workdir = "/".into();
    }
}

fn labelled(bench: &Bench, tasks: u32, script: &str, file: &str) -> StepTask {
    let mut task = bench.task(tasks, script);
    task.order.spec.label = true;
    task.order.spec.stdout = OutputTo::File(file.into());
    task.order.spec.stderr = OutputTo::Output;
    as_nobody(&mut task);
    task
}

/// A directory in which everybody may write.
fn open_directory(bench: &Bench) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = bench.work();
    for path in [bench.directory.path(), &path] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    path
}

/// The children of a process.
fn children(pid: i32) -> Vec<i32> {
    let all = noded::shepherd::all_processes();
    all.filter(|p| noded::shepherd::parent_of(*p) == Some(pid))
        .collect()
}

fn supervisor(step: &Step) -> i32 {
    eventually(|| {
        let file = spool::open_launch(&step.directory).ok()?;
        Some(sys::lock_holder(&file).ok()??.as_raw())
    })
}

/// The process that opens and writes files: the only child besides the tasks.
fn writer(step: &Step) -> i32 {
    let supervisor = supervisor(step);
    eventually(|| {
        let tasks: Vec<i32> = step.pids.values().copied().collect();
        let mut others = children(supervisor).into_iter();
        others.find(|pid| !tasks.contains(pid))
    })
}

/// It waits for a file system that does not answer.
fn hangs(pid: i32) -> Option<()> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.contains(") D").then_some(())
}

fn killed_while_opening(bench: &mut Bench, task: &StepTask) {
    let mut step = bench.start(task);
    let (own, writer) = (supervisor(&step), writer(&step));
    eventually(|| hangs(writer));
    step.send(DownFrame::Kill);
    step.wait();
    let why = "the step was ended before its tasks began";
    assert_eq!(step.failure(0), why);
    assert_eq!(step.ends.len(), task.order.layout.tasks as usize);
    eventually(|| is_gone(writer));
    eventually(|| is_gone(own));
}

#[test]
fn labelled_files_that_hang_while_they_are_opened() {
    let mut bench = Bench::new();
    let Some(hung) = HungFileSystem::at(&bench.work().join("hung")) else {
        return;
    };
    let task = labelled(&bench, 2, "echo never", &hung.file());
    killed_while_opening(&mut bench, &task);
}

#[test]
fn shared_files_that_hang_while_they_are_cut() {
    let mut bench = Bench::new();
    let Some(hung) = HungFileSystem::at(&bench.work().join("hung")) else {
        return;
    };
    let mut task = labelled(&bench, 2, "echo never", &hung.file());
    task.order.spec.label = false;
    task.order.spec.open_mode = OpenMode::Truncate;
    killed_while_opening(&mut bench, &task);
}

#[test]
fn files_that_are_not_opened_in_time() {
    let mut bench = Bench::new();
    let Some(hung) = HungFileSystem::at(&bench.work().join("hung")) else {
        return;
    };
    let mut step = bench.run(&labelled(&bench, 1, "echo never", &hung.file()));
    let text = format!("cannot open the output file {}: not done after 30 s", hung.file());
    assert_eq!(step.failure(0), text);
    assert_eq!(*step.cause(), EndCause::LaunchFailed(text));
    step.over = true;
    // The node goes on.
    assert_eq!(bench.sh(1, "echo on").text(0), "on\n");
}

#[test]
fn a_task_that_waits_for_its_file_can_be_killed() {
    let mut bench = Bench::new();
    let Some(hung) = HungFileSystem::at(&bench.work().join("hung")) else {
        return;
    };
    let mut task = labelled(&bench, 1, "echo never", &hung.file());
    task.order.spec.label = false;
    let mut step = bench.start(&task);
    step.until(|s| s.pids.len() == 1);
    let pid = step.pids[&0];
    eventually(|| hangs(pid));
    step.send(DownFrame::Kill);
    step.send(DownFrame::Kill);
    step.wait();
    assert_eq!(step.end(0), (0, libc::SIGKILL));
    eventually(|| is_gone(pid));
}

#[test]
fn a_pipe_is_no_labelled_file_and_can_be_left() {
    let mut bench = Bench::new();
    let pipe = open_directory(&bench).join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::empty()).unwrap();
    std::fs::set_permissions(&pipe, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let pipe = pipe.to_str().unwrap();
    let mut task = labelled(&bench, 1, "echo never", pipe);
    let step = bench.run(&task);
    let text = format!("cannot open the output file {pipe}: No such device or address");
    assert_eq!(step.failure(0), text);
    // Without labels the task itself waits for a reader.
    task = labelled(&bench, 1, "echo never", pipe);
    task.order.spec.label = false;
    let mut step = bench.start(&task);
    step.until(|s| s.pids.len() == 1);
    step.send(DownFrame::Kill);
    step.send(DownFrame::Kill);
    step.wait();
    assert_ne!(step.end(0), (0, 0));
}

#[test]
fn a_writer_that_its_user_has_stopped() {
    let mut bench = Bench::new();
    let file = open_directory(&bench).join("out");
    let script = "echo begun; read x; yes | head -c 4000000; echo over >&2; read x";
    let mut task = labelled(&bench, 1, script, file.to_str().unwrap());
    task.order.spec.stderr = OutputTo::Command;
    let mut step = bench.start(&task);
    step.until(|s| s.pids.len() == 1);
    let writer = writer(&step);
    let uid = std::fs::read_to_string(format!("/proc/{writer}/status")).unwrap();
    let own = task.allocation.uid;
    assert!(uid.contains(&format!("Uid:\t{own}\t{own}\t")), "{uid}");
    sys::kill(nix::unistd::Pid::from_raw(writer), libc::SIGSTOP).unwrap();
    step.stdin(b"go\n");
    // The task is held up as by a slow file, and the step ends when it is told to.
    step.send(DownFrame::Kill);
    step.send(DownFrame::Kill);
    step.wait();
    eventually(|| is_gone(writer));
    let text = "cannot write the output of task 0: its file takes nothing\n";
    assert_eq!(step.of(0, Stream::Error), text);
}

#[test]
fn labelled_lines_come_whole_also_from_what_is_killed() {
    let mut bench = Bench::new();
    let file = open_directory(&bench).join("out");
    // What stays behind is killed with everything of the step but the writer.
    let script =
        "sleep 1000 & i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; printf end";
    let step = bench.run(&labelled(&bench, 3, script, file.to_str().unwrap()));
    assert_eq!(*step.cause(), EndCause::Exited);
    let text = std::fs::read_to_string(&file).unwrap();
    for rank in 0..3 {
        let mark = format!("{rank}: ");
        let own: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix(&mark)).collect();
        assert_eq!(own.len(), 3001);
        assert_eq!((own[2999], own[3000]), ("line 2999", "end"));
    }
}

#[test]
fn labelled_files_keep_to_the_limits_of_their_user() {
    let mut bench = Bench::new();
    let file = open_directory(&bench).join("out");
    let mut task = labelled(&bench, 1, "yes | head -c 300000", file.to_str().unwrap());
    task.order.spec.rlimits = [("FSIZE".into(), 65_536, 65_536)].into();
    let step = bench.run(&task);
    assert_eq!(step.end(0), (0, 0));
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 65_536);
    let text = "cannot write the output of task 0: File too large\n";
    assert_eq!(step.of(0, Stream::Error), text);
}

#[test]
fn a_writer_goes_with_its_supervisor() {
    let mut bench = Bench::new();
    let file = open_directory(&bench).join("out");
    let task = labelled(&bench, 1, "exec sleep 1000", file.to_str().unwrap());
    let mut step = bench.start(&task);
    step.until(|s| s.pids.len() == 1);
    let (writer, supervisor, task) = (writer(&step), supervisor(&step), step.pids[&0]);
    let pid = nix::unistd::Pid::from_raw;
    sys::kill(pid(writer), libc::SIGSTOP).unwrap();
    sys::kill(pid(supervisor), libc::SIGKILL).unwrap();
    eventually(|| is_gone(writer));
    // Nobody is there to sweep.
    sys::kill(pid(task), libc::SIGKILL).unwrap();
}
