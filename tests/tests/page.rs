//! The web page: who may say whom it asks for, who is let in, what a user sees and may do, and what
//! it does with what is no request.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::api::{JobFilter, NodeAction, Reply, Request};
use cosy_model::{RefusalCode, Uid};
use cosy_tests::page::{Answer, DAEMON, GAMES, Page, WWW};
use cosy_tests::people::as_user;
use cosy_tests::{Client, Cluster, Options, system, wait};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const JSON: &str = "Content-Type: application/json";

/// A cluster whose page is asked for by an ordinary user, with these further lines of `[web]`.
fn cluster(web: &str) -> Option<Cluster> {
    if !nix::unistd::getuid().is_root() {
        system::skip("not root: nobody can be somebody else");
        return None;
    }
    let options = Options {
        controller: format!("[web]\nuser = \"www-data\"\n{web}"),
        ..Options::default()
    };
    let cluster = Cluster::start(1, options);
    cluster.open_commands();
    Some(cluster)
}

fn submit_as(cluster: &Cluster, page: &Page, uid: u32, words: &[&str]) -> String {
    let words = [&["csub", "-t", "30", "--output", "/dev/null"], words].concat();
    let told = page.command_as(cluster, uid, &words).expect(0).out;
    told.trim().rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn only_the_page_may_ask_for_others() {
    let Some(cluster) = cluster("") else { return };
    let ask = |uid: u32, named: u32, request: Request| {
        let socket = cluster.socket();
        as_user(uid, || {
            Client::connect(&socket)
                .unwrap()
                .ask_for(Uid(named), request)
                .unwrap()
        })
    };
    let drain = || Request::NodeControl {
        nodes: vec!["n1".into()],
        action: NodeAction::Drain { reason: "x".into() },
    };
    let hold = |users: &str| Request::Hold {
        filter: JobFilter {
            users: vec![users.into()],
            ..JobFilter::default()
        },
        as_user: false,
    };
    let code = |reply: Reply| match reply {
        Reply::Refused(refusal) => Some(refusal.code),
        Reply::Done {
            changed: 0,
            refused,
        } => refused.first().map(|(_, refusal)| refusal.code),
        _ => None,
    };
    // Ordinary users may not, not even for somebody with less.
    for named in [0, GAMES, WWW] {
        let refused = code(ask(DAEMON, named, Request::Ping));
        assert_eq!(refused, Some(RefusalCode::Forbidden), "{named}");
    }
    assert_eq!(code(ask(DAEMON, DAEMON, Request::Ping)), None);
    // The page may, and administrators whom it names have no more rights than others.
    assert_eq!(code(ask(WWW, GAMES, Request::Ping)), None);
    assert_eq!(code(ask(WWW, 0, drain())), Some(RefusalCode::Forbidden));
    // For itself it may look at everything and change nothing.
    assert_eq!(code(ask(WWW, WWW, drain())), Some(RefusalCode::Forbidden));
    // Root may take anybody's place.
    assert_eq!(code(ask(0, GAMES, drain())), Some(RefusalCode::Forbidden));
    let page = Page::start(&cluster, WWW, "");
    let job = submit_as(&cluster, &page, DAEMON, &["--hold", "--", "true"]);
    let refused = code(ask(
        WWW,
        WWW,
        Request::Cancel {
            filter: JobFilter {
                ids: vec![job.parse().unwrap()],
                ..JobFilter::default()
            },
            signal: None,
            script_only: false,
            steps_only: false,
        },
    ));
    assert_eq!(refused, Some(RefusalCode::Forbidden));
    assert_eq!(code(ask(WWW, DAEMON, hold("daemon"))), None);
}

#[test]
fn administrators_keep_their_rights_where_the_site_says_so() {
    let Some(cluster) = cluster("administrators = true\n") else {
        return;
    };
    let page = Page::start(&cluster, WWW, "");
    let root = page.bearer(&cluster, 0);
    let body = json!({ "action": "drain", "reason": "a fan" }).to_string();
    let other = page.bearer(&cluster, DAEMON);
    let refused = page.ask("POST", "/api/v1/nodes/n1", &[&other, JSON], &body);
    assert_eq!(refused.expect(403)["error"]["code"], "forbidden");
    page.ask("POST", "/api/v1/nodes/n1", &[&root, JSON], &body)
        .expect(200);
    page.until("the node drains", "/api/v1/nodes/n1", &[&other], |answer| {
        answer.json()["state"] == "drained" && answer.json()["reason"] == "a fan"
    });
    page.ask("POST", "/api/v1/nodes/n1", &[&root, JSON], "{\"action\": \"resume\"}")
        .expect(200);
    let mistake = page.ask("POST", "/api/v1/nodes/n1", &[&root, JSON], "{\"action\": \"explode\"}");
    assert!(
        mistake.expect(400)["error"]["message"]
            .as_str()
            .unwrap()
            .contains("explode")
    );
}

#[test]
fn who_is_let_in() {
    let Some(cluster) = cluster("") else { return };
    let page = Page::start(&cluster, WWW, "");
    let me = |headers: &[&str]| page.ask("GET", "/api/v1/me", headers, "");
    let unknown = me(&[]);
    assert_eq!(unknown.expect(401)["error"]["code"], "unauthenticated");
    assert!(
        unknown
            .header("www-authenticate")
            .unwrap()
            .starts_with("Bearer")
    );
    // A token, in both headers that programs know.
    let bearer = page.bearer(&cluster, DAEMON);
    assert_eq!(me(&[&bearer]).expect(200)["user"], "daemon");
    let token = bearer.rsplit(' ').next().unwrap();
    let slurm = format!("X-SLURM-USER-TOKEN: {token}");
    assert_eq!(me(&[&slurm, "X-SLURM-USER-NAME: daemon"]).expect(200)["user"], "daemon");
    me(&[&slurm, "X-SLURM-USER-NAME: root"]).expect(401);
    for bad in [
        "Authorization: Bearer x.y.z",
        "Authorization: Basic cm9vdDo=",
        "X-SLURM-USER-TOKEN: ",
    ] {
        me(&[bad]).expect(401);
    }
    // Without the right name a trusted header is only a header.
    me(&["X-Remote-User: root"]).expect(401);
    // Nobody makes a token of another one, or one for somebody else.
    let again = page.ask("POST", "/api/v1/tokens", &[&bearer, JSON], "{}");
    assert_eq!(again.expect(403)["error"]["code"], "forbidden");
    page.command_as(&cluster, DAEMON, &["cosy", "token", "--user", "root"])
        .expect_refusal("only root");
    let made =
        page.command_as(&cluster, 0, &["scontrol", "token", "username=games", "lifespan=90"]);
    let jwt = made.expect(0).out;
    let games = format!("Authorization: Bearer {}", jwt.trim().strip_prefix("SLURM_JWT=").unwrap());
    assert_eq!(me(&[&games]).expect(200)["user"], "games");
    page.command_as(&cluster, DAEMON, &["cosy", "token", "-t", "9000d"])
        .expect_refusal("is good for");
    // All of a user's are taken back, and nobody else's.
    page.command_as(&cluster, DAEMON, &["cosy", "token", "--revoke"])
        .expect(0);
    assert!(
        me(&[&bearer]).expect(401)["error"]["message"]
            .as_str()
            .unwrap()
            .contains("revoked")
    );
    me(&[&games]).expect(200);
}

#[test]
fn a_link_logs_a_browser_in_once() {
    let Some(cluster) = cluster("") else { return };
    let page = Page::start(&cluster, WWW, "");
    let link = page
        .command_as(&cluster, DAEMON, &["cosy", "web", "jobs/7"])
        .expect(0)
        .out;
    let path = link[link.find("/enter").unwrap()..].trim();
    let entered = page.ask("GET", path, &[], "");
    assert_eq!((entered.status, entered.header("location")), (303, Some("/jobs/7")));
    let set = entered.header("set-cookie").unwrap();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(set.contains(word), "{set}");
    }
    let again = page.ask("GET", path, &[], "");
    assert_eq!((again.status, again.header("location")), (303, Some("/login?used")));
    assert_eq!(again.header("set-cookie"), None);
    let astray = page.ask("GET", &path.replace("/jobs/7", "//evil.example"), &[], "");
    assert_eq!(astray.header("location"), Some("/login?used"));

    let (cookie, word) = page.log_in(&cluster, DAEMON);
    let job = submit_as(&cluster, &page, DAEMON, &["--hold", "--", "true"]);
    let cancel = |headers: &[&str]| page.ask("DELETE", &format!("/api/v1/jobs/{job}"), headers, "");
    // What another site makes a browser send: the cookie, and neither the word nor the right origin.
    cancel(&[&cookie]).expect(403);
    cancel(&[&cookie, "X-Cosy-Csrf: 00000000000000000000000000000000"]).expect(403);
    cancel(&[&cookie, &word, "Sec-Fetch-Site: cross-site"]).expect(403);
    let (_, others_word) = page.log_in(&cluster, GAMES);
    cancel(&[&cookie, &others_word]).expect(403);
    cancel(&[&cookie, &word, "Sec-Fetch-Site: same-origin"]).expect(200);
    // The cookie is no token for programs.
    let session = cookie.split_once('=').unwrap().1;
    let as_token = format!("Authorization: Bearer {session}");
    page.ask("GET", "/api/v1/me", &[&as_token], "").expect(401);
    // Logged out is logged out, also for who has kept the cookie.
    page.ask("DELETE", "/api/v1/session", &[&cookie, &word], "")
        .expect(200);
    page.ask("GET", "/api/v1/me", &[&cookie], "").expect(401);
    // With a token, for no longer than that is good.
    let made = page
        .command_as(&cluster, DAEMON, &["cosy", "token", "-t", "10"])
        .expect(0)
        .out;
    let body = json!({ "token": made.trim() }).to_string();
    let entered = page.ask("POST", "/api/v1/session", &[JSON], &body);
    entered.expect(200);
    let age = entered
        .header("set-cookie")
        .unwrap()
        .split("Max-Age=")
        .nth(1)
        .unwrap();
    let age: u64 = age.split(';').next().unwrap().parse().unwrap();
    assert!(age <= 600, "{age}");
    let cookie = format!("Cookie: {}", entered.cookie());
    assert_eq!(page.ask("GET", "/api/v1/me", &[&cookie], "").expect(200)["user"], "daemon");
}

#[test]
fn users_see_and_steer_what_is_theirs() {
    let Some(cluster) = cluster("") else { return };
    let page = Page::start(&cluster, WWW, "");
    let job =
        submit_as(&cluster, &page, DAEMON, &["-J", "<script>x</script>", "--hold", "--", "true"]);
    let (own, other) = (page.bearer(&cluster, DAEMON), page.bearer(&cluster, GAMES));
    let path = format!("/api/v1/jobs/{job}");
    let seen = page.ask("GET", &path, &[&own], "").expect(200);
    assert_eq!(seen["tasks"][0]["name"], "<script>x</script>");
    // visibility = "own": others are not told that there is such a job.
    assert_eq!(page.ask("GET", &path, &[&other], "").expect(404)["error"]["code"], "not_found");
    let list = |who: &str, query: &str| -> Vec<serde_json::Value> {
        let list = page
            .ask("GET", &format!("/api/v1/jobs{query}"), &[who], "")
            .expect(200);
        list["jobs"].as_array().unwrap().clone()
    };
    assert_eq!((list(&own, "").len(), list(&other, "").len()), (1, 0));
    assert_eq!((list(&own, "?states=running").len(), list(&own, "?states=waiting").len()), (0, 1));
    page.ask("GET", "/api/v1/jobs?states=rnning", &[&own], "")
        .expect(400);
    page.ask("GET", "/api/v1/jobs?colour=red", &[&own], "")
        .expect(400);
    page.ask("GET", "/api/v1/events", &[&own], "").expect(403);
    for (method, more) in [("DELETE", ""), ("POST", "/release"), ("POST", "/hold")] {
        page.ask(method, &format!("{path}{more}"), &[&other, JSON], "{}")
            .expect(404);
    }
    // The figures of the cluster count everybody's jobs, for the page may look at them.
    page.until("it is counted", "/api/v1/now", &[&other], |answer| {
        answer.json()["load"]["waiting"] == 1
    });
    let change =
        page.ask("PATCH", &path, &[&own, JSON], "{\"time_limit\": 600, \"name\": \"better\"}");
    change.expect(200);
    let seen = page.ask("GET", &path, &[&own], "").expect(200);
    assert_eq!(
        (&seen["tasks"][0]["time_limit"], &seen["tasks"][0]["name"]),
        (&json!(600), &json!("better"))
    );
    page.ask("PATCH", &path, &[&own, JSON], "{}").expect(400);
    // The page is no user's: it reads nobody's files itself, and no node daemon is reached from here.
    let output = page.ask("GET", &format!("{path}/output"), &[&own], "");
    assert_eq!(output.expect(409)["error"]["code"], "no_way");
    page.ask("POST", &format!("{path}/release"), &[&own], "")
        .expect(200);
    cluster.until_end(cosy_model::JobId(job.parse().unwrap()));
    let refused = page.ask("DELETE", &path, &[&own], "");
    assert_eq!(refused.expect(409)["error"]["code"], "wrong_state");
}

#[test]
fn time_is_booked() {
    let Some(cluster) = cluster("") else { return };
    let page = Page::start(&cluster, WWW, "");
    let own = page.bearer(&cluster, DAEMON);
    let post = |path: &str, body: serde_json::Value| {
        page.ask("POST", &format!("/api/v1{path}"), &[&own, JSON], &body.to_string())
    };
    let quote = post("/quotes", json!({ "length": 3600, "nodes": 1, "most": 5 })).expect(200);
    let slot = quote["slots"]
        .as_array()
        .unwrap()
        .iter()
        .find(|slot| slot["admitted"] == true)
        .unwrap();
    let start = slot["start_ms"].as_i64().unwrap() + 7_200_000;
    let held = post(
        "/reservations",
        json!({ "length": 3600, "nodes": 1, "start": start, "hold": true, "name": "a,b;c" }),
    );
    let held = held.expect(200);
    let one = &held["reservations"][0];
    assert_eq!((&one["state"], &one["start_ms"]), (&json!("held"), &json!(start)));
    assert!(one["hold_until_ms"].as_i64().unwrap() > one["now_ms"].as_i64().unwrap());
    let id = one["id"].as_u64().unwrap();
    let confirmed = post(&format!("/reservations/{id}/confirm"), json!({})).expect(200);
    assert_eq!(confirmed["reservations"][0]["state"], "confirmed");
    let calendar = page.ask("GET", "/api/v1/reservations.ics", &[&own], "");
    assert_eq!(calendar.header("content-type"), Some("text/calendar; charset=utf-8"));
    assert!(calendar.body.contains("SUMMARY:a\\,b\\;c (1 nodes"), "{}", calendar.body);
    // Everybody's calendar is his own.
    let other = page.bearer(&cluster, GAMES);
    assert!(
        !page
            .ask("GET", "/api/v1/reservations.ics", &[&other], "")
            .body
            .contains("VEVENT")
    );
    let away = page.ask("DELETE", &format!("/api/v1/reservations/{id}"), &[&other], "");
    assert!(away.status == 403 || away.status == 404, "{away:?}");
    let over = page
        .ask("DELETE", &format!("/api/v1/reservations/{id}"), &[&own], "")
        .expect(200);
    assert_eq!(over["changed"], 1);
    // Weekly, by the starts that the browser has worked out.
    let starts: Vec<i64> = (0..2).map(|week| start + week * 7 * 86_400_000).collect();
    let series = post(
        "/reservations",
        json!({ "length": 600, "nodes": 1, "repeat": starts, "rule": "FREQ=WEEKLY;COUNT=2" }),
    );
    assert_eq!(series.expect(200)["reservations"].as_array().unwrap().len(), 2);
    for (mistake, word) in [
        (json!({ "length": 0 }), "length"),
        (json!({ "length": 60, "nodes": 99 }), "nodes"),
        (json!({ "length": 60, "start": "tomorrow" }), "2026-11-28"),
        (json!({ "length": 60, "wings": 2 }), "wings"),
        (json!([1]), "body"),
    ] {
        let refused = post("/reservations", mistake.clone());
        assert!(refused.status >= 400 && refused.status < 500, "{mistake}: {refused:?}");
        let message = refused.json()["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(message.contains(word), "{mistake}: {message}");
    }
}

#[test]
fn a_page_to_look_at_changes_nothing() {
    let Some(cluster) = cluster("") else { return };
    let page = Page::start(&cluster, WWW, "read_only = true\nmetrics = \"off\"");
    let own = page.bearer(&cluster, DAEMON);
    let job = submit_as(&cluster, &page, DAEMON, &["--hold", "--", "true"]);
    let refused = page.ask("DELETE", &format!("/api/v1/jobs/{job}"), &[&own], "");
    assert!(
        refused.expect(403)["error"]["message"]
            .as_str()
            .unwrap()
            .contains("only shows")
    );
    let book = json!({ "length": 60, "nodes": 1 }).to_string();
    page.ask("POST", "/api/v1/reservations", &[&own, JSON], &book)
        .expect(403);
    // What it would cost may be asked.
    page.ask("POST", "/api/v1/quotes", &[&own, JSON], &book)
        .expect(200);
    assert_eq!(page.ask("GET", "/api/v1/me", &[&own], "").expect(200)["read_only"], true);
}

#[test]
fn a_trusted_server_says_who_asks() {
    let Some(cluster) = cluster("") else { return };
    let lines = "[proxy]\nuser = \"games\"\nheader = \"X-Remote-User\"\nfrom = [\"10.9.8.7\"]";
    let page = Page::start(&cluster, WWW, lines);
    let me = |uid: u32, headers: &[&str]| page.ask_as(uid, "GET", "/api/v1/me", headers);
    // Through the server in front, which the kernel knows.
    assert_eq!(me(GAMES, &["X-Remote-User: daemon"]).expect(200)["user"], "daemon");
    me(GAMES, &["X-Remote-User: nobody-of-that-name"]).expect(401);
    me(GAMES, &["X-Remote-User: "]).expect(401);
    // One that the browser sent and one that the server added: nobody can tell which is which.
    me(GAMES, &["X-Remote-User: root", "X-Remote-User: daemon"]).expect(401);
    let forged = ["X-Remote-User: daemon", "Sec-Fetch-Site: cross-site"];
    page.ask_as(GAMES, "DELETE", "/api/v1/jobs/1", &forged)
        .expect(403);
    // A form of another site can have everything but a header of its own, in browsers that do not say where
    // it comes from.
    page.ask_as(GAMES, "DELETE", "/api/v1/jobs/1", &["X-Remote-User: daemon"])
        .expect(403);
    let own = ["X-Remote-User: daemon", "X-Cosy-Csrf: page"];
    page.ask_as(GAMES, "DELETE", "/api/v1/jobs/1", &own)
        .expect(404);
    // Without a name it is nobody, and who logged in comes through it with the cookie.
    me(GAMES, &[]).expect(401);
    let (cookie, _) = page.log_in(&cluster, DAEMON);
    assert_eq!(me(GAMES, &[&cookie]).expect(200)["user"], "daemon");
    // Everybody else who says so is who he is, over the socket, or nobody.
    assert_eq!(me(DAEMON, &["X-Remote-User: root"]).expect(200)["user"], "daemon");
    page.ask("GET", "/api/v1/me", &["X-Remote-User: root"], "")
        .expect(401);
}

#[test]
fn the_controller_goes_and_comes_back() {
    let Some(mut cluster) = cluster("") else {
        return;
    };
    let mut page = Page::start(&cluster, WWW, "");
    let own = page.bearer(&cluster, DAEMON);
    let job = submit_as(&cluster, &page, DAEMON, &["--hold", "--", "true"]);
    page.ask("GET", "/api/v1/me", &[&own], "").expect(200);
    cluster.cosyd.kill();
    let away = page.until("it is missed", "/api/v1/me", &[&own], |answer| answer.status != 200);
    assert_eq!(away.expect(503)["error"]["code"], "unavailable");
    assert_eq!(away.header("retry-after"), Some("2"));
    // Where its socket is on this host is nobody's business.
    assert!(!away.body.contains('/'), "{}", away.body);
    // The page itself is there, for it says so itself.
    assert_eq!(page.ask("GET", "/jobs", &[], "").status, 200);
    cluster.start_cosyd();
    page.until("it is back", "/api/v1/me", &[&own], |answer| answer.status == 200);
    page.ask("GET", &format!("/api/v1/jobs/{job}"), &[&own], "")
        .expect(200);
    // And the page: tokens and what was revoked outlive it.
    let lost = page.bearer(&cluster, GAMES);
    page.command_as(&cluster, GAMES, &["cosy", "token", "--revoke"])
        .expect(0);
    page.daemon.kill();
    let page = Page::start(&cluster, WWW, "");
    page.ask("GET", "/api/v1/me", &[&own], "").expect(200);
    page.ask("GET", "/api/v1/me", &[&lost], "").expect(401);
}

#[test]
fn what_is_no_request_harms_nobody() {
    let Some(cluster) = cluster("") else { return };
    let page = Page::start(&cluster, WWW, "");
    let own = page.bearer(&cluster, DAEMON);
    let guarded = |answer: &Answer| {
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(
            policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
            "{answer:?}"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{answer:?}");
    };
    for (path, status) in [
        ("/", 200),
        ("/assets/main.js", 200),
        ("/jobs/1", 200),
        ("/assets/../../../../etc/passwd", 404),
        ("/assets/%2e%2e/%2e%2e/etc/passwd", 404),
        ("/wp-admin.php", 404),
        ("/api/v1/nothing", 404),
        ("/api/v2/jobs", 404),
    ] {
        let answer = page.ask("GET", path, &[&own], "");
        assert_eq!(answer.status, status, "{path}");
        assert!(!answer.body.contains("root:x:"), "{path}");
        guarded(&answer);
    }
    for path in [
        "/api/v1/jobs/0",
        "/api/v1/jobs/x",
        "/api/v1/jobs/1_",
        "/api/v1/jobs/99999999999999999999",
        "/api/v1/jobs/%00",
    ] {
        let answer = page.ask("GET", path, &[&own], "");
        assert!(answer.status == 400 || answer.status == 404, "{path}: {answer:?}");
        guarded(&answer);
    }
    let quote = |body: &str, kind: &str| page.ask("POST", "/api/v1/quotes", &[&own, kind], body);
    let large = format!("{{\"length\": 60, \"comment\": \"{}\"}}", "x".repeat(100_000));
    assert_eq!(quote(&large, JSON).status, 413);
    let deep = format!("{}1{}", "[".repeat(60_000 / 2), "]".repeat(60_000 / 2));
    quote(&deep, JSON).expect(400);
    quote("{\"length\": 60}", "Content-Type: text/plain").expect(415);
    quote("\u{0}\u{1}", JSON).expect(400);
    for path in [
        "/api/v1/plan?from=1&to=0",
        "/api/v1/plan",
        "/api/v1/plan?from=0&to=9999999999999",
        "/api/v1/plan?from=0&to=9999&nodes=n[1-999999999]",
        "/api/v1/use?span=age",
    ] {
        let answer = page.ask("GET", path, &[&own], "");
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
    }
    page.ask("BREW", "/api/v1/jobs", &[&own], "").expect(405);
    let long = format!("X-Long: {}", "x".repeat(200_000));
    let answer = page.ask("GET", "/api/v1/me", &[&own, &long], "");
    assert!(answer.status == 431 || answer.status == 400, "{answer:?}");
    // Connections on which nobody says anything do not hold others up.
    let silent: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(page.address()).unwrap())
        .collect();
    let mut half = TcpStream::connect(page.address()).unwrap();
    half.write_all(b"GET /api/v1/me HTTP/1.1\r\nHost: x\r\nX: ")
        .unwrap();
    page.ask("GET", "/api/v1/me", &[&own], "").expect(200);
    drop(silent);
    half.set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut rest = Vec::new();
    // It is told that it took too long, or that is all.
    let _ = half.read_to_end(&mut rest);
    let mut garbage = TcpStream::connect(page.address()).unwrap();
    garbage
        .write_all(&[
            0x16, 0x03, 0x01, 0x02, 0x00, 0xff, b'\r', b'\n', b'\r', b'\n',
        ])
        .unwrap();
    let mut told = Vec::new();
    let _ = garbage.read_to_end(&mut told);
    page.ask("GET", "/api/v1/me", &[&own], "").expect(200);
}

#[test]
fn one_user_does_not_use_up_what_others_have() {
    let Some(cluster) = cluster("") else { return };
    let page = Page::start(&cluster, WWW, "");
    let (loud, quiet) = (page.bearer(&cluster, DAEMON), page.bearer(&cluster, GAMES));
    let busy = wait::until("the loud one is stopped", || {
        let all = (0..200).map(|_| page.ask("GET", "/api/v1/me", &[&loud], ""));
        all.into_iter().find(|answer| answer.status != 200)
    });
    assert_eq!(busy.expect(429)["error"]["code"], "busy");
    page.ask("GET", "/api/v1/me", &[&quiet], "").expect(200);
    // Streams are counted too: each one asks the controller every second.
    page.until("it may ask again", "/api/v1/me", &[&loud], |answer| answer.status == 200);
}
