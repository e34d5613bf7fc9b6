//! What users reach of their jobs through the page: shells, programs that listen, files that jobs write.
//! Nobody reaches what is another's, and no node daemon believes what the controller has not signed.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::{Reply, Request};
use cosy_model::limits::FRAME_BYTES;
use cosy_model::step::{StepAnswer, StepAsk, TcpPair};
use cosy_model::{JobId, OsText, RefusalCode, Uid};
use cosy_proto::frame;
use cosy_tests::page::{Answer, DAEMON, GAMES, Page, WWW};
use cosy_tests::people::as_user;
use cosy_tests::{Client, Cluster, Options, system, wait};
use serde_json::Value as Json;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const JSON: &str = "Content-Type: application/json";
/// A page of a program, which says what it was sent.
const PROGRAM: &str = "import http.server, json\n\
    class Said(http.server.BaseHTTPRequestHandler):\n\
    \x20   def do_GET(self):\n\
    \x20       self.send_response(200)\n\
    \x20       self.end_headers()\n\
    \x20       self.wfile.write(json.dumps([self.path, dict(self.headers)]).encode())\n\
    \x20   do_POST = do_GET\n\
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Said)\n\
    server.serve_forever()\n";

/// A cluster and its page, which is an ordinary user's and asks for the users.
fn site(more: &str) -> Option<(Cluster, Page)> {
    if !nix::unistd::getuid().is_root() {
        system::skip("not root: nobody can be somebody else");
        return None;
    }
    let options = Options {
        controller: "[web]\nuser = \"www-data\"\n".into(),
        noded: |_| "min_uid = 1\n".into(),
        ..Options::default()
    };
    let cluster = Cluster::start(1, options);
    cluster.open_commands();
    let socket = cluster.steps_socket(0);
    let more = format!("node_socket = \"{}\"\n{more}", socket.display());
    let page = Page::start(&cluster, WWW, &more);
    Some((cluster, page))
}

/// Submits as that user, and waits until it runs.
fn running(cluster: &Cluster, page: &Page, uid: u32, words: &[&str]) -> String {
    let words = [&["csub", "-t", "30"], words].concat();
    let told = page.command_as(cluster, uid, &words).expect(0).out;
    let job = told.trim().rsplit(' ').next().unwrap().to_owned();
    let user = page.bearer(cluster, uid);
    page.until("it runs", &format!("/api/v1/jobs/{job}"), &[&user], |answer| {
        answer.json()["tasks"][0]["state"] == "running"
    });
    job
}

fn port_of(page: &Page, job: &str, user: &str) -> u64 {
    let path = format!("/api/v1/jobs/{job}/ports");
    let told = page.until("it listens", &path, &[user], |answer| {
        answer.status == 200 && answer.json()["ports"][0]["port"].is_u64()
    });
    told.json()["ports"][0]["port"].as_u64().unwrap()
}

fn why(answer: &Answer, status: u16) -> String {
    answer.expect(status)["error"]["message"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn programs_of_jobs_are_reached_by_whose_they_are() {
    let Some((cluster, page)) = site("jobs_address = \"http://*.jobs.test\"\n") else {
        return;
    };
    let words = ["-o", "/dev/null", "--", "python3", "-c", PROGRAM];
    let mine = running(&cluster, &page, DAEMON, &words);
    let theirs = running(&cluster, &page, GAMES, &words);
    let (ann, bob) = (page.bearer(&cluster, DAEMON), page.bearer(&cluster, GAMES));
    let (port, other) = (port_of(&page, &mine, &ann), port_of(&page, &theirs, &bob));
    let second = running(&cluster, &page, DAEMON, &words);
    let another = port_of(&page, &second, &ann);
    // Neither asked about nor opened by somebody else, and a port of another's job is none of this one.
    let ports = format!("/api/v1/jobs/{mine}/ports");
    why(&page.ask("GET", &ports, &[&bob], ""), 404);
    why(&page.ask("POST", &format!("{ports}/{port}"), &[&bob, JSON], ""), 404);
    let none = why(&page.ask("POST", &format!("{ports}/{other}"), &[&ann, JSON], ""), 404);
    assert_eq!(none, format!("no program of job {mine} listens on port {other}"));
    let not_here = page.ask("POST", &format!("{ports}/{another}"), &[&ann, JSON], "");
    assert_eq!(why(&not_here, 404), format!("no program of job {mine} listens on port {another}"));
    why(&page.ask("POST", &format!("{ports}/0"), &[&ann, JSON], ""), 400);

    let opened = page
        .ask("POST", &format!("{ports}/{port}"), &[&ann, JSON], "")
        .expect(200);
    let link = opened["link"].as_str().unwrap();
    let origin = format!("http://j{mine}-{port}.jobs.test");
    let entrance = link.strip_prefix(&origin).unwrap();
    let host = format!("Host: j{mine}-{port}.jobs.test");
    let elsewhere = format!("Host: j{theirs}-{other}.jobs.test");
    assert_eq!(page.ask("GET", "/", &[&host], "").status, 403);
    assert_eq!(page.ask("GET", entrance, &[&elsewhere], "").status, 403);
    // That was for another program, and has used the link up.
    assert_eq!(page.ask("GET", entrance, &[&host], "").status, 403);
    let again = page
        .ask("POST", &format!("{ports}/{port}"), &[&ann, JSON], "")
        .expect(200);
    let entrance = again["link"]
        .as_str()
        .unwrap()
        .strip_prefix(&origin)
        .unwrap();
    let entered = page.ask("GET", entrance, &[&host], "");
    assert_eq!((entered.status, entered.header("location")), (303, Some("/")));
    let cookie = format!("Cookie: {}; own=1", entered.cookie());

    let said = page
        .ask("GET", "/a?b=c", &[&host, &cookie, "X-Slurm-User-Token: x"], "")
        .expect(200);
    assert_eq!(said[0], "/a?b=c");
    let heard: Vec<String> = said[1]
        .as_object()
        .unwrap()
        .keys()
        .map(|k| k.to_lowercase())
        .collect();
    assert_eq!(said[1]["cookie"], "own=1");
    assert!(!heard.contains(&"x-slurm-user-token".to_owned()), "{heard:?}");
    assert_eq!(said[1]["host"], format!("localhost:{port}"));
    // Its cookie leads nowhere else, and other sites do not use it.
    assert_eq!(page.ask("GET", "/", &[&elsewhere, &cookie], "").status, 403);
    assert_eq!(page.ask("GET", "/api/v1/me", &[&cookie], "").status, 401);
    assert_eq!(
        page.ask("GET", "/", &["Host: j1.jobs.test", &cookie], "")
            .status,
        404
    );
    let foreign = ["Origin: http://evil.test", &host, &cookie];
    assert_eq!(page.ask("POST", "/", &foreign, "").status, 403);
    let own = format!("Origin: {origin}");
    page.ask("POST", "/", &[&own, &host, &cookie], "")
        .expect(200);
    // It ends with the job.
    page.command_as(&cluster, DAEMON, &["ccancel", &mine])
        .expect(0);
    wait::until("it is not reached any more", || {
        let answer = page.ask("GET", "/", &[&host, &cookie], "");
        (answer.status != 200).then_some(())
    });
}

/// A program that goes over to another protocol with everybody who wants it, and then waits.
const WAITS: &str = "import socket, threading\n\
    server = socket.create_server(('127.0.0.1', 0))\n\
    def serve(client):\n\
    \x20   heard = client.recv(9999)\n\
    \x20   if b'upgrade: x' not in heard.lower():\n\
    \x20       client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n')\n\
    \x20       return client.close()\n\
    \x20   client.sendall(b'HTTP/1.1 101 X\\r\\nUpgrade: x\\r\\nConnection: upgrade\\r\\n\\r\\n')\n\
    \x20   client.recv(1)\n\
    while True:\n\
    \x20   threading.Thread(target=serve, args=[server.accept()[0]], daemon=True).start()\n";

#[test]
fn one_user_has_so_many_connections_to_programs() {
    let Some((cluster, page)) = site("jobs_address = \"http://*.jobs.test\"\n") else {
        return;
    };
    let job = running(&cluster, &page, DAEMON, &["-o", "/dev/null", "--", "python3", "-c", WAITS]);
    let ann = page.bearer(&cluster, DAEMON);
    let port = port_of(&page, &job, &ann);
    let path = format!("/api/v1/jobs/{job}/ports/{port}");
    let link = page.ask("POST", &path, &[&ann, JSON], "").expect(200);
    let origin = format!("http://j{job}-{port}.jobs.test");
    let host = format!("Host: j{job}-{port}.jobs.test");
    let entrance = link["link"]
        .as_str()
        .unwrap()
        .strip_prefix(&origin)
        .unwrap();
    let cookie = format!("Cookie: {}", page.ask("GET", entrance, &[&host], "").cookie());
    let connect = || {
        let mut stream = TcpStream::connect(page.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let text = format!(
            "GET / HTTP/1.1\r\n{host}\r\n{cookie}\r\nOrigin: {origin}\r\nConnection: upgrade\r\n\
             Upgrade: x\r\n\r\n"
        );
        stream.write_all(text.as_bytes()).unwrap();
        let mut said = [0; 12];
        stream.read_exact(&mut said).unwrap();
        (String::from_utf8_lossy(&said).into_owned(), stream)
    };
    let mut open = Vec::new();
    let last = loop {
        let (said, stream) = connect();
        if said != "HTTP/1.1 101" {
            break said;
        }
        open.push(stream);
        assert!(open.len() < 100, "there is no end");
    };
    // Those that went over to another protocol count as long as they are open.
    assert_eq!((last.as_str(), open.len()), ("HTTP/1.1 429", 32));
    drop(open);
    wait::until("there is room again", || {
        (page.ask("GET", "/", &[&host, &cookie], "").status == 200).then_some(())
    });
}

#[test]
fn a_shell_is_the_users_own() {
    let Some((cluster, page)) = site("") else {
        return;
    };
    let job = running(&cluster, &page, DAEMON, &["-o", "/dev/null", "--", "sleep", "600"]);
    let (ann, bob) = (page.bearer(&cluster, DAEMON), page.bearer(&cluster, GAMES));
    let shells = format!("/api/v1/jobs/{job}/shells");
    let body = "{\"lines\": 20, \"columns\": 70, \"ends_job\": true}";
    why(&page.ask("POST", &shells, &[&bob, JSON], body), 404);
    let started = page.ask("POST", &shells, &[&ann, JSON], body).expect(200);
    let id = started["id"].as_str().unwrap();
    let own = format!("/api/v1/shells/{id}");
    for (method, path) in [
        ("POST", own.clone()),
        ("DELETE", own.clone()),
        ("GET", format!("{own}/screen")),
    ] {
        why(&page.ask(method, &path, &[&bob, JSON], ""), 404);
    }
    assert_eq!(
        page.ask("GET", "/api/v1/shells", &[&bob], "").expect(200)["shells"],
        Json::Array(vec![])
    );
    // This user's shell says one sentence and ends; the job ends with it.
    let told = page.ask("GET", &format!("{own}/screen"), &[&ann], "");
    assert_eq!(told.header("content-type"), Some("text/event-stream"));
    assert!(told.body.contains("not available"), "{told:?}");
    assert!(told.body.contains("it has ended with code 1"), "{told:?}");
    page.until("the job is given back", &format!("/api/v1/jobs/{job}"), &[&ann], |answer| {
        answer.json()["tasks"][0]["state"] == "cancelled"
    });
    why(&page.ask("POST", &own, &[&ann, JSON], "{\"text\": \"x\"}"), 404);
}

#[test]
fn one_user_has_so_many_shells() {
    let Some((cluster, page)) = site("") else {
        return;
    };
    // A shell that stays: the page is root's own here, and asks for root.
    drop(page);
    let page = Page::start(&cluster, 0, "");
    let job = running(&cluster, &page, 0, &["-o", "/dev/null", "--", "sleep", "600"]);
    let root = page.bearer(&cluster, 0);
    let shells = format!("/api/v1/jobs/{job}/shells");
    let mut ids = Vec::new();
    let refused = loop {
        let answer = page.ask("POST", &shells, &[&root, JSON], "{}");
        if answer.status != 200 {
            break why(&answer, 429);
        }
        ids.push(answer.json()["id"].as_str().unwrap().to_owned());
        assert!(ids.len() < 50, "there is no end");
    };
    assert_eq!(refused, "too many shells are open: end one of them");
    let first = format!("/api/v1/shells/{}", ids[0]);
    let long = format!("{{\"text\": \"{}\"}}", "x".repeat(40_000));
    why(&page.ask("POST", &first, &[&root, JSON], &long), 400);
    page.ask("DELETE", &first, &[&root, JSON], "").expect(200);
    wait::until("one has ended, and another begins", || {
        std::thread::sleep(Duration::from_millis(200)); // who asks too often is refused
        let answer = page.ask("POST", &shells, &[&root, JSON], "{}");
        (answer.status == 200).then_some(())
    });
    // What is typed is read by the shell, and what it draws is told.
    let shell = format!("/api/v1/shells/{}", ids[1]);
    page.ask("POST", &shell, &[&root, JSON], "{\"text\": \"echo $((6*7))tea\\r\"}")
        .expect(200);
    let text = stream_until(&page, &format!("{shell}/screen"), &root, "42tea");
    assert!(!text.contains("\\u001b"), "nothing comes as it was written: {text}");
}

/// Reads a stream until that is in it.
fn stream_until(page: &Page, path: &str, user: &str, wanted: &str) -> String {
    let mut stream = TcpStream::connect(page.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let text = format!("GET {path} HTTP/1.1\r\nHost: page\r\n{user}\r\n\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    let mut all = String::new();
    let mut piece = [0; 4096];
    while !all.contains(wanted) {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "{all}");
        all.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    all
}

#[test]
fn what_jobs_write_is_read_as_their_users() {
    let Some((cluster, page)) = site("") else {
        return;
    };
    let folder = cluster.dir().join("mine");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&folder, Some(DAEMON), Some(DAEMON)).unwrap();
    let out = folder.join("out").display().to_string();
    let script = "umask 077; echo first; until [ -e go ]; do sleep 0.1; done; echo last";
    let at = folder.display().to_string();
    let words = ["--chdir", &at, "-o", &out, "--", "sh", "-c", script];
    let job = running(&cluster, &page, DAEMON, &words);
    let (ann, bob) = (page.bearer(&cluster, DAEMON), page.bearer(&cluster, GAMES));
    let path = format!("/api/v1/jobs/{job}/output");
    page.until("it is read while it runs", &path, &[&ann], |answer| {
        answer.status == 200 && answer.json()["text"] == "first\n"
    });
    assert!([403, 404].contains(&page.ask("GET", &path, &[&bob], "").status));
    fs::write(folder.join("go"), "").unwrap();
    page.until("and afterwards", &path, &[&ann], |answer| {
        answer.status == 200 && answer.json()["text"] == "first\nlast\n"
    });
    let further = page
        .ask("GET", &format!("{path}?from=6"), &[&ann], "")
        .expect(200);
    assert_eq!(
        (&further["text"], &further["from"], &further["to"]),
        (&"last\n".into(), &6.into(), &11.into())
    );
    // Where its name leads is the user's to say; what may be read there is not.
    for (leads_to, said) in [
        ("/etc/shadow", "the file may not be read"),
        ("/dev/zero", "it is no regular file"),
        ("/nowhere", "the file is not there"),
    ] {
        fs::remove_file(&out).unwrap();
        symlink(leads_to, &out).unwrap();
        assert_eq!(why(&page.ask("GET", &path, &[&ann], ""), 404), said, "{leads_to}");
    }
}

/// Asks a node's daemon as that user.
fn ask_node(socket: &Path, uid: u32, ask: &StepAsk) -> StepAnswer {
    let socket = socket.to_owned();
    let mut stream = as_user(uid, || UnixStream::connect(socket)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    frame::write(&mut stream, ask, FRAME_BYTES).unwrap();
    let mut header = [0; frame::HEADER];
    stream.read_exact(&mut header).unwrap();
    let mut body = vec![0; u32::from_le_bytes(header) as usize];
    stream.read_exact(&mut body).unwrap();
    frame::decode(&body).unwrap()
}

#[test]
fn node_daemons_believe_the_controller_alone() {
    let Some((cluster, page)) = site("") else {
        return;
    };
    let id = |text: String| JobId(text.parse().unwrap());
    let mine = id(running(&cluster, &page, DAEMON, &["-o", "/dev/null", "--", "sleep", "600"]));
    let theirs = id(running(&cluster, &page, GAMES, &["-o", "/dev/null", "--", "sleep", "600"]));
    let pass = |uid: u32, named: u32, job: Option<JobId>| {
        let socket = cluster.socket();
        let asked = as_user(uid, || {
            let mut client = Client::connect(&socket).unwrap();
            client.ask_for(Uid(named), Request::Pass { job }).unwrap()
        });
        match asked {
            Reply::Pass(pass) => Ok(pass),
            Reply::Refused(refusal) => Err(refusal.code),
            other => panic!("{other:?}"),
        }
    };
    let node = cluster.steps_socket(0);
    let shown = |uid: u32, pass: &OsText, ask: StepAsk| {
        let ask = StepAsk::For {
            pass: pass.clone(),
            ask: Box::new(ask),
        };
        match ask_node(&node, uid, &ask) {
            StepAnswer::Refused(refusal) => Err(refusal.message),
            other => Ok(other),
        }
    };
    let list = |job| StepAsk::List { job };
    let read = |here| StepAsk::Read {
        job: mine,
        here,
        path: "/etc/hostname".into(),
        from: None,
    };
    let own = pass(WWW, DAEMON, Some(mine)).unwrap();
    assert_eq!(shown(WWW, &own, list(mine)), Ok(StepAnswer::Steps(Vec::new())));
    // Without a pass the kernel's word holds.
    let bare = ask_node(&node, WWW, &list(mine));
    assert!(matches!(bare, StepAnswer::Refused(refusal) if refusal.code == RefusalCode::Forbidden));
    // Nor is anybody told how programs of others are connected.
    let holds = StepAsk::Holds {
        job: mine,
        connection: TcpPair {
            from: ([127, 0, 0, 1], 1).into(),
            to: ([127, 0, 0, 1], 2).into(),
        },
    };
    assert_eq!(ask_node(&node, DAEMON, &holds), StepAnswer::Holds(false));
    let bare = ask_node(&node, WWW, &holds);
    assert!(matches!(bare, StepAnswer::Refused(refusal) if refusal.code == RefusalCode::Forbidden));
    // A pass is for one job, or for files alone, and not for another pass.
    let other = Err("the pass is for something else".to_owned());
    assert_eq!(shown(WWW, &own, list(theirs)), other);
    assert_eq!(shown(WWW, &own, StepAsk::Ports { job: theirs }), other);
    let files = pass(WWW, DAEMON, None).unwrap();
    assert_eq!(shown(WWW, &files, list(mine)), other);
    assert_eq!(shown(WWW, &files, read(false)), other);
    assert!(matches!(shown(WWW, &files, read(true)), Ok(StepAnswer::Piece(_))));
    let nested = StepAsk::For {
        pass: own.clone(),
        ask: Box::new(list(mine)),
    };
    assert!(shown(WWW, &own, nested).is_err());
    // Nothing that was changed is believed, nor what is no pass at all.
    let forged = Err("the pass is not signed by this cluster's controller".to_owned());
    let mut changed = own.clone();
    changed.0[20] ^= 1;
    assert_eq!(shown(WWW, &changed, list(mine)), forged);
    assert_eq!(shown(WWW, &OsText(vec![0; 64]), list(mine)), forged);
    assert_eq!(shown(WWW, &OsText::default(), list(mine)), forged);
    // Files are read for whoever shows a pass, and for nobody else.
    let bare = ask_node(&node, DAEMON, &read(true));
    assert!(matches!(bare, StepAnswer::Refused(refusal) if refusal.code == RefusalCode::Forbidden));
    // Root looks, and reaches no program of a user's.
    let reach = StepAsk::Connect {
        job: mine,
        port: 22,
    };
    let bare = ask_node(&node, 0, &reach);
    assert!(matches!(bare, StepAnswer::Refused(refusal) if refusal.code == RefusalCode::Forbidden));
    let bare = ask_node(&node, DAEMON, &reach);
    assert!(matches!(bare, StepAnswer::Refused(refusal) if refusal.code == RefusalCode::NotFound));
    // Who gets one: whoever may name the user, for a job of that user, and never for root.
    assert_eq!(pass(GAMES, DAEMON, Some(mine)), Err(RefusalCode::Forbidden));
    assert_eq!(pass(WWW, GAMES, Some(mine)), Err(RefusalCode::NotFound));
    assert_eq!(pass(WWW, 0, None), Err(RefusalCode::Forbidden));
    assert!(pass(DAEMON, DAEMON, Some(mine)).is_ok());
}
