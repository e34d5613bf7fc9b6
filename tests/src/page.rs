//! The web page of a cluster, and questions to it as HTTP has them.

use crate::cluster::Cluster;
use crate::daemon::Daemon;
use crate::people::as_user;
use crate::run::{self, Output};
use crate::{programs, wait};
use serde_json::Value as Json;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Users that every Debian host has: what the page knows of names the host's directory says.
pub const DAEMON: u32 = 1;
/// Another one.
pub const GAMES: u32 = 5;
/// The one that the page runs as.
pub const WWW: u32 = 33;

/// A running `cosy-web`.
#[derive(Debug)]
pub struct Page {
    /// The program.
    pub daemon: Daemon,
    folder: PathBuf,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its head, in small letters.
    pub head: String,
    /// What follows.
    pub body: String,
}

impl Answer {
    /// The document in its body.
    ///
    /// # Panics
    /// There is none.
    #[track_caller]
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The same with the status that is expected.
    ///
    /// # Panics
    /// It has another one.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Json {
        assert_eq!(self.status, status, "{self:?}");
        self.json()
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Name and value of the cookie that it sets.
    ///
    /// # Panics
    /// It sets none.
    #[track_caller]
    pub fn cookie(&self) -> String {
        let line = self.header("set-cookie").expect("a cookie");
        line.split(';')
            .next()
            .expect("a name and a value")
            .to_owned()
    }
}

/// Words before a program that root starts, by which root's home is `folder` for it and what it starts: a
/// login shell reads files of its user's home, and what those do is none of a test's business. Nothing for
/// other users.
///
/// # Panics
/// The folder cannot be written.
pub fn at_home_in(folder: &Path) -> Vec<OsString> {
    if !nix::unistd::getuid().is_root() {
        return Vec::new();
    }
    let users = fs::read_to_string("/etc/passwd").expect("users");
    let own = format!("root:x:0:0:root:{}:/bin/bash", folder.display());
    let lines = users.lines().map(|line| match line.starts_with("root:") {
        true => format!("{own}\n"),
        false => format!("{line}\n"),
    });
    let file = folder.join("passwd");
    fs::write(&file, lines.collect::<String>()).expect("a file");
    let script = "mount --bind \"$0\" /etc/passwd && exec \"$@\"";
    let words = ["unshare", "--mount", "sh", "-c", script].map(OsString::from);
    words.into_iter().chain([file.into()]).collect()
}

impl Page {
    /// Starts it as that user, with these further lines of its configuration.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(cluster: &Cluster, uid: u32, more: &str) -> Self {
        Self::start_in(cluster, uid, more, "page")
    }

    /// Starts a second one of the same cluster.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start_beside(cluster: &Cluster, more: &str) -> Self {
        Self::start_in(cluster, WWW, more, "page2")
    }

    fn start_in(cluster: &Cluster, uid: u32, more: &str, name: &str) -> Self {
        let folder = cluster.dir().join(name);
        if !folder.exists() {
            fs::create_dir(&folder).expect("a folder");
            fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("own");
            chown(&folder, Some(uid), Some(uid)).expect("root");
        }
        let at = |name: &str| folder.join(name).display().to_string();
        let text = format!(
            "listen = \"127.0.0.1:0\"\nsocket = \"{}\"\nstate_dir = \"{}\"\ncontroller = [\"{}\"]\n{more}\n",
            at("web.sock"),
            at("state"),
            cluster.socket().display(),
        );
        let config = cluster.dir().join(format!("{name}.toml"));
        fs::write(&config, text).expect("a file");
        let log = cluster.dir().join("log/cosy-web");
        let mut daemon = Daemon::new(&programs::folder().join("cosy-web"), &config, &log);
        if uid != 0 {
            let id = format!("--reuid={uid}");
            let group = format!("--regid={uid}");
            daemon.before = vec!["setpriv".into(), id, group, "--clear-groups".into()];
        } else {
            let words = at_home_in(&folder).into_iter();
            daemon.before = words.filter_map(|word| word.into_string().ok()).collect();
        }
        daemon.start(cluster.lifeline().as_fd());
        daemon.await_ready();
        Self { daemon, folder }
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("web.sock")
    }

    /// Where it listens.
    ///
    /// # Panics
    /// It does not say.
    pub fn address(&self) -> String {
        let told = fs::read_to_string(self.folder.join("state/listen.addr"));
        told.expect("an address").trim().to_owned()
    }

    /// Asks over TCP, with these header lines.
    ///
    /// # Panics
    /// Nobody answers.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let stream = TcpStream::connect(self.address()).expect("a connection");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a socket");
        exchange(stream, method, path, headers, body)
    }

    /// Asks over the socket; who this thread is the kernel says.
    ///
    /// # Panics
    /// Nobody answers.
    #[track_caller]
    pub fn ask_locally(&self, method: &str, path: &str, body: &str) -> Answer {
        let stream = UnixStream::connect(self.socket()).expect("a connection");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a socket");
        exchange(stream, method, path, &["Content-Type: application/json"], body)
    }

    /// Asks over the socket as that user, with these header lines.
    ///
    /// # Panics
    /// Nobody answers.
    #[track_caller]
    pub fn ask_as(&self, uid: u32, method: &str, path: &str, headers: &[&str]) -> Answer {
        let socket = self.socket();
        let stream = as_user(uid, || UnixStream::connect(socket)).expect("a connection");
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a socket");
        exchange(stream, method, path, headers, "")
    }

    /// A line of a header with a new token of that user.
    ///
    /// # Panics
    /// There is none.
    #[track_caller]
    pub fn bearer(&self, cluster: &Cluster, uid: u32) -> String {
        let made = self.command_as(cluster, uid, &["cosy", "token"]).expect(0);
        format!("Authorization: Bearer {}", made.out.trim())
    }

    /// Runs a command as that user, which finds this page.
    #[track_caller]
    pub fn command_as(&self, cluster: &Cluster, uid: u32, words: &[&str]) -> Output {
        let mut command = cluster.command(words);
        run::run(
            command
                .env("COSY_WEB_SOCKET", self.socket())
                .uid(uid)
                .gid(uid),
        )
    }

    /// Logs a browser in as that user: its cookie, and the word that it sends with changes.
    ///
    /// # Panics
    /// That is refused.
    #[track_caller]
    pub fn log_in(&self, cluster: &Cluster, uid: u32) -> (String, String) {
        let link = self
            .command_as(cluster, uid, &["cosy", "web"])
            .expect(0)
            .out;
        let at = link.find("/enter").expect("a link");
        let entered = self.ask("GET", link[at..].trim(), &[], "");
        assert_eq!(entered.status, 303, "{entered:?}");
        let cookie = format!("Cookie: {}", entered.cookie());
        let me = self.ask("GET", "/api/v1/me", &[&cookie], "").expect(200);
        let word = me["csrf"].as_str().expect("a word").to_owned();
        (cookie, format!("X-Cosy-Csrf: {word}"))
    }

    /// Waits until a question is answered as it should be.
    #[track_caller]
    pub fn until(
        &self,
        what: &str,
        path: &str,
        headers: &[&str],
        good: impl Fn(&Answer) -> bool,
    ) -> Answer {
        wait::until(what, || Some(self.ask("GET", path, headers, "")).filter(&good))
    }
}

#[track_caller]
fn exchange(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> Answer {
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|line| line.starts_with("Host:")) {
        text.push_str("Host: page\r\n");
    }
    for line in headers {
        text.push_str(line);
        text.push_str("\r\n");
    }
    if method != "GET" || !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    // A server that has heard enough closes: what it said is there to be read.
    let _ = stream
        .write_all(text.as_bytes())
        .and_then(|()| stream.write_all(body.as_bytes()));
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    understand(&bytes)
}

/// The answer in what came.
///
/// # Panics
/// It is none.
#[track_caller]
pub fn understand(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    let head = head.replace('\r', "");
    let head = head.lines().map(|line| match line.split_once(": ") {
        Some((name, value)) => format!("{}: {value}\n", name.to_ascii_lowercase()),
        None => format!("{line}\n"),
    });
    let head: String = head.collect();
    let body = match head.contains("transfer-encoding: chunked") {
        true => joined(body),
        false => body.to_owned(),
    };
    Answer {
        status: status.expect("a status"),
        head,
        body,
    }
}

/// A body that came in pieces, as far as it came.
fn joined(body: &str) -> String {
    let mut whole = String::new();
    let mut rest = body;
    while let Some((size, more)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let Some((piece, behind)) = more.split_at_checked(size).filter(|_| size > 0) else {
            break;
        };
        whole.push_str(piece);
        rest = behind.trim_start_matches("\r\n");
    }
    whole
}
