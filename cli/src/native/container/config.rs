//! The configuration of an OCI runtime for a program that runs beside the others of its node: one user of
//! its own and what it mounts are all that is apart; network, processes and devices are those of the job.
//!
//! Pure. Source: OCI Runtime Specification 1.0, `config.md`, `config-linux.md`.

use cosy_model::ContainerMount;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What an image says of its programs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Image {
    /// Variables, `NAME=value`.
    pub environment: Vec<String>,
    /// Words before the program's.
    pub entrypoint: Vec<String>,
    /// Working directory.
    pub workdir: Option<String>,
}

impl Image {
    /// Reads the configuration of an image (`Env`, `Entrypoint`, `WorkingDir`).
    pub fn read(config: &Value) -> Self {
        let texts = |name: &str| -> Vec<String> {
            let list = config.get(name).and_then(Value::as_array);
            let list = list.into_iter().flatten().filter_map(Value::as_str);
            list.map(str::to_owned).collect()
        };
        let workdir = config.get("WorkingDir").and_then(Value::as_str);
        Self {
            environment: texts("Env"),
            entrypoint: texts("Entrypoint"),
            workdir: workdir.filter(|d| d.starts_with('/')).map(str::to_owned),
        }
    }
}

/// Who the program is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The job's user.
    pub uid: u32,
    /// The job's group.
    pub gid: u32,
    /// Both are root's inside.
    pub root: bool,
}

/// What a program's container is to be like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// What the image says.
    pub image: Image,
    /// The job's variables.
    pub environment: BTreeMap<String, String>,
    /// Names of variables of the job that go over the image's.
    pub own_variables: Vec<String>,
    /// Working directory.
    pub workdir: Option<String>,
    /// Lines as in `COSY_CONTAINER_MOUNTS`.
    pub mounts: Vec<String>,
    /// The image's entry point starts the program.
    pub entrypoint: bool,
    /// The root file system can be written to.
    pub writable: bool,
    /// Who it is.
    pub identity: Identity,
    /// Files of the node that are seen inside, where they are there.
    pub present: Vec<String>,
}

/// Where programs are looked for unless the image says it.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// File systems of the kernel and folders of devices: those of the node are seen instead.
const OF_THE_KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];
/// What root inside may do to what belongs to its user.
const CAPABILITIES: [&str; 10] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
];

/// The configuration with what is wanted.
///
/// # Errors
/// In one line, what is no configuration.
pub fn changed(mut config: Value, wanted: &Wanted) -> Result<Value, String> {
    let variables = environment(&config, wanted);
    let mounts = mounts(&config, wanted)?;
    let identity = wanted.identity;
    let (uid, gid) = match identity.root {
        true => (0, 0),
        false => (identity.uid, identity.gid),
    };
    let whole = config.as_object_mut().ok_or("no configuration")?;
    whole.insert("mounts".into(), Value::Array(mounts));
    let root = object(whole, "root")?;
    if wanted.writable {
        root.insert("readonly".into(), json!(false));
    }
    let mut argv = wanted.argv.clone();
    if wanted.entrypoint {
        argv.splice(..0, wanted.image.entrypoint.iter().cloned());
    }
    let process = object(whole, "process")?;
    process.remove("consoleSize");
    let before = process
        .get("cwd")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let workdir = wanted.workdir.clone().or(wanted.image.workdir.clone());
    let workdir = workdir.or(before).unwrap_or_else(|| "/".to_owned());
    process.insert("terminal".into(), json!(false));
    process.insert("noNewPrivileges".into(), json!(true));
    process.insert("user".into(), json!({"uid": uid, "gid": gid}));
    process.insert("args".into(), json!(argv));
    process.insert("env".into(), json!(variables));
    process.insert("cwd".into(), json!(workdir));
    if identity.root {
        let all = json!(CAPABILITIES);
        let sets = json!({"bounding": all, "effective": all, "permitted": all});
        process.insert("capabilities".into(), sets);
    } else {
        process.remove("capabilities");
    }
    let map =
        |inside: u32, outside: u32| json!([{"containerID": inside, "hostID": outside, "size": 1}]);
    let linux = object(whole, "linux")?;
    for name in [
        "resources",
        "cgroupsPath",
        "devices",
        "maskedPaths",
        "readonlyPaths",
    ] {
        linux.remove(name);
    }
    linux.insert("namespaces".into(), json!([{"type": "user"}, {"type": "mount"}]));
    linux.insert("uidMappings".into(), map(uid, identity.uid));
    linux.insert("gidMappings".into(), map(gid, identity.gid));
    whole.remove("hostname");
    Ok(config)
}

fn object<'a>(
    whole: &'a mut Map<String, Value>,
    name: &str,
) -> Result<&'a mut Map<String, Value>, String> {
    let entry = whole.entry(name).or_insert_with(|| json!({}));
    entry
        .as_object_mut()
        .ok_or_else(|| format!("'{name}' is no object"))
}

/// The job's variables, over them those of the image or bundle, but for those that were named.
fn environment(config: &Value, wanted: &Wanted) -> Vec<String> {
    let mut all = wanted.environment.clone();
    let keeps = |name: &str| wanted.own_variables.iter().any(|own| own == name);
    if !keeps("PATH") {
        all.insert("PATH".to_owned(), PATH.to_owned());
    }
    let of_bundle = config.pointer("/process/env").and_then(Value::as_array);
    let of_bundle = of_bundle.into_iter().flatten().filter_map(Value::as_str);
    let of_image = wanted.image.environment.iter().map(String::as_str);
    for (name, value) in of_bundle.chain(of_image).filter_map(|v| v.split_once('=')) {
        if !keeps(name) {
            all.insert(name.to_owned(), value.to_owned());
        }
    }
    all.into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

/// Those of the kernel, of a bundle, and what was asked for, in this order.
fn mounts(config: &Value, wanted: &Wanted) -> Result<Vec<Value>, String> {
    let bind = |source: &str, target: &str, options: &[&str]| json!({"type": "bind", "source": source, "destination": target, "options": options});
    let mut all: Vec<Value> = OF_THE_KERNEL
        .iter()
        .map(|path| bind(path, path, &["rbind", "rslave"]))
        .collect();
    let of_kernel = |target: &str| {
        OF_THE_KERNEL.iter().any(|path| {
            target
                .strip_prefix(path)
                .is_some_and(|r| r.is_empty() || r.starts_with('/'))
        })
    };
    let of_bundle = config.get("mounts").and_then(Value::as_array);
    let of_bundle = of_bundle.into_iter().flatten().filter(|mount| {
        let target = mount.get("destination").and_then(Value::as_str);
        target.is_some_and(|target| !of_kernel(target))
    });
    all.extend(of_bundle.cloned());
    all.extend(
        wanted
            .present
            .iter()
            .map(|file| bind(file, file, &["bind", "ro"])),
    );
    for line in &wanted.mounts {
        let mount = ContainerMount::read(line)?;
        let flags = mount.flags.iter().map(String::as_str);
        let given: Vec<&str> = flags
            .filter(|f| !matches!(*f, "x-create=auto" | "bind"))
            .collect();
        let plain = mount.flags.iter().any(|f| f == "bind");
        let mut options = vec![if plain { "bind" } else { "rbind" }];
        options.extend(given.iter().filter(|f| **f != "rbind"));
        all.push(bind(&mount.source, &mount.target, &options));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Wanted {
        Wanted {
            argv: vec!["prog".into(), "a b".into()],
            image: Image::default(),
            environment: [("A", "1"), ("B", "1"), ("PATH", "/mine")]
                .map(|(n, v)| (n.to_owned(), v.to_owned()))
                .into(),
            own_variables: vec!["B".into()],
            workdir: None,
            mounts: vec!["/data:/in:ro+x-create=auto".into()],
            entrypoint: false,
            writable: false,
            identity: Identity {
                uid: 7,
                gid: 8,
                root: false,
            },
            present: Vec::new(),
        }
    }

    #[test]
    fn an_image() {
        let mut wanted = wanted();
        wanted.image = Image::read(&json!({
            "Env": ["A=2", "B=2", "PATH=/image", 7],
            "Entrypoint": ["/entry"],
            "WorkingDir": "/start",
        }));
        let root = json!({"root": {"path": "/r", "readonly": true}});
        let config = changed(root.clone(), &wanted).unwrap();
        assert_eq!(config["process"]["args"], json!(["prog", "a b"]));
        assert_eq!(config["process"]["env"], json!(["A=2", "B=1", "PATH=/image"]));
        assert_eq!(config["process"]["cwd"], "/start");
        assert_eq!(config["root"], json!({"path": "/r", "readonly": true}));
        assert_eq!(config["linux"]["uidMappings"][0]["containerID"], 7);
        let last = config["mounts"].as_array().unwrap().last().unwrap();
        let options = json!(["rbind", "ro"]);
        assert_eq!(
            *last,
            json!({"type": "bind", "source": "/data", "destination": "/in", "options": options})
        );
        (wanted.entrypoint, wanted.writable, wanted.identity.root) = (true, true, true);
        let config = changed(root, &wanted).unwrap();
        assert_eq!(config["process"]["args"], json!(["/entry", "prog", "a b"]));
        assert_eq!(config["root"]["readonly"], false);
        assert_eq!(config["process"]["user"], json!({"uid": 0, "gid": 0}));
        assert_eq!(config["linux"]["gidMappings"][0]["hostID"], 8);
    }

    #[test]
    fn a_bundle() {
        let bundle = json!({
            "process": {
                "terminal": true, "args": ["sh"], "env": ["A=3", "TERM=x"], "cwd": "/home",
                "capabilities": {"bounding": ["CAP_SYS_ADMIN"]},
            },
            "root": {"path": "/r", "readonly": true},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev/pts", "type": "devpts", "source": "devpts"},
                {"destination": "/opt/x", "type": "bind", "source": "/x", "options": ["rbind"]},
            ],
            "linux": {
                "namespaces": [{"type": "pid"}, {"type": "network"}],
                "resources": {"pids": {"limit": 1}}, "cgroupsPath": "/user/x",
            },
        });
        let config = changed(bundle, &wanted()).unwrap();
        assert_eq!(
            config["process"]["env"],
            json!(["A=3", "B=1", format!("PATH={PATH}"), "TERM=x"])
        );
        assert_eq!(
            (&config["process"]["cwd"], &config["process"]["terminal"]),
            (&json!("/home"), &json!(false))
        );
        assert_eq!(config["process"].get("capabilities"), None);
        let targets: Vec<&str> = config["mounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["destination"].as_str().unwrap())
            .collect();
        assert_eq!(targets, ["/proc", "/sys", "/dev", "/opt/x", "/in"]);
        assert_eq!(config["linux"]["namespaces"], json!([{"type": "user"}, {"type": "mount"}]));
        assert_eq!(config["linux"].get("cgroupsPath"), None);
    }

    #[test]
    fn what_is_none() {
        for config in [
            json!([]),
            json!({"process": 1}),
            json!({"linux": []}),
            json!({"root": "x"}),
        ] {
            assert!(changed(config.clone(), &wanted()).is_err(), "{config}");
        }
        let mut wanted = wanted();
        wanted.mounts.push("relative:/x:".into());
        assert!(changed(json!({}), &wanted).is_err());
    }
}
