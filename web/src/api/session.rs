//! Who somebody is, links into the page, tokens, leaving.

use crate::limits;
use crate::params::{Document, Params};
use crate::problem::{Answer, Problem, Result};
use crate::site::{Site, SiteState, now_seconds};
use crate::who::{Proof, Who};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use cosy_model::api::{Reply, Request};
use serde::Deserialize;
use serde_json::json;

/// Who asks, and what the page has to know before anything else.
pub async fn me(State(site): SiteState, who: Who) -> Result {
    let pong = site.cluster.ask(who.uid, Request::Ping).await?;
    let Reply::Pong {
        cluster,
        version,
        now,
        set_aside,
        clocks,
    } = pong
    else {
        return Err(Problem::unexpected());
    };
    let csrf = match &who.proof {
        Proof::Session(claims) => Some(site.tokens.csrf(claims)),
        // Any word will do: that there is one shows that it comes from the page.
        Proof::Proxy => Some("page".to_owned()),
        Proof::Kernel | Proof::Token(_) => None,
    };
    let settings = site.cluster.ask(who.uid, Request::Settings).await;
    let administrator = match settings {
        Ok(Reply::Settings(settings)) => settings.you_are_admin,
        Ok(_) => return Err(Problem::unexpected()),
        Err(problem) => return Err(problem),
    };
    Ok(Answer(json!({
        "user": who.name, "uid": who.uid.0, "home": home(who.uid).await, "administrator": administrator,
        "csrf": csrf, "cluster": cluster, "version": version,
        "now": cosy_view::json::time(Some(now)), "read_only": site.config.read_only,
        "notes": set_aside.into_iter().chain(clocks).collect::<Vec<_>>(),
    })))
}

/// Scripts of the site that the form for jobs can begin with.
pub async fn templates(State(site): SiteState, _: Who) -> Answer {
    Answer(json!({ "templates": site.templates }))
}

/// Home directory of a user; empty where the directory knows none.
async fn home(uid: cosy_model::Uid) -> String {
    let found = crate::users::entry(uid).await;
    found.map_or(String::new(), |user| user.dir.to_string_lossy().into_owned())
}

/// Where a link leads.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct LinkAsk {
    /// Whom it logs in; who asks without.
    user: Option<String>,
    /// Which place of the page it opens.
    #[serde(default)]
    place: String,
}

/// A link that logs a browser in, once. Only who is on this host gets one.
pub async fn make_link(
    State(site): SiteState,
    who: Who,
    Document(ask): Document<LinkAsk>,
) -> Result {
    if who.proof != Proof::Kernel {
        return Err(Problem::forbidden("links are made on the page's own host, with 'cosy web'"));
    }
    let user = for_whom(&site, &who, ask.user).await?;
    let Some(address) = site.address() else {
        return Err(Problem::unavailable("the page listens nowhere: listen = \"off\" in web.toml"));
    };
    let place = match is_place(&ask.place) {
        true => format!("&to={}", ask.place),
        false => String::new(),
    };
    let ticket = site.links.make(&user)?;
    Ok(Answer(json!({
        "link": format!("{address}/enter?ticket={ticket}{place}"),
        "seconds": limits::LINK_FOR.as_secs(), "user": user,
    })))
}

/// A path on this page that needs no escaping.
fn is_place(place: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "/_-".contains(c);
    place.starts_with('/') && !place.starts_with("//") && place.chars().all(fine)
}

/// The user who is asked for: root and the page's own user may ask for everybody.
async fn for_whom(site: &Site, who: &Who, user: Option<String>) -> Result<String> {
    let own = nix::unistd::getuid().as_raw();
    match user {
        None => Ok(who.name.clone()),
        Some(name) if name == who.name => Ok(name),
        Some(_) if who.proof != Proof::Kernel || (who.uid.0 != 0 && who.uid.0 != own) => {
            Err(Problem::forbidden("only root may ask for somebody else"))
        }
        Some(name) => match site.users.uid(&name).await {
            Some(_) => Ok(name),
            None => Err(Problem::invalid(format!("there is no user '{name}'"))),
        },
    }
}

/// The ticket of a link.
#[derive(Deserialize)]
pub struct Entry {
    #[serde(default)]
    ticket: String,
    #[serde(default)]
    to: String,
}

/// Logs a browser in that comes with a link.
pub async fn enter(State(site): SiteState, Params(entry): Params<Entry>) -> Response {
    if let Err(problem) = site.rates.count(None) {
        return problem.into_response();
    }
    let to = if is_place(&entry.to) {
        entry.to.as_str()
    } else {
        "/"
    };
    let entered = match site.links.take(&entry.ticket) {
        Some(user) => site
            .tokens
            .make_session(&user, now_seconds(), limits::SESSION_FOR.as_secs()),
        None => return redirect("/login?used"),
    };
    match entered {
        Ok((session, _)) => {
            let mut answer = redirect(to);
            let cookie = cookie(&site, &session, limits::SESSION_FOR.as_secs());
            answer.headers_mut().insert(header::SET_COOKIE, cookie);
            answer
        }
        Err(problem) => problem.into_response(),
    }
}

/// A token that somebody logs in with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    token: String,
}

/// Logs a browser in that has a token for programs.
pub async fn log_in(State(site): SiteState, Document(login): Document<Login>) -> Result<Response> {
    site.rates.count(None)?;
    let claims = site.tokens.read(login.token.trim(), now_seconds())?;
    if claims.is_of_page() {
        return Err(Problem::unauthenticated("this is no token of 'cosy token'"));
    }
    // It is logged in no longer than the token is good: nobody makes more of it than was given.
    let left = claims.exp.saturating_sub(now_seconds());
    let seconds = left.min(limits::SESSION_FOR.as_secs());
    let (session, _) = site
        .tokens
        .make_session(&claims.sun, now_seconds(), seconds)?;
    let mut answer = Answer(json!({ "user": claims.sun })).into_response();
    answer
        .headers_mut()
        .insert(header::SET_COOKIE, cookie(&site, &session, seconds));
    Ok(answer)
}

fn redirect(to: &str) -> Response {
    let to = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
}

fn cookie(site: &Site, session: &str, seconds: u64) -> HeaderValue {
    let secure = if site.config.secure { "; Secure" } else { "" };
    let text = format!(
        "{}={session}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}",
        site.cookie
    );
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

/// Logs this browser out, or takes the token back that comes with it.
pub async fn leave(State(site): SiteState, who: Who) -> Result<Response> {
    match &who.proof {
        Proof::Session(claims) | Proof::Token(claims) => {
            site.tokens.revoke(claims, now_seconds())?;
        }
        Proof::Kernel | Proof::Proxy => {}
    }
    // What is open in other tabs closes with it.
    site.apps.leave(who.uid);
    let mut answer = Answer(json!({})).into_response();
    answer
        .headers_mut()
        .insert(header::SET_COOKIE, cookie(&site, "", 0));
    Ok(answer)
}

/// A token that is asked for.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct TokenAsk {
    /// Whose; who asks without.
    user: Option<String>,
    /// How long it is good, in seconds.
    seconds: Option<u64>,
}

/// A token for programs. One cannot be made with another one: it would never end.
pub async fn make_token(
    State(site): SiteState,
    who: Who,
    Document(ask): Document<TokenAsk>,
) -> Result {
    if matches!(who.proof, Proof::Token(_)) {
        return Err(Problem::forbidden("a token makes no tokens: use 'cosy token' or the page"));
    }
    let user = for_whom(&site, &who, ask.user).await?;
    let trusted = who.proof == Proof::Kernel && who.uid.0 == 0;
    let most = match trusted {
        true => limits::TOKEN_MOST.as_secs(),
        false => site.config.token_seconds,
    };
    let seconds = ask.seconds.unwrap_or(limits::TOKEN_USUAL.as_secs());
    if seconds == 0 || seconds > most {
        return Err(Problem::invalid(format!("a token is good for 1 to {most} seconds")));
    }
    let (token, claims) = site.tokens.make(&user, now_seconds(), seconds)?;
    Ok(Answer(json!({ "token": token, "user": user, "id": claims.jti, "until": claims.exp })))
}

/// Whose tokens are taken back.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct RevokeAsk {
    user: Option<String>,
}

/// Takes all tokens of a user back and logs the user out everywhere.
pub async fn revoke(
    State(site): SiteState,
    who: Who,
    Document(ask): Document<RevokeAsk>,
) -> Result {
    let user = for_whom(&site, &who, ask.user).await?;
    site.tokens.revoke_all(&user, now_seconds())?;
    Ok(Answer(json!({ "user": user })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_nowhere_else() {
        for place in ["/", "/jobs/12_3", "/book"] {
            assert!(is_place(place), "{place}");
        }
        for place in [
            "",
            "//evil.example",
            "jobs",
            "/\\evil",
            "/a?b",
            "/a\r\nSet-Cookie",
            "https://x",
        ] {
            assert!(!is_place(place), "{place}");
        }
    }
}
