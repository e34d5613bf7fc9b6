//! `web.toml`: reading it, and saying every fault with file and line.

use crate::interactive::names::AppAddress;
use cosy_client::node_socket;
use cosy_config::{Check, Faults};
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Bytes of a configuration, at most.
const MOST: u64 = 256 << 10;

/// A server in front, which speaks for those who come through it. On this host it is known by the kernel,
/// for everybody here can connect from `127.0.0.1`; on another one by its address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrustedProxy {
    /// Name of the header with the login name, in small letters; without, it names nobody.
    pub header: Option<String>,
    /// Login name of the user that it runs as, if it connects over the socket.
    pub user: Option<String>,
    /// Addresses of other hosts that it connects from.
    pub from: Vec<IpAddr>,
}

/// What `/metrics` asks of who reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MetricsFor {
    /// Nothing.
    Everybody,
    /// A token, or another way to say who asks.
    #[default]
    Users,
    /// It is not there.
    Nobody,
}

/// Under which names browsers reach programs of jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AppNames {
    /// They cannot be reached.
    Nowhere,
    /// Below `localhost`: browsers know that those are their own host.
    OnThisHost,
    /// Below a name of the site's.
    Below(AppAddress),
}

/// The whole configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Where browsers and programs connect; `None`: only over the socket.
    pub listen: Option<SocketAddr>,
    /// Socket at which the kernel says who asks.
    pub socket: PathBuf,
    /// Keys, what was revoked, samples.
    pub state_dir: PathBuf,
    /// Key of tokens.
    pub key: PathBuf,
    /// Sockets of the controller; as commands find them where empty.
    pub controller: Vec<PathBuf>,
    /// The address that people have, for links: `https://cosy.example.org`.
    pub address: Option<String>,
    /// Browsers are told to send cookies over TLS only.
    pub secure: bool,
    /// Nothing can be changed over it.
    pub read_only: bool,
    /// Longest life of a token that users make for themselves, in seconds.
    pub token_seconds: u64,
    /// Who says in a header who asks.
    pub proxy: Option<TrustedProxy>,
    /// Under which names programs of jobs are.
    pub apps: AppNames,
    /// Sockets for steps of this host's node daemon.
    pub node_sockets: Vec<PathBuf>,
    /// Who may read `/metrics`.
    pub metrics: MetricsFor,
    /// Folder of scripts that the form for jobs can begin with.
    pub templates: Option<PathBuf>,
    /// Which messages are logged.
    pub log: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<Spanned<String>>,
    socket: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    key: Option<PathBuf>,
    #[serde(default)]
    controller: Vec<PathBuf>,
    address: Option<Spanned<String>>,
    secure: Option<bool>,
    #[serde(default)]
    read_only: bool,
    token_days: Option<Spanned<u64>>,
    proxy: Option<Proxy>,
    jobs_address: Option<Spanned<String>>,
    node_socket: Option<PathBuf>,
    metrics: Option<Spanned<String>>,
    templates: Option<PathBuf>,
    log: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Proxy {
    header: Option<Spanned<String>>,
    user: Option<Spanned<String>>,
    from: Option<Spanned<Vec<String>>>,
}

/// Reads and checks a configuration file; one that is not there is an empty one.
///
/// # Errors
/// [`Faults`]: every fault found.
pub fn read(path: &Path) -> Result<Config, Faults> {
    match path.exists() {
        true => parse(path, &cosy_config::read(path, MOST)?),
        false => Err(Faults(vec![format!("{}: there is no such file", path.display())])),
    }
}

/// Checks the text of a configuration file.
///
/// # Errors
/// [`Faults`]: every fault found.
pub fn parse(path: &Path, text: &str) -> Result<Config, Faults> {
    let mut check = Check::new(path, text, &[]);
    let Some(file) = check.deserialize::<File>() else {
        return Err(check.into_faults());
    };
    let state_dir = file.state_dir.unwrap_or_else(|| "/var/lib/cosy-web".into());
    let proxy = file.proxy.map(|table| proxy(&mut check, table));
    let address = file.address.as_ref().map(|text| address(&mut check, text));
    let listen = listen(
        &mut check,
        file.listen.as_ref(),
        proxy.as_ref().is_some_and(|proxy| !proxy.from.is_empty()),
    );
    let config = Config {
        listen,
        apps: apps(&mut check, file.jobs_address.as_ref(), address.is_some(), listen),
        node_sockets: match file.node_socket {
            Some(socket) => vec![socket],
            None => node_socket::of_this_host(),
        },
        socket: file
            .socket
            .unwrap_or_else(|| cosy_client::cluster::WEB_SOCKET.into()),
        key: file.key.unwrap_or_else(|| state_dir.join("token.key")),
        state_dir,
        controller: file.controller,
        secure: file.secure.unwrap_or_else(|| {
            let is_tls = |address: &String| address.starts_with("https://");
            address.as_ref().is_some_and(is_tls)
        }),
        address,
        read_only: file.read_only,
        token_seconds: days(&mut check, file.token_days.as_ref()) * 86_400,
        proxy,
        metrics: metrics(&mut check, file.metrics.as_ref()),
        templates: file.templates,
        log: file.log.unwrap_or_else(|| "info".to_owned()),
    };
    match check.is_good() {
        true => Ok(config),
        false => Err(check.into_faults()),
    }
}

/// Where browsers connect. What goes over other networks than this host's own is for a server that
/// speaks TLS.
fn listen(
    check: &mut Check<'_>,
    text: Option<&Spanned<String>>,
    behind_proxy: bool,
) -> Option<SocketAddr> {
    let Some(text) = text else {
        return Some(SocketAddr::from(([127, 0, 0, 1], 8090)));
    };
    if text.get_ref() == "off" {
        return None;
    }
    let Ok(address) = text.get_ref().parse::<SocketAddr>() else {
        let why = "listen is an address and a port, as \"127.0.0.1:8090\", or \"off\"";
        check.fault(text.span().start, why);
        return None;
    };
    if !address.ip().is_loopback() && !behind_proxy {
        let why = "cosy-web speaks no TLS itself: listen on 127.0.0.1 or [::1] behind a server that does \
                   (docs/web.md), or name that server in [proxy]";
        check.fault(text.span().start, why);
    }
    Some(address)
}

fn address(check: &mut Check<'_>, text: &Spanned<String>) -> String {
    let address = text.get_ref().trim_end_matches('/');
    let host = address
        .strip_prefix("https://")
        .or_else(|| address.strip_prefix("http://"));
    let fine = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    if !host.is_some_and(|host| !host.is_empty() && host.chars().all(fine)) {
        check.fault(
            text.span().start,
            "address is like \"https://cosy.example.org\", without a path",
        );
    }
    address.to_owned()
}

/// Under which names programs of jobs are: without a word, and where browsers reach the page on this host
/// itself, below `localhost`.
fn apps(
    check: &mut Check<'_>,
    text: Option<&Spanned<String>>,
    has_address: bool,
    listen: Option<SocketAddr>,
) -> AppNames {
    let Some(text) = text else {
        let is_here = !has_address && listen.is_some_and(|listen| listen.ip().is_loopback());
        return if is_here {
            AppNames::OnThisHost
        } else {
            AppNames::Nowhere
        };
    };
    match AppAddress::parse(text.get_ref()) {
        Some(address) => AppNames::Below(address),
        None if text.get_ref() == "off" => AppNames::Nowhere,
        None => {
            let why = "jobs_address is like \"https://*.jobs.example.org\", or \"off\"";
            check.fault(text.span().start, why);
            AppNames::Nowhere
        }
    }
}

fn proxy(check: &mut Check<'_>, table: Proxy) -> TrustedProxy {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let header = table.header.map(|header| {
        let name = header.get_ref().to_ascii_lowercase();
        if name.is_empty() || !name.chars().all(fine) {
            let why = "header is the name of a header, as \"X-Remote-User\"";
            check.fault(header.span().start, why);
        }
        name
    });
    let user = table.user.map(|user| {
        if user.get_ref().is_empty() || user.get_ref() == "root" {
            let why =
                "user is the login name of an ordinary user that the server in front alone runs as";
            check.fault(user.span().start, why);
        }
        user.get_ref().clone()
    });
    let mut from = Vec::new();
    let listed = table.from.iter();
    for (text, at) in
        listed.flat_map(|all| all.get_ref().iter().map(|text| (text, all.span().start)))
    {
        match text.parse::<IpAddr>() {
            Ok(address) if address.to_canonical().is_loopback() => {
                let why = "everybody on this host can connect from there: let the server in front connect over \
                           the socket, and name its user: user = \"www-data\"";
                check.fault(at, why);
            }
            Ok(address) => from.push(address),
            Err(_) => check.fault(at, format!("'{text}' is no address: from = [\"10.1.2.3\"]")),
        }
    }
    TrustedProxy { header, user, from }
}

fn days(check: &mut Check<'_>, days: Option<&Spanned<u64>>) -> u64 {
    let Some(days) = days else { return 30 };
    if !(1..=366).contains(days.get_ref()) {
        check.fault(days.span().start, "token_days must be between 1 and 366");
    }
    *days.get_ref()
}

fn metrics(check: &mut Check<'_>, word: Option<&Spanned<String>>) -> MetricsFor {
    let Some(word) = word else {
        return MetricsFor::default();
    };
    match word.get_ref().as_str() {
        "everybody" => MetricsFor::Everybody,
        "users" => MetricsFor::Users,
        "off" => MetricsFor::Nobody,
        _ => {
            let why = "metrics must be \"everybody\", \"users\" or \"off\"";
            check.fault(word.span().start, why);
            MetricsFor::Nobody
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> String {
        parse(Path::new("x"), text).unwrap_err().to_string()
    }

    #[test]
    fn an_empty_file_is_a_page_for_this_host() {
        let config = parse(Path::new("x"), "").unwrap();
        assert_eq!(config.listen, Some("127.0.0.1:8090".parse().unwrap()));
        assert_eq!(config.key, Path::new("/var/lib/cosy-web/token.key"));
        assert_eq!(config.metrics, MetricsFor::Users);
        assert!(!config.secure && !config.read_only);
        assert_eq!(config.apps, AppNames::OnThisHost);
        let apps = |text| parse(Path::new("x"), text).unwrap().apps;
        assert_eq!(apps("address = \"https://c.example.org\""), AppNames::Nowhere);
        assert_eq!(apps("jobs_address = \"off\""), AppNames::Nowhere);
        assert!(matches!(apps("jobs_address = \"https://*.j.example.org\""), AppNames::Below(_)));
        let config = parse(Path::new("x"), "address = \"https://c.example.org/\"").unwrap();
        assert_eq!(config.address.as_deref(), Some("https://c.example.org"));
        assert!(config.secure);
    }

    #[test]
    fn faults_say_where_and_what_would_work() {
        let check = |text: &str, want: &str| {
            let said = faults(text);
            assert!(said.contains(want), "{text}: {said}");
        };
        check("listen = \"0.0.0.0:80\"", "x:1: cosy-web speaks no TLS");
        check("listen = \"here\"", "x:1: listen is an address");
        check("\naddress = \"cosy\"", "x:2: address is like");
        check("metrics = \"all\"", "metrics must be");
        check("jobs_address = \"https://jobs.example.org\"", "x:1: jobs_address is like");
        check("token_days = 0", "between 1 and 366");
        check("[proxy]\nheader = \"\"\nfrom = [\"x\"]", "'x' is no address");
        for loopback in ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"] {
            let text = format!("[proxy]\nheader = \"X-User\"\nfrom = [\"{loopback}\"]");
            check(&text, "x:3: everybody on this host");
        }
        check("[proxy]\nuser = \"root\"", "x:2: user is the login name of an ordinary user");
        check("lisen = \"off\"", "listen");
        let text = "listen = \"0.0.0.0:80\"\n[proxy]\nheader = \"X-User\"\nfrom = [\"10.0.0.1\"]";
        let proxy = parse(Path::new("x"), text).unwrap().proxy.unwrap();
        assert_eq!((proxy.header.as_deref(), proxy.from.len()), (Some("x-user"), 1));
    }

    #[test]
    fn the_example_is_what_holds_without_it() {
        let text = include_str!("../../etc/web.toml");
        let with_all: String = text
            .lines()
            .filter_map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(parse(Path::new("x"), text).unwrap(), parse(Path::new("x"), "").unwrap());
        let all = parse(Path::new("x"), &with_all).unwrap();
        assert!(all.proxy.is_some() && all.address.is_some(), "{with_all}");
    }
}
