//! Which headers go to a program of a job, and which come back.
//!
//! A program gets nothing that would let it act on the page, and believes that it is spoken to on its
//! own host, since programs such as notebooks refuse other names. Pure.

use super::names::{AppAddress, AppName};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

/// Headers of one connection. Source: RFC 9110, 7.6.1.
const OF_CONNECTION: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
];
/// What says to this program who asks.
const OF_PAGE: [&str; 4] = [
    "x-cosy-csrf",
    "x-slurm-user-token",
    "x-slurm-user-name",
    "referer",
];

/// Whether a request comes from the program's own pages, or from none: one of another site's that changes
/// something, or opens a connection, is not passed on.
pub fn is_own(headers: &HeaderMap, origin: &str) -> bool {
    let from = headers.get(header::ORIGIN);
    let site = headers
        .get("sec-fetch-site")
        .and_then(|site| site.to_str().ok());
    let is_foreign = |site: &str| site != "same-origin" && site != "none";
    match from {
        Some(from) => from.as_bytes() == origin.as_bytes(),
        None => !site.is_some_and(is_foreign),
    }
}

/// Whether another protocol is asked for, such as WebSocket.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(header::UPGRADE)
        && words(headers, header::CONNECTION).any(|word| word.eq_ignore_ascii_case("upgrade"))
}

fn words(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let all = headers.get_all(name).into_iter();
    all.filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim)
}

/// The headers that are for the next one; `upgrade` is kept where it is asked for.
fn of_message(headers: &HeaderMap, upgrades: bool) -> HeaderMap {
    let named: Vec<String> = words(headers, header::CONNECTION)
        .map(str::to_ascii_lowercase)
        .collect();
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        let word = name.as_str();
        let is_dropped = OF_CONNECTION.contains(&word)
            || word == "upgrade"
            || named.iter().any(|other| other == word);
        if !is_dropped {
            kept.append(name.clone(), value.clone());
        }
    }
    if upgrades && let Some(value) = headers.get(header::UPGRADE) {
        kept.insert(header::UPGRADE, value.clone());
        kept.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    kept
}

/// What a program is sent. `cookie` is the page's own; `named_in` the header in which a server in front
/// says who asks.
pub fn to_program(
    headers: &HeaderMap,
    address: &AppAddress,
    name: AppName,
    cookie: &str,
    named_in: Option<&str>,
) -> HeaderMap {
    let mut all = of_message(headers, is_upgrade(headers));
    for word in OF_PAGE.into_iter().chain(named_in) {
        all.remove(word);
    }
    let own = format!("localhost:{}", name.port);
    let was_own = all
        .get(header::ORIGIN)
        .is_some_and(|o| *o == address.origin(name).as_str());
    if was_own && let Ok(value) = format!("http://{own}").parse() {
        all.insert(header::ORIGIN, value);
    }
    // A password for the server in front is none for the program.
    let is_basic = |value: &HeaderValue| {
        value
            .as_bytes()
            .get(..6)
            .is_some_and(|b| b.eq_ignore_ascii_case(b"basic "))
    };
    if all.get(header::AUTHORIZATION).is_some_and(is_basic) {
        all.remove(header::AUTHORIZATION);
    }
    let cookies = others(headers, cookie);
    all.remove(header::COOKIE);
    if !cookies.is_empty()
        && let Ok(value) = HeaderValue::from_bytes(cookies.as_bytes())
    {
        all.insert(header::COOKIE, value);
    }
    let shown = address.origin(name);
    if let Some((scheme, host)) = shown.split_once("://") {
        for (name, value) in [("x-forwarded-proto", scheme), ("x-forwarded-host", host)] {
            if let Ok(value) = value.parse() {
                all.insert(HeaderName::from_static(name), value);
            }
        }
    }
    if let Ok(value) = own.parse() {
        all.insert(header::HOST, value);
    }
    all
}

/// All cookies but that one.
fn others(headers: &HeaderMap, own: &str) -> String {
    let all = headers.get_all(header::COOKIE).into_iter();
    let all = all.filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|line| line.split(';')).map(str::trim);
    let kept = pairs.filter(|pair| pair.split('=').next().map(str::trim) != Some(own));
    let kept: Vec<&str> = kept.filter(|pair| !pair.is_empty()).collect();
    kept.join("; ")
}

/// What a browser is sent of a program's answer.
pub fn to_browser(headers: &HeaderMap, name: AppName, cookie: &str, upgrades: bool) -> HeaderMap {
    let mut all = of_message(headers, upgrades);
    // How the page is reached is not the program's to say.
    all.remove(header::STRICT_TRANSPORT_SECURITY);
    all.remove("clear-site-data");
    let own = format!("localhost:{}", name.port);
    if let Some(place) = all
        .get(header::LOCATION)
        .and_then(|place| local(place, &own))
    {
        all.insert(header::LOCATION, place);
    }
    let set: Vec<HeaderValue> = all
        .get_all(header::SET_COOKIE)
        .into_iter()
        .filter_map(|value| narrowed(value, cookie))
        .collect();
    all.remove(header::SET_COOKIE);
    for value in set {
        all.append(header::SET_COOKIE, value);
    }
    all
}

/// A place on the name that the program believes to have, without that name.
fn local(place: &HeaderValue, own: &str) -> Option<HeaderValue> {
    let uri: Uri = place.to_str().ok()?.parse().ok()?;
    let is_own = uri
        .authority()
        .is_some_and(|authority| authority.as_str() == own);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    is_own.then(|| path.parse().ok()).flatten()
}

/// A cookie for the program's own name alone; none that has the name of the page's.
fn narrowed(value: &HeaderValue, own: &str) -> Option<HeaderValue> {
    let text = value.to_str().ok()?;
    let mut parts = text.split(';');
    let pair = parts.next()?;
    if pair.split('=').next().map(str::trim) == Some(own) {
        return None;
    }
    let is_domain = |part: &&str| {
        let name = part.split('=').next().unwrap_or_default().trim();
        name.eq_ignore_ascii_case("domain")
    };
    let kept: Vec<&str> = std::iter::once(pair)
        .chain(parts.filter(|part| !is_domain(part)))
        .collect();
    kept.join(";").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::JobId;

    const NAME: AppName = AppName {
        job: JobId(12),
        port: 8888,
    };

    fn headers(all: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in all {
            map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        map
    }

    fn shown(all: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<String> = all
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_program_learns_nothing_that_acts_on_the_page() {
        let address = AppAddress::parse("https://*.jobs.example.org").unwrap();
        let sent = headers(&[
            ("host", "j12-8888.jobs.example.org"),
            ("origin", "https://j12-8888.jobs.example.org"),
            ("cookie", "__Host-cosy-app=secret; _xsrf=1"),
            ("cookie", "other=2"),
            ("x-cosy-csrf", "word"),
            ("x-remote-user", "ann"),
            ("authorization", "Basic abc"),
            ("connection", "keep-alive, X-Odd"),
            ("x-odd", "1"),
            ("upgrade", "h2c"),
            ("referer", "https://page/secret"),
            ("accept", "*/*"),
        ]);
        let got = to_program(&sent, &address, NAME, "__Host-cosy-app", Some("x-remote-user"));
        let want = [
            "accept: */*",
            "cookie: _xsrf=1; other=2",
            "host: localhost:8888",
            "origin: http://localhost:8888",
            "x-forwarded-host: j12-8888.jobs.example.org",
            "x-forwarded-proto: https",
        ];
        assert_eq!(shown(&got), want);
    }

    #[test]
    fn another_protocol_is_passed_on_where_it_is_asked_for() {
        let address = AppAddress::of_this_host(80);
        let sent = headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("authorization", "token x"),
        ]);
        let got = to_program(&sent, &address, NAME, "c", None);
        assert_eq!(
            (got["upgrade"].as_bytes(), got["connection"].as_bytes()),
            (&b"websocket"[..], &b"upgrade"[..])
        );
        assert_eq!(got["authorization"], "token x");
        assert!(is_upgrade(&sent) && !is_upgrade(&headers(&[("upgrade", "websocket")])));
    }

    #[test]
    fn what_comes_back_stays_with_the_program() {
        let sent = headers(&[
            ("location", "http://localhost:8888/lab?x=1"),
            ("set-cookie", "_xsrf=1; Domain=.example.org; Path=/"),
            ("set-cookie", "cosy-app=x"),
            ("strict-transport-security", "max-age=1"),
            ("transfer-encoding", "chunked"),
            ("content-type", "text/html"),
        ]);
        let got = to_browser(&sent, NAME, "cosy-app", false);
        let want = [
            "content-type: text/html",
            "location: /lab?x=1",
            "set-cookie: _xsrf=1; Path=/",
        ];
        assert_eq!(shown(&got), want);
        let elsewhere = headers(&[("location", "https://example.org/")]);
        assert_eq!(
            shown(&to_browser(&elsewhere, NAME, "c", false)),
            ["location: https://example.org/"]
        );
    }

    #[test]
    fn requests_of_other_sites_are_known() {
        let own = "http://j12-8888.localhost:80";
        let check = |all: &[(&str, &str)], want: bool| {
            assert_eq!(is_own(&headers(all), own), want, "{all:?}")
        };
        check(&[], true);
        check(&[("origin", own)], true);
        check(&[("origin", "http://j13-8888.localhost:80")], false);
        check(&[("origin", "null")], false);
        check(&[("sec-fetch-site", "same-site")], false);
        check(&[("sec-fetch-site", "same-origin")], true);
        check(&[("origin", own), ("sec-fetch-site", "cross-site")], true);
    }
}
