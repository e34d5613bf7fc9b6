//! PostgreSQL servers in directories of their own, without root and without a port: reached through
//! a socket in the directory, which nobody else may enter.
//!
//! For `cosy dev --postgres` and for tests. A server ends with its [`Server`], and with the process
//! that started it. Started by root it runs as `nobody`, since PostgreSQL refuses root.

use anyhow::{Context, bail};
use nix::unistd::{Gid, Uid, User, chown, getegid, geteuid};
use std::fs::{self, DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The socket's number where there is no port.
const PORT: u16 = 5432;
/// A server that is not there after so long has failed.
const START: Duration = Duration::from_secs(60);
/// Between two looks whether it is there.
const LOOK: Duration = Duration::from_millis(20);
/// Name of the user and of the database.
const NAME: &str = "cosy";

/// Where the server's programs are: in `PATH`, or the latest in Debian's folders.
pub fn programs() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    let mut releases: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let release = entry.file_name().to_str()?.parse().ok()?;
            Some((release, entry.path().join("bin")))
        })
        .collect();
    releases.sort_unstable();
    folders.extend(releases.into_iter().rev().map(|(_, folder)| folder));
    let whole = |folder: &PathBuf| {
        let programs = ["postgres", "initdb", "pg_basebackup"];
        programs.iter().all(|name| folder.join(name).exists())
    };
    folders.into_iter().find(whole)
}

/// How a server is made.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Lines of `postgresql.conf`.
    pub settings: Vec<String>,
    /// Nothing is written through to the disk: for tests that do not ask about that.
    pub careless: bool,
    /// Ends with the thread that started it.
    pub ends_with_thread: bool,
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    directory: PathBuf,
    options: Options,
    process: Child,
}

impl Server {
    /// Starts the server of a directory; makes it where there is none.
    ///
    /// # Errors
    /// PostgreSQL is not installed, or does not start: with what it says.
    pub fn start(directory: &Path, options: Options) -> anyhow::Result<Self> {
        if !directory.join("data/PG_VERSION").exists() {
            make(directory, &options)?;
        }
        Self::begin(directory, options)
    }

    /// A second server that follows this one by streaming, in a directory that is not there yet.
    ///
    /// # Errors
    /// The copy cannot be made, or does not start.
    pub fn follower(&self, directory: &Path, options: Options) -> anyhow::Result<Self> {
        own_directory(directory)?;
        let data = directory.join("data");
        let mut copy = program("pg_basebackup")?;
        copy.arg("--pgdata").arg(&data);
        copy.args([
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--wal-method=stream",
        ]);
        copy.arg("--no-sync").arg("--host").arg(&self.directory);
        copy.args(["--port", &PORT.to_string(), "--username", NAME]);
        run(copy)?;
        // Whose copy it is, by the name that the first one may wait for.
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let follows = format!(
            "primary_conninfo = 'host={} port={PORT} user={NAME} application_name={name}'\n",
            self.directory.display()
        );
        append(&data.join("postgresql.auto.conf"), &follows)?;
        settings(directory, &options)?;
        Self::begin(directory, options)
    }

    /// Starts the server whose files are there, and waits until it answers.
    fn begin(directory: &Path, options: Options) -> anyhow::Result<Self> {
        let process = spawn(directory, &options)?;
        let mut server = Self {
            directory: directory.to_owned(),
            options,
            process,
        };
        server.wait_until_there()?;
        Ok(server)
    }

    /// How it is reached, in libpq's words.
    pub fn connection(&self) -> String {
        connection(&self.directory)
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// The number of its process, which is from now on the caller's to end and to collect.
    pub fn into_process(self) -> u32 {
        let server = std::mem::ManuallyDrop::new(self);
        server.process.id()
    }

    /// Carries statements out, and gives what they print, without frames.
    ///
    /// # Errors
    /// What the server says.
    pub fn sql(&self, text: &str) -> anyhow::Result<String> {
        let mut psql = program("psql")?;
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
        psql.args(["-v", "ON_ERROR_STOP=1", "--dbname", &self.connection()]);
        psql.arg("--command").arg(text);
        Ok(run(psql)?.trim().to_owned())
    }

    /// Makes an empty database; how it is reached.
    ///
    /// # Errors
    /// What the server says.
    pub fn database(&self, name: &str) -> anyhow::Result<String> {
        self.sql(&format!("CREATE DATABASE {name}"))?;
        Ok(self
            .connection()
            .replace("dbname=cosy", &format!("dbname={name}")))
    }

    /// A follower takes over.
    ///
    /// # Errors
    /// What the server says.
    pub fn promote(&self) -> anyhow::Result<()> {
        self.sql("SELECT pg_promote(true, 60)").map(drop)
    }

    /// Ends it as a failing machine does.
    pub fn kill(&mut self) {
        let segment = segment(&self.directory);
        // Its other processes end as soon as they see that.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(id) = segment {
            // It would stay until the machine's end. Marked, it goes with the last of them.
            let _ = Command::new("ipcrm")
                .args(["-m", &id])
                .stderr(Stdio::null())
                .status();
        }
    }

    /// Starts it again after it was killed.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.process = spawn(&self.directory, &self.options)?;
        self.wait_until_there()
    }

    fn wait_until_there(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            if self.sql("SELECT 1").is_ok() {
                return Ok(());
            }
            let ended = self.process.try_wait()?;
            if ended.is_some() || begun.elapsed() > START {
                let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                bail!("PostgreSQL in {} did not start:\n{log}", self.directory.display());
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // At once, and orderly.
        let process = nix::unistd::Pid::from_raw(i32::try_from(self.process.id()).unwrap_or(0));
        let _ = nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGINT);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        self.kill();
    }
}

/// The number of the server's segment of shared memory, as it has written it down.
fn segment(directory: &Path) -> Option<String> {
    let text = fs::read_to_string(directory.join("data/postmaster.pid")).ok()?;
    let id = text.lines().nth(6)?.split_whitespace().nth(1)?;
    id.bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| id.to_owned())
}

/// How the server in a directory is reached, in libpq's words.
pub fn connection(directory: &Path) -> String {
    format!("host={} port={PORT} user={NAME} dbname={NAME}", directory.display())
}

fn make(directory: &Path, options: &Options) -> anyhow::Result<()> {
    own_directory(directory)?;
    let mut initdb = program("initdb")?;
    initdb.arg("--pgdata").arg(directory.join("data"));
    initdb.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
    initdb.args(["--username", NAME]);
    run(initdb)?;
    settings(directory, options)?;
    let hba = "local all all trust\nlocal replication all trust\n";
    fs::write(directory.join("data/pg_hba.conf"), hba)?;
    // The database, before anybody can come.
    let mut single = program("postgres")?;
    single.arg("--single").arg("-D").arg(directory.join("data"));
    single.arg("postgres");
    single
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = single.spawn().context("postgres")?;
    if let Some(mut input) = child.stdin.take() {
        writeln!(input, "CREATE DATABASE {NAME};")?;
    }
    let end = child.wait()?;
    if !end.success() {
        bail!("no database could be made in {}", directory.display());
    }
    Ok(())
}

fn settings(directory: &Path, options: &Options) -> anyhow::Result<()> {
    let mut text = format!(
        "listen_addresses = ''\nport = {PORT}\nunix_socket_directories = '{}'\n\
         max_connections = 60\nshared_buffers = '32MB'\nlogging_collector = off\n\
         dynamic_shared_memory_type = mmap\n\
         wal_level = replica\nmax_wal_senders = 5\nhot_standby = on\n",
        directory.display()
    );
    if options.careless {
        text.push_str("fsync = off\nfull_page_writes = off\n");
    }
    for line in &options.settings {
        text.push_str(line);
        text.push('\n');
    }
    append(&directory.join("data/postgresql.conf"), &text)
}

fn append(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = File::options().append(true).create(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| path.display().to_string())
}

/// The user as whom servers run.
fn owner() -> anyhow::Result<(Uid, Gid)> {
    if !geteuid().is_root() {
        return Ok((geteuid(), getegid()));
    }
    let nobody = User::from_name("nobody")?.context("there is no user nobody")?;
    Ok((nobody.uid, nobody.gid))
}

fn own_directory(directory: &Path) -> anyhow::Result<()> {
    if directory.as_os_str().len() > 80 {
        bail!("{} is too long a path for a socket", directory.display());
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(directory)
        .with_context(|| directory.display().to_string())?;
    let (uid, gid) = owner()?;
    chown(directory, Some(uid), Some(gid))?;
    Ok(())
}

fn program(name: &str) -> anyhow::Result<Command> {
    let folder = programs().context("PostgreSQL's server is not installed (Debian: postgresql)")?;
    let mut command = Command::new(folder.join(name));
    let (uid, gid) = owner()?;
    if geteuid().is_root() {
        command.uid(uid.as_raw()).gid(gid.as_raw());
    }
    command.current_dir("/").stdin(Stdio::null());
    Ok(command)
}

fn run(mut command: Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().with_context(|| name.clone())?;
    if !done.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

fn spawn(directory: &Path, options: &Options) -> anyhow::Result<Child> {
    let mut postgres = program("postgres")?;
    postgres.arg("-D").arg(directory.join("data"));
    // What a server that was killed has left.
    let _ = fs::remove_file(directory.join("data/postmaster.pid"));
    let log = File::create(directory.join("log"))?;
    postgres
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    let ends_with_thread = options.ends_with_thread;
    // SAFETY: prctl and geteuid are all that is called between fork and exec.
    unsafe {
        postgres.pre_exec(move || {
            if ends_with_thread {
                nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGINT)?;
            }
            Ok(())
        });
    }
    postgres.spawn().context("postgres")
}

/// A directory for a server, which goes with it.
///
/// # Errors
/// None can be made.
pub fn own_temporary() -> anyhow::Result<tempfile::TempDir> {
    let directory = tempfile::Builder::new()
        .prefix("cosy-pg-")
        .tempdir_in("/tmp")?;
    let (uid, gid) = owner()?;
    chown(directory.path(), Some(uid), Some(gid))?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_and_its_follower() {
        if programs().is_none() {
            return; // said by those tests that need it
        }
        let folder = own_temporary().unwrap();
        let options = Options {
            careless: true,
            ends_with_thread: true,
            ..Options::default()
        };
        let mut first = Server::start(&folder.path().join("a"), options.clone()).unwrap();
        first.sql("CREATE TABLE t (n BIGINT)").unwrap();
        let second = first.follower(&folder.path().join("b"), options).unwrap();
        first.sql("INSERT INTO t VALUES (7)").unwrap();
        let begun = Instant::now();
        while second.sql("SELECT n FROM t").unwrap_or_default() != "7" {
            assert!(begun.elapsed() < START);
            std::thread::sleep(LOOK);
        }
        assert!(second.sql("INSERT INTO t VALUES (8)").is_err());
        first.kill();
        assert!(first.sql("SELECT 1").is_err());
        second.promote().unwrap();
        second.sql("INSERT INTO t VALUES (8)").unwrap();
        first.start_again().unwrap();
        assert_eq!(first.sql("SELECT n FROM t").unwrap(), "7");
    }
}
