//! `[web]` of `cosy.toml`: who may ask for the users of the web page.

use cosy_config::Check;
use cosy_control::WebConfig;
use serde::Deserialize;
use toml::Spanned;

/// The section as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    user: Spanned<String>,
    #[serde(default)]
    administrators: bool,
}

/// The section, with a fault for a user who would need none of it.
pub fn read(check: &mut Check<'_>, table: Option<Table>) -> Option<WebConfig> {
    let table = table?;
    let user = table.user.get_ref().trim();
    if user.is_empty() || user == "root" {
        let why = "user is the login name of an ordinary user that cosy-web alone runs as";
        check.fault(table.user.span().start, why);
    }
    Some(WebConfig {
        user: user.to_owned(),
        administrators: table.administrators,
    })
}
