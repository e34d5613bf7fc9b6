//! Jobs and steps in containers, with podman and crun of an ordinary user: what is seen inside, how
//! programs end and are ended, what is fetched how often, and what is said where it cannot work.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::cluster::Options;
use cosy_tests::people::{self, ANN, GROUP};
use cosy_tests::{Cluster, Output, programs, run, system, wait};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes `root` (a root file system), `rootfs.tar` of it, `image.tar` (as `docker save` writes it) and
/// `bundle` in the present folder.
const FILES: &str = r#"
set -e
mkdir -p root/bin root/etc root/tmp root/start archive/layer bundle
cp /bin/busybox root/bin/
for name in sh cat echo sleep id pwd env ls touch true kill; do ln -sf busybox root/bin/$name; done
echo 'root:x:0:0:root:/root:/bin/sh' >root/etc/passwd
echo inside >root/etc/where
tar -C root -cf rootfs.tar .
cp rootfs.tar archive/layer/layer.tar
sum=$(sha256sum rootfs.tar | cut -d' ' -f1)
cat >archive/config.json <<END
{"architecture": "amd64", "os": "linux",
 "config": {"Env": ["PATH=/bin", "FROM_IMAGE=yes", "BOTH=image"], "WorkingDir": "/start",
            "Entrypoint": ["/bin/sh", "-c", "echo entry; exec \"\$@\"", "sh"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$sum"]}}
END
echo '[{"Config": "config.json", "RepoTags": ["localhost/tiny:1"], "Layers": ["layer/layer.tar"]}]' \
    >archive/manifest.json
tar -C archive -cf image.tar manifest.json config.json layer
cp -R root bundle/rootfs
cd bundle
crun spec --rootless
"#;

/// A node without the parts of mixed control groups that crun refuses to work with.
const BEFORE: &str = "umount -l /sys/fs/cgroup/unified 2>/dev/null; exec \"$0\" \"$@\"";

struct Containers {
    cluster: Cluster,
    home: PathBuf,
}

fn tools_or_skip() -> bool {
    if !system::root_or_skip() {
        return false;
    }
    let missing = ["/usr/bin/podman", "/usr/bin/crun", "/bin/busybox"];
    let missing = missing.iter().find(|path| !Path::new(path).exists());
    if let Some(path) = missing {
        system::not_installed(&format!("{path} is not installed"));
        return false;
    }
    // Nothing else is in the image, so no libraries.
    let libraries = run::run(Command::new("ldd").arg("/bin/busybox"));
    if libraries.code == 0 {
        system::not_installed("busybox-static is not installed");
    }
    libraries.code != 0
}

impl Containers {
    /// One node with these lines of configuration; everything that users need is where they can read it.
    fn start(noded: fn(usize) -> String) -> Option<Self> {
        if !tools_or_skip() {
            return None;
        }
        let mut cluster = people::prepare(
            1,
            Options {
                noded,
                ..Options::default()
            },
        );
        cluster
            .reconfigure(|o| o.controller = "[users]\nlookup_command = [\"DIR/lookup\"]\n".into());
        let (dir, home) = (cluster.dir().to_owned(), cluster.work().join("ann"));
        let sbin = dir.join("sbin");
        fs::create_dir(&sbin).unwrap();
        for name in ["noded", "cosy"] {
            fs::copy(programs::folder().join(name), sbin.join(name)).unwrap();
            fs::set_permissions(sbin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins");
        run::run(
            Command::new("cp")
                .arg("-R")
                .arg(plugins)
                .arg(dir.join("plugins")),
        )
        .expect(0);
        for folder in [home.clone(), home.join("run"), home.join("bin")] {
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
            chown(&folder, Some(ANN), Some(GROUP)).unwrap();
        }
        let before = ["unshare", "--mount", "sh", "-c", BEFORE];
        cluster.nodes[0].before = before.map(str::to_owned).into();
        cluster.nodes[0].replace_program(&sbin.join("noded"));
        let it = Self {
            cluster: cluster.start_prepared(),
            home,
        };
        let mut files = Command::new("sh");
        files.args(["-c", FILES]).current_dir(&it.home);
        run::run(files.uid(ANN).gid(GROUP).env("HOME", &it.home)).expect(0);
        Some(it)
    }

    fn usual() -> Option<Self> {
        Self::start(|_| "plugins = [\"DIR/plugins\"]\n".into())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.cluster.command(words);
        let path = format!(
            "{0}/bin:{1}/bin:/usr/bin:/bin",
            self.home.display(),
            self.cluster.dir().display()
        );
        command
            .current_dir(&self.home)
            .env("HOME", &self.home)
            .env("PATH", path);
        command.env("XDG_RUNTIME_DIR", self.home.join("run"));
        command.uid(ANN).gid(GROUP);
        command
    }

    /// Runs a command line of the user's; `HOME` in it is the folder with the images.
    #[track_caller]
    fn run(&self, words: &[&str]) -> Output {
        let home = self.home.display().to_string();
        let words: Vec<String> = words.iter().map(|w| w.replace("HOME", &home)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        run::run(&mut self.command(&words))
    }

    fn script(&self, text: &str) -> String {
        let path = self.home.join("script");
        fs::write(&path, text.replace("HOME", &self.home.display().to_string())).unwrap();
        path.display().to_string()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.home.join(name)).unwrap_or_default()
    }

    /// Submits in the background; gives the job's number.
    fn submit(&self, words: &[&str]) -> JobId {
        let out = self.run(words).expect(0).out;
        JobId(out.trim().parse().unwrap())
    }
}

#[test]
fn a_batch_script_with_lines_of_slurm() {
    let Some(c) = Containers::usual() else { return };
    let script = c.script(
        "#!/bin/sh\n#SBATCH --container-image=HOME/image.tar\n#SBATCH -o out\n\
         #SBATCH --container-mounts=HOME/archive:/data:ro\n#SBATCH --container-env=BOTH\n\
         cat /etc/where\necho $FROM_IMAGE $BOTH $MINE $SLURM_JOB_ID\nid -u\npwd\nls /data\n\
         touch /data/x 2>/dev/null || echo readonly\ntouch /new 2>/dev/null || echo readonly\n\
         exit 7\n",
    );
    let mut command = c.command(&["sbatch", "--wait", "--parsable", &script, "word"]);
    let done = run::run(command.env("MINE", "mine").env("BOTH", "job")).expect(7);
    let id = done.out.trim();
    let home = c.home.display();
    assert_eq!(
        c.read("out"),
        format!(
            "inside\nyes job mine {id}\n{ANN}\n{home}\nconfig.json\nlayer\nmanifest.json\nreadonly\nreadonly\n"
        )
    );
}

#[test]
fn what_is_asked_for_is_so_inside() {
    let Some(c) = Containers::usual() else { return };
    let check = |options: &[&str], shell: &str, code: i32, want: &str| {
        let image = [
            "csub",
            "--wait",
            "-Q",
            "-o",
            "HOME/out",
            "--container-image=HOME/image.tar",
        ];
        let words = [&image[..], options, &["--", "sh", "-c", shell]].concat();
        let done = c.run(&words);
        assert_eq!((done.code, c.read("out").as_str()), (code, want), "{options:?} {done:?}");
        fs::remove_file(c.home.join("out")).unwrap();
    };
    check(&["--container-workdir=/start"], "pwd", 0, "/start\n");
    check(&["--container-remap-root"], "id -u", 0, "0\n");
    check(&["--container-writable"], "touch /new && echo ok", 0, "ok\n");
    check(&["--container-entrypoint"], "echo ran", 0, "entry\nran\n");
    check(&[], "kill -9 $$", 137, "");
    check(&["-D", "/usr"], "pwd", 0, "/start\n");
    // What was written to a named container is there in the next job.
    check(&["--container-name=mine", "--container-writable"], "echo kept >/kept", 0, "");
    check(&["--container-name=mine"], "cat /kept", 0, "kept\n");
    let save = ["--container-save=HOME/saved.tar", "--container-writable"];
    check(&save, "echo saved >/saved; exit 4", 4, "");
    let saved = [
        "csub",
        "--wait",
        "-Q",
        "-o",
        "HOME/out",
        "--container-image=HOME/saved.tar",
        "--",
        "cat",
    ];
    c.run(&[&saved[..], &["/saved"]].concat()).expect(0);
    assert_eq!(c.read("out"), "saved\n");
}

#[test]
fn tasks_of_a_node_fetch_once() {
    let Some(c) = Containers::usual() else { return };
    let tool = c.home.join("bin/podman");
    let log = c.home.join("log");
    fs::write(
        &tool,
        format!("#!/bin/sh\necho \"$*\" >>{}\nexec /usr/bin/podman \"$@\"\n", log.display()),
    )
    .unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let image = "--container-image=HOME/image.tar";
    let done = c.run(&[
        "srun",
        "-n",
        "3",
        image,
        "sh",
        "-c",
        "cat /etc/where; exit $SLURM_PROCID",
    ]);
    assert_eq!((done.code, done.out.as_str()), (2, "inside\ninside\ninside\n"), "{done:?}");
    let log = c.read("log");
    let pulls = log.lines().filter(|line| line.contains(" pull "));
    assert_eq!(pulls.count(), 1, "{log}");
    // What a program says to the step through PMI's descriptor is heard and answered.
    let ask = "echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; read said <&$PMI_FD; echo $said; echo cmd=finalize >&$PMI_FD; read said <&$PMI_FD";
    let done = c.run(&[
        "cosy", "run", "-n", "2", "--mpi", "pmi", image, "sh", "-c", ask,
    ]);
    assert_eq!(done.out.matches("cmd=response_to_init").count(), 2, "{done:?}");
    // Input, and a step of Cosy's own; a step in a job without a container has none.
    let mut cat = c.command(&[
        "cosy",
        "run",
        &image.replace("HOME", &c.home.display().to_string()),
        "cat",
    ]);
    assert_eq!(run::run_with(&mut cat, b"through\n").expect(0).out, "through\n");
    // What was said of a container elsewhere counts for nothing.
    let mut told = c.command(&["cosy", "run", "sh", "-c", "echo [$COSY_CONTAINER_IMAGE]"]);
    assert_eq!(
        run::run(told.env("COSY_CONTAINER_IMAGE", "x"))
            .expect(0)
            .out,
        "[]\n"
    );
    let script = c.script("#!/bin/sh\nsrun -n 1 sh -c 'ls /etc/where; true'\n");
    let done = c.run(&["sbatch", "--wait", "-Q", "-o", "out", &script]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(c.read("out").contains("/etc/where"), "outside there is none: {}", c.read("out"));
}

#[test]
fn what_runs_inside_is_ended() {
    let Some(c) = Containers::usual() else { return };
    let image = "--container-image=HOME/image.tar";
    let inside =
        "trap 'echo term >>ended; exit 3' TERM; echo up >started; while :; do sleep 0.1; done";
    let job = c.submit(&["csub", "--parsable", image, "--", "sh", "-c", inside]);
    wait::until_true("it runs", || c.read("started") == "up\n");
    c.run(&["scancel", &job.to_string()]).expect(0);
    assert_eq!(c.cluster.until_end(job).state, JobState::Cancelled);
    assert!(c.read("ended").starts_with("term\n"), "{}", c.read("ended"));
    c.cluster.until_no_job_processes();
    // One that takes no notice is killed.
    fs::remove_file(c.home.join("started")).unwrap();
    let inside = "trap '' TERM; echo up >started; while :; do sleep 0.1; done";
    let job = c.submit(&["csub", "--parsable", image, "--", "sh", "-c", inside]);
    wait::until_true("it runs", || c.read("started") == "up\n");
    c.cluster.cancel(job);
    assert_eq!(c.cluster.until_end(job).state, JobState::Cancelled);
    c.cluster.until_no_job_processes();
    // A signal comes through, and the job goes on.
    fs::remove_file(c.home.join("started")).unwrap();
    let inside = "trap 'exit 9' USR1; echo up >started; while :; do sleep 0.1; done";
    let job = c.submit(&["csub", "--parsable", image, "--", "sh", "-c", inside]);
    wait::until_true("it runs", || c.read("started") == "up\n");
    c.run(&["scancel", "-b", "-s", "USR1", &job.to_string()])
        .expect(0);
    assert_eq!(c.cluster.until_end(job).outcome(), (JobState::Failed, 9));
}

#[test]
fn what_cannot_work_says_why() {
    let Some(c) = Containers::usual() else { return };
    let check = |options: &[&str], want: &str| {
        let first = ["csub", "--wait", "-Q", "-o", "out"];
        let done = c.run(&[&first[..], options, &["--", "true"]].concat());
        let said = c.read("out");
        assert_eq!(done.code, 125, "{options:?} {done:?} {said}");
        assert!(said.contains(want), "{options:?}: {said}");
        assert!(said.lines().count() <= 4, "{options:?}: {said}");
    };
    check(&["--container-image=HOME/none.tar"], "none.tar: no such file on this node");
    check(&["--container-image=localhost:1#none"], "podman cannot get localhost:1#none");
    check(&["--container-name=none"], "there is no container 'none' here");
    check(&["--container=HOME/none"], "none: no OCI bundle on this node");
    let image = "--container-image=HOME/image.tar";
    check(
        &[image, "--container-mounts=/none:/x"],
        "container on n1: --container-mounts: '/none' is not there",
    );
}

#[test]
fn a_bundle() {
    let Some(c) = Containers::usual() else { return };
    let bundle = "--container=HOME/bundle";
    let shell = "cat /etc/where; id -u; pwd; exit 5";
    let done = c.run(&["srun", bundle, "sh", "-c", shell]);
    let want = format!("inside\n{ANN}\n{}\n", c.home.display());
    assert_eq!((done.code, done.out), (5, want), "{}", done.err);
    let script = c.script("#!/bin/sh\n#COSY --container HOME/bundle -o out\ncat /etc/where\n");
    c.run(&["csub", "--wait", "-Q", &script]).expect(0);
    assert_eq!(c.read("out"), "inside\n");
}

#[test]
fn the_tool_of_a_node() {
    let noded = |_| "plugins = [\"DIR/plugins\"]\ncontainer_tool = \"enroot\"\n".into();
    let Some(c) = Containers::start(noded) else {
        return;
    };
    let done = c.run(&[
        "csub",
        "--wait",
        "-Q",
        "-o",
        "out",
        "--container-image=x",
        "--",
        "true",
    ]);
    let said = c.read("out");
    assert_eq!(done.code, 125, "{said}");
    assert!(said.contains("the program 'enroot' is not installed here"), "{said}");
}
