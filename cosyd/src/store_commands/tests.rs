//! The commands as they are typed.

use super::*;
use crate::house::lock;
use crate::store::server_tests as server;
use crate::store::whole_tests::{archive, whole};
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

fn carry_out(text: &str) -> anyhow::Result<bool> {
    let line = line::read(text.split_whitespace().map(str::to_owned))?;
    run(&line.context("help was asked for")?)
}

/// Carries out a command line whose last word may have spaces.
fn with_last(text: &str, last: &str) -> anyhow::Result<bool> {
    let words = text.split_whitespace().map(str::to_owned);
    let line = line::read(words.chain([last.to_owned()]))?;
    run(&line.context("help was asked for")?)
}

fn config(folder: &Path, postgres: Option<&str>) -> PathBuf {
    let store = postgres.map_or(String::new(), |to| format!("[store]\npostgres = \"{to}\"\n"));
    let text = format!(
        "[controller]\nstate_dir = \"{0}\"\nsocket = \"{0}/sock\"\n{store}\
         [[node]]\nnames = \"n1\"\n[[queue]]\nname = \"day\"\n",
        folder.display()
    );
    let path = folder.join("cosy.toml");
    fs::write(&path, text).unwrap();
    path
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn names(dir: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(dir.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

#[test]
fn a_store_is_moved_to_a_server_and_back() {
    if !server::is_there() {
        return;
    }
    let (dir, other, back) = (whole(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let old = config(dir.path(), None);
    let connection = server::connection();
    let new = config(other.path(), Some(&connection));
    let copying = format!("copy --from {} --to {}", old.display(), new.display());
    // A controller works there.
    let held = lock(dir.path()).unwrap();
    let refused = carry_out(&copying).unwrap_err().to_string();
    assert!(refused.contains("another controller works in"), "{refused}");
    drop(held);
    assert!(carry_out(&copying).unwrap());
    assert!(carry_out(&copying).unwrap(), "again: nothing is done");
    assert!(carry_out(&format!("check {}", new.display())).unwrap());
    assert!(with_last("check", &format!("postgres:{connection}")).unwrap());
    let last = format!("sqlite:{}/deep/cosy.db", back.path().display());
    let returning = format!("copy --from {} --to", new.display());
    assert!(with_last(&returning, &last).unwrap());
    let path = back.path().join("deep/cosy.db");
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let same = |store: &str| format!("copy --from {store} --to {store}");
    let refused = carry_out(&same(&new.display().to_string())).unwrap_err();
    assert!(refused.to_string().contains("into itself"), "{refused}");
}

#[test]
fn a_backup_takes_the_place_of_a_store() {
    let (dir, kept) = (whole(), tempfile::tempdir().unwrap());
    let config = config(dir.path(), None);
    let database = dir.path().join("cosy.db");
    let mut store = Store::open(&database).unwrap();
    archive(&mut store, cosy_model::Time(i64::MAX));
    let file = kept.path().join("b1");
    let of = |verb: &str, more: &str| {
        let (file, config) = (file.display(), config.display());
        carry_out(&format!("{verb} {file} --config {config} {more}"))
    };
    // While a controller runs.
    let held = lock(dir.path()).unwrap();
    of("backup", "").unwrap();
    let refused = of("restore", "--replace").unwrap_err().to_string();
    assert!(refused.contains("another controller works in"), "{refused}");
    drop((held, store));
    assert_eq!(mode(&file), 0o600);
    assert_eq!(names(&kept), ["b1"]);
    let refused = of("backup", "").unwrap_err().to_string();
    assert!(refused.contains("--replace"), "{refused}");
    of("backup", "--replace").unwrap();
    let refused = of("restore", "").unwrap_err().to_string();
    assert!(refused.contains("is not empty") && refused.contains("--replace"), "{refused}");
    of("restore", "--replace").unwrap();
    assert_eq!(mode(&database), 0o600);
    let all = names(&dir);
    let dated = |start: &str| all.iter().filter(|name| name.starts_with(start)).count();
    assert_eq!((dated("cosy.db.2"), dated("archive.2")), (1, 1), "{all:?}");
    assert!(
        !all.iter()
            .any(|name| name.ends_with("-wal") || name == "archive"),
        "{all:?}"
    );
    assert!(carry_out(&format!("check {}", config.display())).unwrap());
    let (loaded, _) = Store::open(&database).unwrap().load().unwrap();
    assert!(loaded.restored.is_some());
    // Into a folder in which nothing is, and without a doubt.
    let empty = tempfile::tempdir().unwrap();
    let place = empty.path().join("cosy.db");
    let calm = format!("restore {} --nothing-since --config", file.display());
    with_last(&calm, &format!("sqlite:{}", place.display())).unwrap();
    assert!(carry_out(&format!("check sqlite:{}", place.display())).unwrap());
    assert_eq!(names(&empty), ["cosy.db", "lock"]);
}

/// A backup of an earlier release, as a copy of its database.
#[test]
fn a_backup_of_an_earlier_release_is_brought_up_to_date() {
    let fixture = "../tests/fixtures/state-0.1.0-schema-12/cosy.db";
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join(fixture);
    let (kept, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = kept.path().join("old.db");
    fs::copy(&fixture, &file).unwrap();
    let before = fs::read(&file).unwrap();
    let place = dir.path().join("cosy.db");
    carry_out(&format!("restore {} --config sqlite:{}", file.display(), place.display())).unwrap();
    assert_eq!(fs::read(&file).unwrap(), before);
    let left = names(&kept);
    assert!(!left.iter().any(|name| name.contains("migrating")), "{left:?}");
    let (loaded, bad) = Store::open(&place).unwrap().load().unwrap();
    assert_eq!((loaded.submissions.len(), bad), (45, Vec::new()));
}

#[test]
fn faults_are_a_failure() {
    let dir = whole();
    let database = dir.path().join("cosy.db");
    let check = format!("check sqlite:{}", database.display());
    assert!(carry_out(&check).unwrap());
    let c = rusqlite::Connection::open(&database).unwrap();
    c.execute("DELETE FROM end_days", []).unwrap();
    assert!(!carry_out(&check).unwrap());
    let nowhere = dir.path().join("nowhere.db");
    let refused = carry_out(&format!("check sqlite:{}", nowhere.display())).unwrap_err();
    assert!(refused.to_string().contains("there is no"), "{refused}");
    assert!(!nowhere.exists(), "nothing is made by looking");
}
