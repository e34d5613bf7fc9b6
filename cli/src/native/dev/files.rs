//! The files of a private cluster: folders, links to the commands, keys, configuration.

use super::controllers::{self, ControllerPlan};
use super::database;
use super::plan::{DevOptions, NodePlan, Plan};
use anyhow::{Context as _, bail};
use cosy_proto::keys::{KeyPair, PublicKey};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use toml::{Table, Value};

/// The queue that has all nodes, unless the user gives queues.
const QUEUE: &str = "main";

/// Writes all that can be written before the controller runs; `names` are those that commands
/// are called by.
///
/// # Errors
/// A file cannot be written, or the configuration does not fit together.
pub fn write(plan: &Plan, options: &DevOptions, names: &[&str]) -> anyhow::Result<()> {
    let open = if rustix::process::geteuid().is_root() {
        0o711
    } else {
        0o700
    };
    for (name, mode) in [("bin", 0o755), ("run", 0o755), ("log", 0o700)] {
        folder(&plan.dir.join(name), mode)?;
    }
    for node in &plan.nodes {
        folder(&node.folder, open)?;
    }
    links(plan, names)?;
    if plan.has_several() {
        controllers::write_script(&plan.dir)?;
    }
    // Nodes know all controllers by one key.
    let key = KeyPair::generate()?;
    for controller in &plan.controllers {
        folder(&controller.state, 0o700)?;
        write_key(&controller.state.join("cosyd.key"), &key)?;
    }
    let mut keys = Vec::new();
    for node in &plan.nodes {
        let key = KeyPair::generate()?;
        write_key(&node.folder.join("key"), &key)?;
        keys.push(key.public());
    }
    if let Some(port) = options.web {
        write_web(&plan.dir, plan, port)?;
    }
    let text = configuration(plan, &keys, &options.config)?.to_string();
    fs::write(plan.dir.join("cosy.toml"), text).context("cannot write cosy.toml")
}

/// The configuration of the web page.
fn write_web(dir: &Path, plan: &Plan, port: u16) -> anyhow::Result<()> {
    let sockets = plan.controllers.iter().map(|c| text(c.socket.to_str()));
    let sockets = sockets.collect::<anyhow::Result<Vec<Value>>>()?;
    let keys = [
        ("listen", format!("127.0.0.1:{port}").into()),
        ("socket", text(dir.join("run/web.sock").to_str())?),
        ("state_dir", text(dir.join("web").to_str())?),
        ("controller", sockets.into()),
    ];
    let whole: Table = keys
        .map(|(key, value)| (key.to_owned(), value))
        .into_iter()
        .collect();
    fs::write(dir.join("web.toml"), whole.to_string()).context("cannot write web.toml")
}

fn folder(path: &Path, mode: u32) -> anyhow::Result<()> {
    fs::DirBuilder::new()
        .mode(0o700)
        .create(path)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .with_context(|| format!("cannot make '{}'", path.display()))
}

fn links(plan: &Plan, names: &[&str]) -> anyhow::Result<()> {
    let bin = plan.dir.join("bin");
    for name in names.iter().chain(&["cosy"]) {
        symlink(&plan.programs.cosy, bin.join(name))?;
    }
    symlink(&plan.programs.cosyd, bin.join("cosyd"))?;
    symlink(&plan.programs.noded, bin.join("noded"))?;
    if let Some(web) = &plan.programs.web {
        symlink(web, bin.join("cosy-web"))?;
    }
    Ok(())
}

fn write_key(path: &Path, pair: &KeyPair) -> anyhow::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot write '{}'", path.display()))?;
    Ok(file.write_all(pair.pkcs8())?)
}

/// The controllers' configuration, with the user's pieces laid over it.
fn configuration(plan: &Plan, keys: &[PublicKey], pieces: &Table) -> anyhow::Result<Table> {
    let mut whole = Table::new();
    let cluster = [("name", Value::from("dev"))];
    whole.insert("cluster".into(), table(cluster));
    let tables = plan.controllers.iter().map(controller);
    let mut tables = tables.collect::<anyhow::Result<Vec<Table>>>()?;
    let controllers = match plan.has_several() {
        true => {
            for (table, own) in tables.iter_mut().zip(&plan.controllers) {
                table.insert("name".into(), own.name.as_str().into());
                table.insert("address".into(), own.address().into());
            }
            Value::Array(tables.into_iter().map(Value::Table).collect())
        }
        false => Value::Table(tables.into_iter().flatten().collect()),
    };
    whole.insert("controller".into(), controllers);
    if plan.programs.postgres.is_some() {
        let place = [("postgres", database::connection(&plan.dir).into())];
        whole.insert("store".into(), table(place));
    }
    let policy = [
        ("heartbeat", "1s".into()),
        ("node_timeout", "10s".into()),
        ("grace", "2s".into()),
    ];
    whole.insert("policy".into(), table(policy));
    let mut nodes: Vec<Table> = plan.nodes.iter().zip(keys).map(node_entry).collect();
    lay_over_nodes(&mut nodes, pieces)?;
    whole.insert("node".into(), Value::Array(nodes.into_iter().map(Value::Table).collect()));
    let queue = [
        ("name", QUEUE.into()),
        ("default", true.into()),
        ("nodes", names(&plan.nodes).into()),
    ];
    whole.insert("queue".into(), Value::Array(vec![table(queue)]));
    for (key, value) in pieces.iter().filter(|(key, _)| *key != "node") {
        lay_over(&mut whole, key, value);
    }
    Ok(whole)
}

/// What a controller's section has, be it the only one or one of several.
fn controller(own: &ControllerPlan) -> anyhow::Result<Table> {
    let entries = [
        ("state_dir", text(own.state.to_str())?),
        ("socket", text(own.socket.to_str())?),
        ("listen", own.address().into()),
    ];
    Ok(entries
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v))
        .collect())
}

/// Sections are merged key by key, `[controller]` with the section of each controller; everything
/// else replaces what is there.
fn lay_over(whole: &mut Table, key: &str, value: &Value) {
    match (whole.get_mut(key), value) {
        (Some(Value::Table(there)), Value::Table(more)) => {
            there.extend(more.clone());
        }
        (Some(Value::Array(all)), Value::Table(more)) if key == "controller" => {
            for each in all.iter_mut().filter_map(Value::as_table_mut) {
                each.extend(more.clone());
            }
        }
        (Some(_) | None, _) => {
            whole.insert(key.to_owned(), value.clone());
        }
    }
}

/// `[[node]]` pieces add to the nodes that they name.
fn lay_over_nodes(nodes: &mut Vec<Table>, pieces: &Table) -> anyhow::Result<()> {
    let Some(given) = pieces.get("node") else {
        return Ok(());
    };
    let tables = given.as_array().map(|all| all.iter().map(Value::as_table));
    let tables: Option<Vec<&Table>> = tables.and_then(Iterator::collect);
    let Some(tables) = tables else {
        bail!("--config: node {given} is no list of nodes: each of them begins with [[node]]");
    };
    let own: Vec<&str> = nodes.iter().filter_map(names_of).collect();
    let own = own.join(",");
    let mut each = one_by_one(nodes)?;
    let places = each.iter().enumerate();
    let places: BTreeMap<String, usize> =
        places.map(|(at, (name, _))| (name.clone(), at)).collect();
    for (at, piece) in (1..).zip(tables) {
        let place = format!("--config: [[node]] number {at}");
        let needed = || format!("{place}: names are those of nodes of this cluster, {own}");
        let Some(names) = names_of(piece) else {
            bail!(needed());
        };
        for name in cosy_model::expand(names).with_context(needed)? {
            let node = places.get(&name).and_then(|at| each.get_mut(*at));
            let Some((_, node)) = node else {
                bail!("{place}: node '{name}' is not one of this cluster ({own})");
            };
            let more = piece.iter().filter(|(key, _)| *key != "names");
            node.extend(more.map(|(k, v)| (k.clone(), v.clone())));
        }
    }
    *nodes = each.into_iter().map(|(_, node)| node).collect();
    Ok(())
}

fn names_of(node: &Table) -> Option<&str> {
    node.get("names")?.as_str()
}

/// An entry for each node alone, also of those that one daemon stands for.
fn one_by_one(nodes: &[Table]) -> anyhow::Result<Vec<(String, Table)>> {
    let mut each = Vec::new();
    for entry in nodes {
        for name in cosy_model::expand(names_of(entry).unwrap_or_default())? {
            let mut own = entry.clone();
            own.insert("names".to_owned(), name.as_str().into());
            each.push((name, own));
        }
    }
    Ok(each)
}

fn node_entry((node, key): (&NodePlan, &PublicKey)) -> Table {
    let names = names(std::slice::from_ref(node));
    [
        ("names", Value::from(names)),
        ("key", key.to_string().into()),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_owned(), v))
    .collect()
}

/// All their names as a host list.
fn names(nodes: &[NodePlan]) -> String {
    let list: Vec<String> = nodes
        .iter()
        .map(|n| match n.virtuals {
            0 => n.name.clone(),
            count => format!("{}[1-{count}]", n.name),
        })
        .collect();
    list.join(",")
}

/// Writes a node daemon's configuration, once it is known where the controllers listen.
///
/// # Errors
/// The file cannot be written.
pub fn write_node(plan: &Plan, node: &NodePlan, addresses: &[String]) -> anyhow::Result<()> {
    let key = fs::read(plan.controllers[0].state.join("cosyd.key"))?;
    let key = KeyPair::from_pkcs8(&key)?.public();
    let path = |name: &str| text(node.folder.join(name).to_str());
    let ways = match addresses {
        [one] => ("controller", Value::from(one.as_str())),
        several => ("controllers", several.to_vec().into()),
    };
    let first = plan.nodes.first();
    let is_first = first.is_some_and(|first| first.name == node.name);
    let entries = [
        ("name", Value::from(node.name.as_str())),
        ways,
        ("controller_key", key.to_string().into()),
        ("key", path("key")?),
        ("spool_dir", path("spool")?),
        // Other nodes of this cluster are on this machine, too.
        ("listen", "127.0.0.1:0".into()),
        ("step_socket", path("steps.sock")?),
        ("cores", i64::from(plan.cores).into()),
        ("memory", format!("{}M", plan.memory_mib).into()),
        // GPUs of this machine are there once.
        ("gpu_detect", is_first.into()),
        // All nodes share this machine's cores: numbers of cores mean nothing.
        ("cgroup", "memory".into()),
        // A cluster of root's own is for root's jobs.
        ("allow_root", rustix::process::geteuid().is_root().into()),
    ];
    let whole: Table = entries
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v))
        .collect();
    fs::write(node.folder.join("noded.toml"), whole.to_string()).context("cannot write noded.toml")
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Table(
        entries
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v))
            .collect(),
    )
}

fn text(path: Option<&str>) -> anyhow::Result<Value> {
    let path = path.context("the directory's path must be UTF-8 text")?;
    Ok(Value::from(path))
}

#[cfg(test)]
mod tests {
    use super::super::plan::Programs;
    use super::*;

    fn plan() -> Plan {
        let node = |name: &str, virtuals| NodePlan {
            name: name.into(),
            folder: format!("/d/{name}").into(),
            virtuals,
        };
        Plan {
            dir: "/d".into(),
            keep: false,
            as_user: false,
            whole: true,
            controllers: vec![ControllerPlan::only(Path::new("/d"))],
            programs: Programs {
                cosy: "/p/cosy".into(),
                cosyd: "/p/cosyd".into(),
                noded: "/p/noded".into(),
                web: None,
                postgres: None,
            },
            nodes: vec![node("n1", 0), node("n2", 0), node("v", 9)],
            cores: 4,
            memory_mib: 100,
            group: 1,
            handed: [3, 4, 5],
        }
    }

    #[test]
    fn pieces_of_configuration() {
        let keys = [PublicKey([1; 32]), PublicKey([2; 32]), PublicKey([3; 32])];
        let check = |pieces: &str, want: &str| {
            let got = configuration(&plan(), &keys, &pieces.parse().unwrap());
            let got = got.map_or_else(|e| format!("{e:#}"), |t| t.to_string());
            assert!(got.contains(want), "{pieces}: {got}");
        };
        check("", "nodes = \"n1,n2,v[1-9]\"");
        check("", "socket = \"/d/run/cosyd.sock\"");
        check("[policy]\nbackfill = false\nheartbeat = \"3s\"", "heartbeat = \"3s\"");
        check("[policy]\nbackfill = false", "node_timeout = \"10s\"");
        check("[[queue]]\nname = \"day\"\nnodes = \"n1\"", "name = \"day\"");
        check("[[node]]\nnames = \"n[1-2]\"\nfeatures = [\"x\"]", "features = [\"x\"]");
        check(
            "[[node]]\nnames = \"n7\"",
            "--config: [[node]] number 1: node 'n7' is not one of this cluster (n1,n2,v[1-9])",
        );
        let where_and_what =
            "--config: [[node]] number 2: names are those of nodes of this cluster, n1,n2,v[1-9]";
        let second = |piece: &str| format!("[[node]]\nnames = \"n1\"\n[[node]]\n{piece}");
        check(&second("names = \"\""), where_and_what);
        check(&second("names = \"\""), "a name is empty");
        check(&second("names = \"n[1-\""), "'n[1-' is no host list");
        check(&second("name = \"n1\""), where_and_what);
        check(&second("names = 7"), where_and_what);
        check("[node]\nnames = \"n1\"", "each of them begins with [[node]]");
        check("[[node_set]]\nname = \"s\"\nnodes = \"n1\"", "node_set");
        let queues: Table = "[[queue]]\nname = \"day\"".parse().unwrap();
        let whole = configuration(&plan(), &keys, &queues).unwrap();
        assert_eq!(whole["queue"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn several_controllers() {
        let mut plan = plan();
        plan.controllers = ControllerPlan::several(Path::new("/d"), 3).unwrap();
        plan.programs.postgres = Some("/p/postgres".into());
        let keys = [PublicKey([1; 32]), PublicKey([2; 32]), PublicKey([3; 32])];
        let pieces = "[controller]\nlog = \"debug\"\n[store]\nlease = \"2s\"";
        let whole = configuration(&plan, &keys, &pieces.parse().unwrap()).unwrap();
        let controllers = whole["controller"].as_array().unwrap();
        assert_eq!(controllers.len(), 3);
        for (at, own) in controllers.iter().enumerate() {
            assert_eq!(own["name"].as_str(), Some(&*format!("c{}", at + 1)));
            assert_eq!(own["address"], own["listen"]);
            assert_eq!(own["log"].as_str(), Some("debug"));
        }
        assert!(
            whole["store"]["postgres"]
                .as_str()
                .unwrap()
                .contains("/d/postgres")
        );
        assert_eq!(whole["store"]["lease"].as_str(), Some("2s"));
        let sockets = "/d/run/cosyd.sock:/d/run/cosyd2.sock:/d/run/cosyd3.sock";
        assert_eq!(plan.sockets(), sockets);
    }
}
