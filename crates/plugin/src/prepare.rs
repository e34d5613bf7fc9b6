//! What the plugins have to say about a job.

use crate::variables::Environment;
use crate::{JOB_DEADLINE, Plugin, Plugins, hosts, run_job};
use cosy_model::variables;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// What the plugins of a job have come to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Prepared {
    /// To be added to the environment of the job's program.
    pub variables: Environment,
    /// What went wrong, a line each: to be said in the job's output. The job goes on.
    pub complaints: Vec<String>,
}

/// True for a job that plugins have something to say about: with more than one task or
/// node, unless it chose to do without.
pub fn needs_plugins(environment: &Environment) -> bool {
    let several = |name: &str| {
        let number = environment.get(OsStr::new(name)).and_then(|v| v.to_str());
        number.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) > 1
    };
    (several(variables::TASKS) || several(variables::NODE_COUNT)) && !without(choice(environment))
}

/// Wire-ups can be chosen like plugins, but have no script.
fn without(choice: Option<&str>) -> bool {
    matches!(choice, Some("none" | "pmi" | "pmix"))
}

fn choice(environment: &Environment) -> Option<&str> {
    let value = environment.get(OsStr::new(variables::MPI))?.to_str()?;
    Some(value).filter(|v| !v.is_empty())
}

/// Runs the scripts of the chosen plugin, or of all in the order of their names. `files`
/// is an empty directory of the job's user; `command` is the `cosy` that their helpers
/// are to call.
pub fn prepare(
    plugins: &Plugins,
    environment: &Environment,
    files: &Path,
    command: Option<&Path>,
) -> Prepared {
    let mut prepared = Prepared::default();
    let given = match given(plugins, environment, files, command) {
        Ok(given) => given,
        Err(complaint) => {
            prepared.complaints.push(complaint);
            return prepared;
        }
    };
    let chosen = match choice(environment) {
        Some(name) => plugins.named(name).map(|p| vec![p]),
        None => Ok(plugins.usual()),
    };
    match chosen {
        Ok(chosen) => chosen
            .iter()
            .for_each(|plugin| run(plugin, environment, &given, files, &mut prepared)),
        Err(e) => prepared.complaints.push(e.to_string()),
    }
    prepared.variables.extend(given);
    prepared
}

/// Variables that all scripts, and then the job itself, are given.
fn given(
    plugins: &Plugins,
    environment: &Environment,
    files: &Path,
    command: Option<&Path>,
) -> Result<Environment, String> {
    let lines = hosts(environment).map_err(|e| format!("MPI plugins cannot be used: {e}"))?;
    let list = files.join("hosts");
    fs::write(&list, lines).map_err(|e| format!("cannot write {}: {e}", list.display()))?;
    let shell = plugins.remote_shell().unwrap_or_default();
    let mut given: Environment = [
        (variables::HOSTS_FILE, list.into_os_string()),
        (variables::REMOTE_SHELL, shell.into_os_string()),
        (variables::PLUGIN_PATH, plugins.path()),
    ]
    .map(|(n, v)| (OsString::from(n), v))
    .into();
    if let Some(command) = command {
        given.insert(variables::COMMAND.into(), command.into());
    }
    Ok(given)
}

fn run(
    plugin: &Plugin,
    environment: &Environment,
    given: &Environment,
    files: &Path,
    prepared: &mut Prepared,
) {
    let Some(script) = plugin.job() else {
        return;
    };
    let place = |path: PathBuf| path.into_os_string();
    let mut all = environment.clone();
    all.extend(given.clone());
    all.insert(variables::PLUGIN.into(), plugin.name.clone().into());
    all.insert(variables::PLUGIN_HOME.into(), place(plugin.directory.clone()));
    all.insert(variables::PLUGIN_FILES.into(), place(files.to_owned()));
    match run_job(&script, &all, files, JOB_DEADLINE) {
        Ok(variables) => prepared.variables.extend(variables),
        Err(e) => {
            let line = format!("MPI plugin {}: {} {e}", plugin.name, script.display());
            prepared.complaints.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn environment(more: &[(&str, &str)]) -> Environment {
        let usual = [
            ("PATH", "/usr/bin:/bin"),
            ("COSY_NODES", "n[1-2]"),
            ("COSY_NODE_COUNT", "2"),
            ("COSY_TASKS", "3"),
            ("COSY_TASKS_BY_NODE", "2,1"),
            ("COSY_CORES_PER_TASK", "1"),
        ];
        let all = usual.iter().chain(more);
        all.map(|(n, v)| (n.into(), v.into())).collect()
    }

    fn script(directory: &Path, name: &str, text: &str) {
        let home = directory.join(name);
        fs::create_dir_all(&home).unwrap();
        let stands_in = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/job");
        symlink(stands_in, home.join("job")).unwrap();
        fs::write(home.join("job.text"), text).unwrap();
    }

    fn prepared(more: &[(&str, &str)]) -> Prepared {
        let work = tempfile::tempdir().unwrap();
        let (home, files) = (work.path().join("plugins"), work.path().join("files"));
        fs::create_dir(&files).unwrap();
        script(&home, "a", "cat \"$COSY_HOSTS_FILE\" >&2; echo X=$COSY_PLUGIN Y=1");
        script(&home, "b", "echo X=$(tail -n 1 < hosts)");
        script(&home, "c", "echo Z=1; exit 7");
        prepare(&Plugins::new(vec![home]), &environment(more), &files, None)
    }

    fn value<'a>(prepared: &'a Prepared, name: &str) -> Option<&'a str> {
        prepared.variables.get(OsStr::new(name))?.to_str()
    }

    #[test]
    fn all_in_order_and_errors_end_nothing() {
        let all = prepared(&[]);
        assert_eq!(value(&all, "X"), Some("n2 1 1"));
        assert_eq!(value(&all, "Z"), None);
        assert!(value(&all, "COSY_HOSTS_FILE").is_some());
        assert_eq!(all.complaints.len(), 1);
        assert!(all.complaints[0].ends_with("job ended with exit code 7"));
    }

    #[test]
    fn only_the_chosen_one() {
        let one = prepared(&[("COSY_MPI", "a")]);
        assert_eq!(value(&one, "X"), Some("a Y=1"));
        assert!(one.complaints.is_empty());
        let none = prepared(&[("COSY_MPI", "lam")]);
        assert_eq!(none.complaints, ["there is no MPI plugin 'lam'; there are: a, b, c"]);
    }

    #[test]
    fn a_job_without_its_variables() {
        let bad = prepared(&[("COSY_TASKS_BY_NODE", "2")]);
        assert!(bad.variables.is_empty());
        assert!(bad.complaints[0].contains("COSY_TASKS_BY_NODE is '2'"));
    }

    #[test]
    fn who_wants_them() {
        let check = |more: &[(&str, &str)], expected| {
            assert_eq!(needs_plugins(&environment(more)), expected, "{more:?}");
        };
        check(&[], true);
        check(&[("COSY_TASKS", "1")], true);
        check(&[("COSY_TASKS", "1"), ("COSY_NODE_COUNT", "1")], false);
        check(&[("COSY_MPI", "none")], false);
        check(&[("COSY_MPI", "pmix")], false);
        check(&[("COSY_MPI", "openmpi")], true);
        assert!(!needs_plugins(&Environment::new()));
    }
}
