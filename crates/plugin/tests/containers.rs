//! The container plugins whose tools are not in Debian, against programs that stand in for them and
//! write down how they are called.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Writes its words between `<` and `>`, and the variables that begin with `$SHOW` behind them.
const STANDS_IN: &str = r#"#!/bin/sh
{ printf '%s' "${0##*/}"; for word; do printf ' <%s>' "$word"; done; echo; } >>"$CALLS"
[ -z "${SHOW-}" ] || env | grep "^$SHOW" | sort >>"$CALLS"
case "$1 $2" in
"import --output") : >"$3" ;;
"build --sandbox") mkdir "$3" ;;
"build /"*) : >"$2" ;;
esac
exit "${CODE-0}"
"#;

struct Stage {
    dir: TempDir,
    tool: &'static str,
}

impl Stage {
    fn new(tool: &'static str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["bin", "files", "home"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        let program = dir.path().join("bin").join(tool);
        fs::write(&program, STANDS_IN).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir, tool }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Calls the script; gives its exit code, and how it called its tool meanwhile, `DIR` standing for
    /// the folder.
    fn call(&self, words: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
        let calls = self.path("calls");
        let _ = fs::remove_file(&calls);
        let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/containers");
        let mut command = Command::new(plugins.join(self.tool).join("container"));
        command
            .args(words)
            .env_clear()
            .current_dir(self.path("home"));
        command.env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()));
        command.env("HOME", self.path("home")).env("CALLS", &calls);
        command.env("COSY_CONTAINER_FILES", self.path("files"));
        let whole = |value: &str| value.replace("DIR", &self.dir.path().display().to_string());
        command.envs(variables.iter().map(|(n, v)| (*n, whole(v))));
        let code = command.status().unwrap().code().unwrap();
        let said = fs::read_to_string(calls).unwrap_or_default();
        (code, said.replace(&self.dir.path().display().to_string(), "DIR"))
    }

    #[track_caller]
    fn check(&self, words: &[&str], variables: &[(&str, &str)], want: &[&str]) {
        let (code, said) = self.call(words, variables);
        assert_eq!((code, said.lines().collect::<Vec<_>>()), (0, want.to_vec()), "{words:?}");
    }
}

const IMAGE: (&str, &str) = ("COSY_CONTAINER_IMAGE", "quay.io#a/b:1");
/// What would be an option, or two words, if a script did not take care.
const WORDS: [&str; 5] = ["run", "--", "prog", "--fakeroot", "a b\n*"];

#[test]
fn apptainer() {
    let stage = Stage::new("apptainer");
    stage.check(
        &["fetch"],
        &[IMAGE],
        &["apptainer <build> <DIR/files/image.sif> <docker://quay.io/a/b:1>"],
    );
    stage.check(&["fetch"], &[IMAGE], &[]);
    stage.check(
        &WORDS,
        &[IMAGE],
        &[
            "apptainer <exec> <--no-home> <DIR/files/image.sif> <prog> <--fakeroot> <a b",
            "*>",
        ],
    );
    let all = [
        IMAGE,
        ("COSY_CONTAINER_MOUNTS", "/tmp:/tmp:\n/a b:/in:ro+nosuid"),
        ("COSY_CONTAINER_WORKDIR", "/in"),
        ("COSY_CONTAINER_REMAP_ROOT", "1"),
        ("COSY_CONTAINER_MOUNT_HOME", "1"),
        ("COSY_CONTAINER_ENTRYPOINT", "1"),
        ("COSY_CONTAINER_ENV", "A,B"),
        ("CUDA_VISIBLE_DEVICES", "0"),
        ("A", "1 2"),
        ("SHOW", "APPTAINERENV"),
    ];
    let want = "apptainer <run> <--nv> <--fakeroot> <--pwd> </in> <--bind> </tmp:/tmp> <--bind> \
                </a b:/in:ro> <DIR/files/image.sif> <prog>";
    stage.check(&["run", "--", "prog"], &all, &[want, "APPTAINERENV_A=1 2", "APPTAINERENV_B="]);
    let writable = [IMAGE, ("COSY_CONTAINER_WRITABLE", "1")];
    let want = "apptainer <build> <--sandbox> <DIR/files/sandbox> <docker://quay.io/a/b:1>";
    stage.check(&["fetch"], &writable, &[want]);
    let want = "apptainer <exec> <--no-home> <--writable> <DIR/files/sandbox> <prog>";
    stage.check(&["run", "--", "prog"], &writable, &[want]);
    let named = [IMAGE, ("COSY_CONTAINER_NAME", "x")];
    let place = "DIR/home/.local/share/cosy/containers/x.sandbox";
    let want = format!("apptainer <build> <--sandbox> <{place}> <docker://quay.io/a/b:1>");
    stage.check(&["fetch"], &named, &[&want]);
    let want = format!("apptainer <exec> <--no-home> <{place}> <prog>");
    stage.check(&["run", "--", "prog"], &[("COSY_CONTAINER_NAME", "x")], &[&want]);
}

#[test]
fn apptainer_says_what_it_cannot() {
    let stage = Stage::new("apptainer");
    let refuses = |words: &[&str], variables: &[(&str, &str)]| {
        assert_eq!(stage.call(words, variables), (125, String::new()), "{words:?} {variables:?}");
    };
    refuses(&["fetch"], &[("COSY_CONTAINER_NAME", "none")]);
    refuses(&["fetch"], &[("COSY_CONTAINER_IMAGE", "/none.sif")]);
    refuses(&["fetch"], &[("COSY_CONTAINER_IMAGE", "me@host#x")]);
    refuses(&["run", "--", "x"], &[IMAGE, ("COSY_CONTAINER_SAVE", "f")]);
    refuses(&["other"], &[IMAGE]);
    let (code, _) = stage.call(&["fetch"], &[IMAGE, ("CODE", "3")]);
    assert_eq!(code, 3);
    let (code, _) = stage.call(&["run", "--", "x"], &[IMAGE, ("CODE", "42")]);
    assert_eq!(code, 42);
}

#[test]
fn enroot() {
    let stage = Stage::new("enroot");
    stage.check(
        &["fetch"],
        &[IMAGE],
        &[
            "enroot <list>",
            "enroot <import> <--output> <DIR/files/image.sqsh> <docker://quay.io#a/b:1>",
            "enroot <create> <--name> <container> <DIR/files/image.sqsh>",
        ],
    );
    let (code, said) = stage.call(&WORDS, &[IMAGE, ("SHOW", "ENROOT_")]);
    assert_eq!(code, 0);
    let (before, rest) = said.split_once(" <--rc>").unwrap();
    assert!(before.starts_with("enroot <start>") && before.contains(" <--env> <HOME>"), "{said}");
    assert!(!before.contains("<PATH>") && !before.contains("--root"), "{said}");
    let want = " <DIR/files/rc> <container> <prog> <--fakeroot> <a b\n*>\n\
                ENROOT_DATA_PATH=DIR/files/data\nENROOT_MOUNT_HOME=n\n";
    assert_eq!(rest, want);
    let all = [
        IMAGE,
        ("COSY_CONTAINER_MOUNTS", "/tmp:/tmp:\n/a b:/in:ro+nosuid"),
        ("COSY_CONTAINER_REMAP_ROOT", "1"),
        ("COSY_CONTAINER_WRITABLE", "1"),
        ("COSY_CONTAINER_ENTRYPOINT", "1"),
        ("COSY_CONTAINER_ENV", "A,PATH"),
        ("CUDA_VISIBLE_DEVICES", "1"),
        ("SHOW", "NVIDIA"),
    ];
    let (code, said) = stage.call(&["run", "--", "prog"], &all);
    assert_eq!(code, 0);
    assert!(said.starts_with("enroot <start> <--root> <--rw> <--env>"), "{said}");
    assert!(said.contains(" <--env> <PATH>"), "{said}");
    let want = " <--mount> </tmp:/tmp:x-create=auto,rbind> <--mount> \
                </a b:/in:ro,nosuid,x-create=auto,rbind> <container> <prog>\nNVIDIA_VISIBLE_DEVICES=1\n";
    assert!(said.ends_with(want), "{said}");
}

#[test]
fn enroot_keeps_and_writes_containers() {
    let stage = Stage::new("enroot");
    fs::write(stage.path("image.sqsh"), "").unwrap();
    let named = [
        ("COSY_CONTAINER_NAME", "x"),
        ("COSY_CONTAINER_IMAGE", "DIR/image.sqsh"),
    ];
    stage.check(
        &["fetch"],
        &named,
        &[
            "enroot <list>",
            "enroot <create> <--name> <x> <DIR/image.sqsh>",
        ],
    );
    let save = [
        named[0],
        ("COSY_CONTAINER_SAVE", "/s.sqsh"),
        ("COSY_TASK_RANK", "0"),
    ];
    let (code, said) = stage.call(&["run", "--", "prog"], &save);
    assert_eq!(code, 0);
    let last = said.lines().last().unwrap();
    assert_eq!(last, "enroot <export> <--force> <--output> </s.sqsh> <x>");
    let other = [save[0], save[1], ("COSY_TASK_RANK", "1")];
    let (_, said) = stage.call(&["run", "--", "prog"], &other);
    assert_eq!(said.lines().count(), 1, "only the first task writes it: {said}");
    for image in ["/none.sqsh", "/none.tar"] {
        let (code, _) = stage.call(&["fetch"], &[("COSY_CONTAINER_IMAGE", image)]);
        assert_eq!(code, 125, "{image}");
    }
}
