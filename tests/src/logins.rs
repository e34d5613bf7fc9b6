//! Nodes that users log in to: `sshd` on each of them, which asks `pam_cosy.so`, and users that such a
//! machine knows.
//!
//! Everything is inside namespaces of this thread ([`crate::namespaces`]): users, files of PAM, networks.

use crate::cluster::{Cluster, Options};
use crate::people::{self, GROUP};
use crate::run::{self, Output};
use crate::{namespaces, programs, system, wait};
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A cluster whose nodes users log in to.
#[derive(Debug)]
pub struct Site {
    /// The cluster.
    pub cluster: Cluster,
    servers: Vec<Child>,
}

impl Drop for Site {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Programs that are needed, by their package.
const NEEDED: [(&str, &str); 3] = [
    ("/usr/sbin/sshd", "openssh-server"),
    ("/usr/bin/ssh", "openssh-client"),
    ("/usr/bin/pamtester", "pamtester"),
];

/// Puts this thread into namespaces of its own and starts a cluster there; nothing, and a sentence,
/// where the machine does not allow that. `noded` are further lines of `noded.toml`.
///
/// # Panics
/// When something cannot be started that should be.
pub fn start_or_skip(nodes: usize, noded: fn(usize) -> String) -> Option<Site> {
    let missing = NEEDED.iter().find(|(path, _)| !Path::new(path).exists());
    if let Some((path, package)) = missing {
        system::not_installed(&format!("no {path} ({package})"));
        return None;
    }
    if !namespaces::enter_or_skip(nodes) {
        return None;
    }
    let options = Options {
        host: namespaces::HERE,
        noded,
        controller: "[users]\nlookup_command = [\"DIR/lookup\"]\n".into(),
        ..Options::default()
    };
    let mut cluster = people::prepare(nodes, options);
    for at in 0..nodes {
        cluster.nodes[at].before = namespaces::before(at + 1);
    }
    let mut site = Site {
        cluster: cluster.start_prepared(),
        servers: Vec::new(),
    };
    site.make_machine();
    for node in 1..=nodes {
        site.start_server(node);
    }
    Some(site)
}

/// Line of `noded.toml` by which other nodes reach this one.
pub fn listen(node: usize) -> String {
    format!("listen = \"{}:0\"\n", namespaces::address(node))
}

impl Site {
    fn path(&self, name: &str) -> PathBuf {
        self.cluster.dir().join(name)
    }

    /// Users, groups, and what PAM is told, in the place of the machine's.
    fn make_machine(&self) {
        let shown = |name: &str| self.path(name).display().to_string();
        let users = "root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n\
            nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n\
            ann:x:54321:54300::/tmp:/bin/sh\nbob:x:54322:54300::/tmp:/bin/sh\n";
        fs::write(self.path("passwd"), users).expect("a file");
        let groups = format!("root:x:0:\nnogroup:x:65534:\nusers:x:{GROUP}:\n");
        fs::write(self.path("group"), groups).expect("a file");
        fs::create_dir(self.path("pam.d")).expect("a folder");
        fs::create_dir(self.path("keys")).expect("a folder");
        let made = run::run(Command::new("sh").args([
            "-c",
            &format!(
                "set -e\nmkdir -p /run/sshd\nmount --bind {} /etc/passwd\nmount --bind {} /etc/group\n\
                 mount --bind {} /etc/pam.d\nssh-keygen -q -t ed25519 -N '' -f {}\n",
                shown("passwd"),
                shown("group"),
                shown("pam.d"),
                shown("host_key"),
            ),
        ]));
        made.expect(0);
        for (name, uid) in [("ann", people::ANN), ("bob", people::BOB), ("root", 0)] {
            let key = self.path("keys").join(format!("{name}.key"));
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            run::run(command.arg(&key)).expect(0);
            let public = key.with_extension("key.pub");
            fs::rename(public, self.path("keys").join(name)).expect("a key");
            chown(&key, Some(uid), Some(GROUP)).expect("own");
        }
    }

    /// What `pam_cosy.so` is told on a node.
    pub fn configure(&self, node: usize, words: &str) {
        let module = programs::folder().join("libpam_cosy.so");
        let socket = self.login_socket(node);
        let (module, socket) = (module.display(), socket.display());
        let line = format!("{module} service=* socket={socket} {words}");
        self.write_stack(&format!("sshd-n{node}"), &line);
    }

    /// What PAM does for a service.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn write_stack(&self, service: &str, module: &str) {
        let text = format!(
            "auth required pam_permit.so\naccount required pam_permit.so\n\
             account required {module}\nsession required pam_permit.so\nsession required {module}\n"
        );
        fs::write(self.path("pam.d").join(service), text).expect("a file");
    }

    /// The socket for logins of a node (counted from 1).
    pub fn login_socket(&self, node: usize) -> PathBuf {
        let spool = self.cluster.node_dir(node - 1).join("spool");
        spool.join(format!("n{node}/login.sock"))
    }

    /// Starts `sshd` on a node, under a name of its own: PAM's files are named after it.
    fn start_server(&mut self, node: usize) {
        self.configure(node, "");
        let name = format!("sshd-n{node}");
        let program = self.path(&name);
        symlink("/usr/sbin/sshd", &program).expect("a link");
        let address = namespaces::address(node);
        let config = format!(
            "ListenAddress {address}:22\nHostKey {0}/host_key\nUsePAM yes\nStrictModes no\n\
             AuthorizedKeysFile {0}/keys/%u\nPasswordAuthentication no\nPidFile none\n\
             KbdInteractiveAuthentication yes\nPermitRootLogin prohibit-password\nPrintMotd no\n\
             LogLevel INFO\n",
            self.cluster.dir().display()
        );
        let file = self.path(&format!("{name}.config"));
        fs::write(&file, config).expect("a file");
        let log = self.path("log").join(&name);
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/n{node}"));
        command.arg(&program).arg("-D").arg("-E").arg(&log);
        self.servers
            .push(command.arg("-f").arg(&file).spawn().expect("sshd starts"));
        wait::until_true("sshd listens", || TcpStream::connect((&*address, 22)).is_ok());
    }

    /// The words of a command line by which somebody logs in on a node, from wherever it is run.
    pub fn ssh(&self, user: &str, node: usize) -> Vec<String> {
        let key = self.path("keys").join(format!("{user}.key"));
        let words = [
            "ssh",
            "-F",
            "/dev/null",
            "-oBatchMode=yes",
            "-oStrictHostKeyChecking=no",
            "-oUserKnownHostsFile=/dev/null",
            "-oIdentitiesOnly=yes",
            "-oLogLevel=INFO",
            "-i",
        ];
        let whom = format!("{user}@{}", namespaces::address(node));
        let words = words.into_iter().map(str::to_owned);
        words.chain([key.display().to_string(), whom]).collect()
    }

    /// Logs in on a node and runs a line there.
    #[track_caller]
    pub fn log_in(&self, user: &str, node: usize, line: &str) -> Output {
        self.log_in_with(&[], user, node, line)
    }

    /// The same by other means than a key: the server asks nothing.
    #[track_caller]
    pub fn log_in_asked(&self, user: &str, node: usize, line: &str) -> Output {
        let by = "-oPreferredAuthentications=keyboard-interactive";
        self.log_in_with(&["-oBatchMode=no", by], user, node, line)
    }

    #[track_caller]
    fn log_in_with(&self, options: &[&str], user: &str, node: usize, line: &str) -> Output {
        let words = self.ssh(user, node);
        let mut command = Command::new(&words[0]);
        run::run(command.args(options).args(&words[1..]).arg(line))
    }

    /// Asks PAM whether a user may in, as that service.
    #[track_caller]
    pub fn asks(&self, service: &str, user: &str) -> Output {
        run::run(Command::new("pamtester").args([service, user, "acct_mgmt"]))
    }

    /// What the servers have said.
    pub fn said(&self) -> String {
        let nodes = 1..=self.servers.len();
        let logs = nodes.map(|n| self.path("log").join(format!("sshd-n{n}")));
        let texts = logs.map(|path| fs::read_to_string(path).unwrap_or_default());
        texts.collect::<String>() + &self.cluster.logs()
    }
}
