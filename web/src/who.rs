//! Who asks: by the kernel's word, a token, a session of the page, or a trusted server's header.
//!
//! Everything that comes by a cookie and changes something also has to show that it comes from the
//! page itself: a word that only the page can read, and the browser's own say of where it comes from.

use crate::limits;
use crate::problem::{Problem, Result};
use crate::site::{Site, now_seconds};
use crate::tokens::Claims;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use cosy_model::Uid;
use std::net::IpAddr;
use std::sync::Arc;

/// Where a connection comes from, beside every request of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// Over the socket: the kernel says who.
    Local(Uid),
    /// Over TCP.
    Remote(IpAddr),
}

/// How it is known who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Proof {
    /// The kernel says it.
    Kernel,
    /// A token for programs.
    Token(Claims),
    /// A browser that was logged in.
    Session(Claims),
    /// A server in front says it.
    Proxy,
}

/// Whoever asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Who {
    /// User id.
    pub uid: Uid,
    /// Login name.
    pub name: String,
    /// How that is known.
    pub proof: Proof,
}

/// Whoever asks for a change; refused where nothing can be changed.
pub struct Changer(pub Who);

/// Header with the word that only the page can read.
pub const CSRF: &str = "x-cosy-csrf";
/// Header with a token, as Slurm's clients send it.
const SLURM_TOKEN: &str = "x-slurm-user-token";
/// Header with a name beside it.
const SLURM_NAME: &str = "x-slurm-user-name";

impl FromRequestParts<Arc<Site>> for Who {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self> {
        match identify(parts, site).await {
            Ok(who) => {
                site.rates.count(Some(who.uid))?;
                Ok(who)
            }
            Err(problem) => {
                site.rates.count(None)?;
                Err(problem)
            }
        }
    }
}

impl FromRequestParts<Arc<Site>> for Changer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self> {
        if site.config.read_only {
            return Err(Problem::forbidden(
                "this page only shows: use the commands to change something",
            ));
        }
        Who::from_request_parts(parts, site).await.map(Self)
    }
}

async fn identify(parts: &Parts, site: &Site) -> Result<Who> {
    let peer = parts.extensions.get::<Peer>().copied();
    if let Some(token) = token(&parts.headers)? {
        return with_token(token, parts, site).await;
    }
    match peer {
        Some(Peer::Local(uid)) if Some(uid) != site.proxy_user => {
            let name = site.users.name(uid).await;
            let proof = Proof::Kernel;
            return Ok(Who { uid, name, proof });
        }
        // The server in front is nobody itself: who comes through it has a name or a cookie.
        Some(peer) => {
            if let Some(name) = named_by_proxy(&parts.headers, peer, site) {
                check_origin(parts)?;
                // The name is on every request, as a cookie would be; no form of another site has
                // a header of its own.
                if is_change(&parts.method) && !parts.headers.contains_key(CSRF) {
                    return Err(Problem::forbidden(format!(
                        "send the header {CSRF} along, with any word"
                    )));
                }
                return known(site, name, Proof::Proxy).await;
            }
        }
        None => {}
    }
    match cookie(&parts.headers, &site.cookie) {
        Some(session) => with_session(session, parts, site).await,
        None => Err(Problem::unauthenticated(
            "say who you are: log in with 'cosy web', or send a token of 'cosy token'",
        )),
    }
}

/// The token that is sent along, if there is one.
fn token(headers: &HeaderMap) -> Result<Option<&str>> {
    let text = |value: &'static str| -> Result<Option<&str>> {
        let Some(value) = headers.get(value) else {
            return Ok(None);
        };
        let text = value.to_str();
        text.map(Some)
            .map_err(|_| Problem::unauthenticated("the token is no text"))
    };
    if let Some(token) = text(SLURM_TOKEN)? {
        return Ok(Some(token));
    }
    let Some(value) = text("authorization")? else {
        return Ok(None);
    };
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        _ => Err(Problem::unauthenticated("only 'Authorization: Bearer TOKEN' is known here")),
    }
}

async fn with_token(token: &str, parts: &Parts, site: &Site) -> Result<Who> {
    let claims = site.tokens.read(token, now_seconds())?;
    if claims.is_of_page() {
        return Err(Problem::unauthenticated(
            "this logs a browser in and is no token for programs",
        ));
    }
    let named = parts.headers.get(SLURM_NAME).map(|name| name.to_str());
    if named.is_some_and(|name| name.ok() != Some(claims.sun.as_str())) {
        return Err(Problem::unauthenticated(format!(
            "the token is of user {}: leave {SLURM_NAME} out",
            claims.sun
        )));
    }
    let name = claims.sun.clone();
    known(site, name, Proof::Token(claims)).await
}

async fn with_session(session: &str, parts: &Parts, site: &Site) -> Result<Who> {
    let claims = site.tokens.read(session, now_seconds())?;
    if !claims.is_of_page() {
        return Err(Problem::unauthenticated("log in again"));
    }
    check_origin(parts)?;
    if is_change(&parts.method) {
        let sent = parts
            .headers
            .get(CSRF)
            .and_then(|value| value.to_str().ok());
        if sent != Some(&*site.tokens.csrf(&claims)) {
            return Err(Problem::forbidden("this does not come from the page: load it again"));
        }
    }
    let name = claims.sun.clone();
    known(site, name, Proof::Session(claims)).await
}

/// What another site makes a browser send.
///
/// # Errors
/// It would change something.
fn check_origin(parts: &Parts) -> Result<()> {
    let from = parts.headers.get("sec-fetch-site");
    let ours = from.is_none_or(|from| from == "same-origin" || from == "none");
    match is_change(&parts.method) && !ours {
        true => Err(Problem::forbidden("another site asks for this: nothing was changed")),
        false => Ok(()),
    }
}

fn is_change(method: &Method) -> bool {
    !(method == Method::GET || method == Method::HEAD || method == Method::OPTIONS)
}

/// The name that a trusted server sends; who sends the header twice is nobody's server.
fn named_by_proxy(headers: &HeaderMap, peer: Peer, site: &Site) -> Option<String> {
    let proxy = site.config.proxy.as_ref()?;
    let is_trusted = match peer {
        Peer::Local(uid) => Some(uid) == site.proxy_user,
        Peer::Remote(address) => proxy.from.contains(&address.to_canonical()),
    };
    if !is_trusted {
        return None;
    }
    let mut all = headers.get_all(proxy.header.as_deref()?).into_iter();
    let (Some(value), None) = (all.next(), all.next()) else {
        return None;
    };
    let name = value.to_str().ok()?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

async fn known(site: &Site, name: String, proof: Proof) -> Result<Who> {
    match site.users.uid(&name).await {
        Some(uid) => Ok(Who { uid, name, proof }),
        None => Err(Problem::unauthenticated("the directory of this host does not know that user")),
    }
}

/// The value of a cookie.
pub fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let all = headers.get_all("cookie").into_iter();
    let all = all.filter_map(|value| value.to_str().ok());
    all.flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(key, value)| *key == name && value.len() <= limits::TOKEN_BYTES)
        .map(|(_, value)| value)
}
