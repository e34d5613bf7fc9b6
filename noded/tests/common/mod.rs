//! A controller that only says what a test tells it to, and a real noded beside it.
//! Whatever a test does, nothing stays: the lifeline ends with the test.

#![allow(dead_code)]

pub mod steps;

use cosy_model::node::*;
use cosy_model::{Attempt, End, Gid, MiB, OsText, Program, Span, Time, Uid, limits};
use cosy_proto::frame::{self, Decoder};
use cosy_proto::keys::KeyPair;
use cosy_proto::link::{Hello, HelloReply};
use cosy_proto::ticket::{self, Claims};
use cosy_proto::tls;
use nix::libc;
use std::collections::VecDeque;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// No event takes longer than this, however busy the machine is.
pub const DEADLINE: Duration = Duration::from_secs(20);
pub const NODED: &str = env!("CARGO_BIN_EXE_noded");

pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

#[allow(unused_imports, reason = "not every file of tests skips something")]
pub use cosy_skip::{not_installed, skip};

/// Waits until `ready` gives something.
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < until, "no {what} in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn alive(pid: i32) -> bool {
    // A zombie has ended.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

pub fn wait_gone(pid: i32) {
    wait_for("end of a process", || (!alive(pid)).then_some(()));
}

/// The number in a file that a job writes, once it is there whole.
pub fn pid_in(path: &Path) -> i32 {
    wait_for("pid file", || {
        let text = fs::read_to_string(path).ok()?;
        text.strip_suffix('\n')?.trim().parse().ok()
    })
}

pub struct Daemon {
    pub child: Child,
    lifeline: Option<OwnedFd>,
}

impl Daemon {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn signal(&self, signal: i32) {
        unsafe { libc::kill(self.pid(), signal) };
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn end_lifeline(&mut self) {
        self.lifeline = None;
    }
}

pub struct Bench {
    pub dir: tempfile::TempDir,
    pub name: String,
    pub key: KeyPair,
    pub runtime: Runtime,
    listener: TcpListener,
    link: Option<TlsStream<TcpStream>>,
    decoder: Decoder,
    pub backlog: VecDeque<NodeReport>,
    pub daemons: Vec<Daemon>,
    pub extra: String,
    /// Addresses of further controllers.
    pub others: Vec<String>,
    /// In which the controller leads.
    pub epoch: u64,
    /// How long nodes may be alone.
    pub alone: Option<Span>,
    /// How far the node had seen the store when it registered last.
    pub seen: OsText,
    pub args: Vec<String>,
}

impl Bench {
    /// A controller, and the configuration of a node that is not yet started.
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let dir = tempfile::Builder::new().prefix("noded").tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let key = dir.path().join("node.key");
        fs::write(&key, KeyPair::generate().unwrap().pkcs8()).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        Self {
            dir,
            name: format!("t{}", COUNT.fetch_add(1, Ordering::Relaxed)),
            key: KeyPair::generate().unwrap(),
            runtime,
            listener,
            link: None,
            decoder: Decoder::new(limits::FRAME_BYTES),
            backlog: VecDeque::new(),
            daemons: Vec::new(),
            extra: String::new(),
            others: Vec::new(),
            epoch: 0,
            alone: None,
            seen: OsText::default(),
            args: Vec::new(),
        }
    }

    /// The same with a node that has registered.
    pub fn started() -> Self {
        Self::with("")
    }

    pub fn with(extra: &str) -> Self {
        let mut bench = Self::new();
        bench.extra = extra.to_owned();
        bench.start();
        let (_, inventory) = bench.accept();
        assert_eq!(inventory, []);
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn address(&self) -> String {
        self.listener.local_addr().unwrap().to_string()
    }

    pub fn write_config(&self) -> PathBuf {
        let controllers = match self.others.as_slice() {
            [] => format!("controller = '{}'", self.address()),
            others => format!("controllers = ['{}', '{}']", self.address(), others.join("', '")),
        };
        let text = format!(
            "name = '{}'\n{controllers}\ncontroller_key = '{}'\nkey = 'node.key'\nspool_dir = 'spool'\nlisten = '127.0.0.1:0'\nallow_root = true\n{}",
            self.name,
            self.key.public(),
            self.extra
        );
        let path = self.path("noded.toml");
        fs::write(&path, text).unwrap();
        path
    }

    pub fn start(&mut self) -> &mut Daemon {
        let config = self.write_config();
        let (reading, writing) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
        let fd = reading.as_raw_fd();
        let mut command = Command::new(NODED);
        command
            .arg("--config")
            .arg(config)
            .args(["--lifeline-fd", "200"])
            .args(&self.args)
            .stdin(Stdio::null())
            .stderr(
                fs::File::options()
                    .create(true)
                    .append(true)
                    .open(self.path("log"))
                    .unwrap(),
            );
        unsafe {
            command.pre_exec(move || match libc::dup2(fd, 200) {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        let child = command.spawn().unwrap();
        self.daemons.push(Daemon {
            child,
            lifeline: Some(writing),
        });
        self.daemons.last_mut().unwrap()
    }

    pub fn daemon(&mut self) -> &mut Daemon {
        self.daemons.last_mut().unwrap()
    }

    /// Takes the next link; gives what the node registers with.
    pub fn accept(&mut self) -> (Vec<NodeSelf>, Vec<InventoryItem>) {
        let (stream, hello) = self.accept_hello();
        assert!(matches!(hello, Hello::Node { .. }));
        self.welcome(stream)
    }

    /// Welcomes a node that has said hello; gives what it registers with.
    pub fn welcome(&mut self, stream: TlsStream<TcpStream>) -> (Vec<NodeSelf>, Vec<InventoryItem>) {
        self.take_link(stream);
        self.write(&HelloReply::welcome(self.epoch));
        self.order(NodeOrder::Welcome {
            cluster: "test".into(),
            heartbeat: Span::from_secs(1),
            unknown: Vec::new(),
            revoked: Vec::new(),
            alone: self.alone,
            now: None,
        });
        match self.next_report() {
            NodeReport::Register {
                nodes,
                inventory,
                seen,
                clock: _,
            } => {
                self.seen = seen;
                (nodes, inventory)
            }
            other => panic!("registers first, not {other:?}"),
        }
    }

    /// Reads reports from there from now on; gives the link before, if there is one.
    pub fn take_link(&mut self, stream: TlsStream<TcpStream>) -> Option<TlsStream<TcpStream>> {
        let before = self.link.replace(stream);
        self.backlog.clear();
        self.decoder = Decoder::new(limits::FRAME_BYTES);
        before
    }

    /// The link, which is left open and not listened to any more.
    pub fn leave_link(&mut self) -> TlsStream<TcpStream> {
        self.link.take().unwrap()
    }

    /// A place for a further controller.
    pub fn another_place(&mut self) -> TcpListener {
        let place = self.runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let place = place.unwrap();
        self.others.push(place.local_addr().unwrap().to_string());
        place
    }

    pub fn accept_hello(&mut self) -> (TlsStream<TcpStream>, Hello) {
        self.accept_hello_at(&self.listener)
    }

    pub fn accept_hello_at(&self, listener: &TcpListener) -> (TlsStream<TcpStream>, Hello) {
        let acceptor = TlsAcceptor::from(tls::server_config(&self.key).unwrap());
        self.runtime.block_on(async {
            tokio::time::timeout(DEADLINE, async {
                let (tcp, _) = listener.accept().await.unwrap();
                let mut stream = acceptor.accept(tcp).await.unwrap();
                let mut header = [0; 4];
                stream.read_exact(&mut header).await.unwrap();
                let mut body = vec![0; u32::from_le_bytes(header) as usize];
                stream.read_exact(&mut body).await.unwrap();
                (stream, frame::decode(&body).unwrap())
            })
            .await
            .expect("no link in time")
        })
    }

    pub fn reply(&self, stream: &mut TlsStream<TcpStream>, reply: &impl serde::Serialize) {
        let bytes = frame::encode(reply, limits::FRAME_BYTES).unwrap();
        self.runtime.block_on(async {
            stream.write_all(&bytes).await.unwrap();
            stream.flush().await.unwrap();
        });
    }

    fn write<T: serde::Serialize>(&mut self, message: &T) {
        let bytes = frame::encode(message, limits::FRAME_BYTES).unwrap();
        self.write_bytes(&bytes);
    }

    pub fn write_bytes(&mut self, bytes: &[u8]) {
        let link = self.link.as_mut().unwrap();
        self.runtime.block_on(async {
            link.write_all(bytes).await.unwrap();
            link.flush().await.unwrap();
        });
    }

    pub fn order(&mut self, order: NodeOrder) {
        self.write(&order);
    }

    /// Waits until the node has closed a link.
    pub fn closed(&self, mut stream: TlsStream<TcpStream>) {
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        let ended = async { tokio::time::timeout(DEADLINE, read).await.is_ok() };
        assert!(self.runtime.block_on(ended), "the link stays open");
    }

    pub fn hang_up(&mut self) {
        self.link = None;
    }

    /// Nobody listens at the controller's place any more; gives where that is.
    pub fn close(&mut self) -> String {
        let address = self.address();
        let elsewhere = self.runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        self.listener = elsewhere.unwrap();
        self.hang_up();
        address
    }

    /// Somebody listens there again.
    pub fn open(&mut self, address: &str) {
        self.listener = self.runtime.block_on(TcpListener::bind(address)).unwrap();
    }

    /// The number of the next report that is to be answered.
    pub fn figures(&mut self) -> u64 {
        loop {
            match self.next_from_link() {
                NodeReport::Figures(figures) => return figures.number,
                NodeReport::Heartbeat => {}
                report => self.backlog.push_back(report),
            }
        }
    }

    fn next_from_link(&mut self) -> NodeReport {
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(body) = self.decoder.next_frame().unwrap() {
                return frame::decode(body).unwrap();
            }
            let link = self.link.as_mut().unwrap();
            let mut chunk = vec![0; 65536];
            let n = self.runtime.block_on(async {
                let left = until.saturating_duration_since(Instant::now());
                tokio::time::timeout(left, link.read(&mut chunk))
                    .await
                    .unwrap_or_else(|_| panic!("no report in time; before: {:?}", self.backlog))
                    .expect("the link broke")
            });
            assert!(n > 0, "the node closed the link");
            self.decoder.push(&chunk[..n]);
        }
    }

    pub fn next_report(&mut self) -> NodeReport {
        let until = Instant::now() + DEADLINE;
        loop {
            assert!(Instant::now() < until, "no report in time; before: {:?}", self.backlog);
            match self.next_from_link() {
                NodeReport::Heartbeat | NodeReport::Figures(_) => {}
                report => return report,
            }
        }
    }

    /// The next report that fits, whatever else comes meanwhile (it is kept).
    pub fn expect<T>(&mut self, mut fits: impl FnMut(&NodeReport) -> Option<T>) -> T {
        if let Some(at) = self.backlog.iter().position(|r| fits(r).is_some()) {
            let report = self.backlog.remove(at).unwrap();
            return fits(&report).unwrap();
        }
        loop {
            let report = self.next_report();
            if let Some(value) = fits(&report) {
                return value;
            }
            self.backlog.push_back(report);
        }
    }

    pub fn ended(&mut self, job: u64) -> End {
        self.ended_with_drain(job).0
    }

    pub fn ended_with_drain(&mut self, job: u64) -> (End, Option<String>) {
        self.expect(|r| match r {
            NodeReport::Ended {
                key, end, drain, ..
            } if key.number() == job => Some((end.clone(), drain.clone())),
            _ => None,
        })
    }

    pub fn wait_started(&mut self, job: u64) {
        self.expect(|r| match r {
            NodeReport::Started { key, .. } if key.number() == job => Some(()),
            _ => None,
        });
    }

    pub fn failure(&mut self, job: u64) -> PrepareFailure {
        self.expect(|r| match r {
            NodeReport::Prepared {
                key,
                failure: Some(failure),
                ..
            } if key.number() == job => Some(failure.clone()),
            _ => None,
        })
    }

    /// Runs a job to its end and has it forgotten.
    pub fn run(&mut self, launch: Launch) -> End {
        let key = launch.allocation.key;
        self.order(NodeOrder::Launch(Box::new(launch)));
        let end = self.ended(key.number());
        self.forget(key);
        end
    }

    pub fn launch(&mut self, launch: &Launch) {
        self.order(NodeOrder::Launch(Box::new(launch.clone())));
    }

    pub fn kill(&mut self, launch: &Launch, cause: KillCause) {
        let node = launch.allocation.node.clone();
        let key = launch.allocation.key;
        self.order(NodeOrder::Kill {
            key,
            node,
            cause,
            preempted: false,
        });
    }

    pub fn forget(&mut self, key: AllocationKey) {
        let node = self.name.clone();
        self.order(NodeOrder::Forget { key, node });
        let path = self.spooled(key);
        wait_for("forgetting", || (!path.exists()).then_some(()));
    }

    pub fn spooled(&self, key: impl Into<AllocationKey>) -> PathBuf {
        let key = key.into();
        let name = format!("{}.{}", key.number(), key.attempt());
        self.path("spool").join(&self.name).join(name)
    }

    /// A job whose script is a shell's, in the test's directory, as the own user.
    pub fn job(&self, job: u64, script: &str) -> Launch {
        let text = format!("#!/bin/sh\ncd '{}'\n{script}\n", self.dir.path().display());
        self.raw_job(job, text.as_bytes())
    }

    pub fn raw_job(&self, job: u64, script: &[u8]) -> Launch {
        let mut launch = Launch {
            allocation: self.allocation(job),
            program: Program::Script {
                name: "job.sh".into(),
                args: vec!["one".into()],
            },
            script: OsText(script.to_vec()),
            workdir: OsText::from(self.dir.path().to_str().unwrap()),
            stdout: OsText::from(format!("out.{job}")),
            stderr: OsText::default(),
            stdin: OsText::default(),
            open_mode: Default::default(),
            environment: OsText::from(format!("PATH=/usr/bin:/bin\0COSY_JOB_ID={job}\0X=1")),
            login_environment: false,
            umask: 0o027,
            rlimits: Default::default(),
            warn: None,
            grace: Span(200),
            dialect: cosy_model::Dialect::Cosy,
            container: None,
        };
        self.sign(&mut launch.allocation);
        launch
    }

    pub fn command(&self, job: u64, argv: &[&str]) -> Launch {
        let mut launch = self.raw_job(job, b"");
        let argv = argv.iter().map(|a| OsText::from(*a)).collect();
        launch.program = Program::Command { argv };
        launch
    }

    pub fn allocation(&self, job: u64) -> Allocation {
        let gid = Gid(nix::unistd::getegid().as_raw());
        let mut allocation = Allocation {
            key: AllocationKey::numbered(job, Attempt(1)),
            node: self.name.clone(),
            nodes: self.name.clone(),
            uid: Uid(nix::unistd::geteuid().as_raw()),
            gid,
            groups: vec![gid],
            user: "tester".into(),
            home: "/".into(),
            shell: "/bin/sh".into(),
            memory: None,
            cores: vec![0],
            gpus: Vec::new(),
            devices: Default::default(),
            switches: String::new(),
            tasks: 1,
            limit: Span::UNLIMITED,
            cores_per_task: 1,
            parts: Vec::new(),
            ticket: OsText::default(),
            warn_steps: None,
            runs_again: false,
        };
        self.sign(&mut allocation);
        allocation
    }

    /// A ticket that everybody may show, as an earlier release gave them.
    pub fn sign(&self, allocation: &mut Allocation) {
        self.sign_for(allocation, String::new());
    }

    /// A ticket that only the host with that key may show.
    pub fn sign_for(&self, allocation: &mut Allocation, holder: String) {
        let claims = Claims {
            key: allocation.key,
            uid: allocation.uid,
            gid: allocation.gid,
            groups: allocation.groups.clone(),
            nodes: allocation.nodes.clone(),
            expiry: Time::FAR,
            holder,
            seal: ticket::seal(allocation.key, &self.key),
            epoch: self.epoch,
        };
        allocation.ticket = ticket::sign(&claims, &self.key);
    }

    pub fn output(&self, job: u64) -> String {
        fs::read_to_string(self.path(&format!("out.{job}"))).unwrap()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// The shepherd of a job: whoever holds its lock.
    pub fn shepherd(&self, key: AllocationKey) -> i32 {
        let path = self.spooled(key);
        wait_for("shepherd", || {
            let file = noded::spool::open_launch(&path).ok()?;
            Some(noded::sys::lock_holder(&file).ok()??.as_raw())
        })
    }

    /// Control groups that this node has on the machine.
    pub fn groups(&self) -> Vec<PathBuf> {
        let prefix = format!("cosy-{}-", self.name);
        let mut found = Vec::new();
        let mut next = vec![(PathBuf::from("/sys/fs/cgroup"), 0)];
        while let Some((path, depth)) = next.pop() {
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                if !entry.file_type().is_ok_and(|t| t.is_dir()) || depth > 4 {
                    continue;
                }
                if entry.file_name().to_string_lossy().starts_with(&prefix)
                    && fs::read_dir(entry.path()).is_ok()
                    && self.owns(&entry.path())
                {
                    found.push(entry.path());
                }
                next.push((entry.path(), depth + 1));
            }
        }
        found
    }

    fn owns(&self, group: &Path) -> bool {
        let spool = self.path("spool").join(&self.name);
        group.file_name().unwrap().to_str() == Some(&noded::spool::instance(&spool, &self.name))
    }

    pub fn limited(&self, launch: &mut Launch, limit: Span) {
        launch.allocation.limit = limit;
    }

    pub fn memory(&self, launch: &mut Launch, mib: u64) {
        launch.allocation.memory = Some(MiB(mib));
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        if failed {
            eprintln!("--- log of noded\n{}", self.log());
        }
        for daemon in &mut self.daemons {
            // Shepherds and daemons end with it; those that were killed need nothing.
            daemon.end_lifeline();
            let until = Instant::now() + Duration::from_secs(8);
            while !matches!(daemon.child.try_wait(), Ok(Some(_)) | Err(_)) {
                if Instant::now() > until {
                    let _ = daemon.child.kill();
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}
