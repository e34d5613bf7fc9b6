//! The parts of a workflow file about the workflow as a whole: `[workflow]`, `[speeds]`,
//! `[[transfer]]`.

use crate::job_options::JobOptions;
use crate::native::arg::parse_name;
use crate::native::flow::amounts;
use crate::native::flow::origin::Origin;
use crate::native::flow::tree::{Fields, Node, ParseError, Value};
use crate::native::submit::options;
use crate::submitter;
use crate::times::{self, Direction};
use cosy_model::job::Rlimits;
use cosy_model::limits::COMMENT_BYTES;
use cosy_model::workflow::{FlowDeadline, FlowSpec, SetSpeed, Transfer};
use cosy_model::{OsText, Su, Time};
use jiff::Zoned;
use std::str::FromStr;

/// What reading the header needs besides the file.
pub struct HeaderContext<'a> {
    /// The present in the zone in which times are read.
    pub now: &'a Zoned,
    /// Name of the workflow when the file gives none.
    pub name: String,
    /// Whose file it is.
    pub origin: Origin<'a>,
}

/// What the table `[workflow]` of a file says.
pub struct Header<'a> {
    /// The workflow without tasks and edges.
    pub spec: FlowSpec,
    /// Options of all tasks that `[workflow]` has: name of the option of `csub`, and value.
    pub defaults: Vec<(&'static str, &'a Node)>,
    /// Tasks start from the user's login environment.
    pub login: bool,
    /// Notes for the user about times that do not exist or exist twice.
    pub notes: Vec<String>,
}

/// Reads `[workflow]`, which need not be there.
///
/// # Errors
/// A key or a value that makes no sense.
pub fn read<'a>(
    node: Option<&'a Node>,
    context: &HeaderContext<'_>,
) -> Result<Header<'a>, ParseError> {
    let empty = Node::new(1, Value::Table(Vec::new()));
    let mut header = Header {
        spec: empty_spec(&context.name, context.origin),
        defaults: Vec::new(),
        login: false,
        notes: Vec::new(),
    };
    match node {
        Some(node) => fill(&mut header, node, context)?,
        None => set_environment(&mut header, None, &empty, context.origin)?,
    }
    Ok(header)
}

/// Variables and file mode mask of tasks of a file that was sent.
const SENT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const SENT_UMASK: u32 = 0o022;

fn empty_spec(name: &str, origin: Origin<'_>) -> FlowSpec {
    let (umask, rlimits) = match origin {
        Origin::Own => (submitter::umask(), submitter::rlimits()),
        Origin::Sent { .. } => (SENT_UMASK, Rlimits::default()),
    };
    FlowSpec {
        name: name.to_owned(),
        tasks: Vec::new(),
        edges: Vec::new(),
        speeds: Vec::new(),
        transfers: Vec::new(),
        deadline: None,
        earliest: None,
        scheduler: Default::default(),
        slack_policy: Default::default(),
        threshold_permille: 50,
        early: false,
        overrun: Default::default(),
        account: None,
        max_price: None,
        comment: String::new(),
        environment: OsText::default(),
        umask,
        rlimits,
    }
}

fn fill<'a>(
    header: &mut Header<'a>,
    node: &'a Node,
    context: &HeaderContext<'_>,
) -> Result<(), ParseError> {
    let now = context.now;
    let mut fields = Fields::new("[workflow]", node)?;
    let spec = &mut header.spec;
    set(&mut spec.name, fields.take("name"), |n| parse_name_of(n, "name"))?;
    let notes = &mut header.notes;
    spec.deadline = deadline(fields.take("deadline"), fields.take("slack"), now, notes)?;
    let earliest = fields.take("earliest");
    spec.earliest = earliest
        .map(|n| time(n, "earliest", now, notes))
        .transpose()?;
    set(&mut spec.scheduler, fields.take("scheduler"), |n| parse_word(n, "scheduler"))?;
    set(&mut spec.slack_policy, fields.take("slack_policy"), |n| parse_word(n, "slack_policy"))?;
    set(&mut spec.threshold_permille, fields.take("threshold"), |n| {
        amounts::share_in(n, "threshold")
    })?;
    set(&mut spec.overrun, fields.take("overrun"), |n| parse_word(n, "overrun"))?;
    set(&mut spec.early, fields.take("early"), |n| n.truth("early"))?;
    let account = fields.take("account").map(|n| parse_name_of(n, "account"));
    spec.account = account.transpose()?;
    spec.max_price = fields.take("max_price").map(price).transpose()?;
    set(&mut spec.comment, fields.take("comment"), comment)?;
    set(&mut header.login, fields.take("login"), |n| n.truth("login"))?;
    for (key, option) in [("queue", "queue"), ("workdir", "chdir")] {
        header
            .defaults
            .extend(fields.take(key).map(|n| (option, n)));
    }
    let environment = fields.take("environment").or(fields.take("env"));
    set_environment(header, environment, node, context.origin)?;
    fields.finish()
}

fn set<'a, T>(
    slot: &mut T,
    node: Option<&'a Node>,
    read: impl FnOnce(&'a Node) -> Result<T, ParseError>,
) -> Result<(), ParseError> {
    if let Some(node) = node {
        *slot = read(node)?;
    }
    Ok(())
}

fn at<T>(node: &Node, what: &str, read: Result<T, String>) -> Result<T, ParseError> {
    read.map_err(|e| ParseError::new(node.line, format!("{what}: {e}")))
}

fn parse_name_of(node: &Node, what: &str) -> Result<String, ParseError> {
    at(node, what, parse_name(node.text(what)?))
}

fn parse_word<T: FromStr<Err = String>>(node: &Node, what: &str) -> Result<T, ParseError> {
    at(node, what, node.text(what)?.parse())
}

fn comment(node: &Node) -> Result<String, ParseError> {
    let text = node.text("comment")?;
    if text.len() > COMMENT_BYTES {
        let n = text.len();
        let message = format!("comment: it has {n} bytes; at most {COMMENT_BYTES} are allowed");
        return Err(ParseError::new(node.line, message));
    }
    Ok(text.to_owned())
}

fn price(node: &Node) -> Result<Su, ParseError> {
    let text = match &node.value {
        Value::Text(_) | Value::Integer(_) | Value::Float(_) => node.word().unwrap_or_default(),
        _ => return Err(node.type_error("max_price", "a sum like 12.5")),
    };
    let sum = text
        .parse()
        .map_err(|e: cosy_model::money::SuError| e.to_string());
    at(node, "max_price", sum)
}

fn time(node: &Node, what: &str, now: &Zoned, notes: &mut Vec<String>) -> Result<Time, ParseError> {
    let text = node.text(what)?;
    let time = times::parse_noting(text, now, Direction::Future, notes);
    at(node, what, time.map_err(|e| format!("'{text}' is {e}")))
}

fn deadline(
    by: Option<&Node>,
    slack: Option<&Node>,
    now: &Zoned,
    notes: &mut Vec<String>,
) -> Result<Option<FlowDeadline>, ParseError> {
    match (by, slack) {
        (Some(_), Some(node)) => {
            Err(ParseError::new(node.line, "slack: 'deadline' and 'slack' exclude each other"))
        }
        (Some(node), None) => Ok(Some(FlowDeadline::By(time(node, "deadline", now, notes)?))),
        (None, Some(node)) => Ok(Some(FlowDeadline::Slack(amounts::share_in(node, "slack")?))),
        (None, None) => Ok(None),
    }
}

/// Sets the variables that all tasks get: those of this process that `csub --env` would keep, and
/// those that the file sets.
fn set_environment(
    header: &mut Header<'_>,
    node: Option<&Node>,
    whole: &Node,
    origin: Origin<'_>,
) -> Result<(), ParseError> {
    let mut options = JobOptions {
        login: header.login,
        ..JobOptions::default()
    };
    if let Some(node) = node {
        let argument = format!("--env={}", variables(node)?);
        let matches = options::command().try_get_matches_from(["csub", &argument]);
        let matches = matches.map_err(|e| crate::native::arg::error_line(&e).unwrap_or_default());
        let applied = matches.and_then(|m| options.apply(&m));
        at(node, "environment", applied)?;
    }
    let items = options.env_items();
    let block = match origin {
        Origin::Own => submitter::environment(&items, std::env::vars_os()),
        Origin::Sent { .. } => {
            let path = ("PATH".into(), SENT_PATH.into());
            submitter::environment(&items, std::iter::once(path))
        }
    };
    header.spec.environment = at(node.unwrap_or(whole), "environment", block)?;
    Ok(())
}

/// Reads variables as the value of `csub --env`: `"NONE,A=1"`, `["NONE", "A=1"]` or `{ A = 1 }`.
fn variables(node: &Node) -> Result<String, ParseError> {
    const WANTED: &str = "a list like [\"NONE\", \"A=1\"] or a table like { A = \"1\" }";
    let wrong = || node.type_error("environment", WANTED);
    let parts: Vec<String> = match &node.value {
        Value::Text(text) => return Ok(text.clone()),
        Value::List(list) => list
            .iter()
            .map(|n| n.word().ok_or_else(wrong))
            .collect::<Result<_, _>>()?,
        Value::Table(entries) => entries
            .iter()
            .map(|e| Ok(format!("{}={}", e.key, e.node.word().ok_or_else(wrong)?)))
            .collect::<Result<_, _>>()?,
        _ => return Err(wrong()),
    };
    if let Some(part) = parts.iter().find(|p| p.contains(',')) {
        let message = format!("environment: '{part}' has a comma, which separates variables");
        return Err(ParseError::new(node.line, message));
    }
    let all = matches!(node.value, Value::Table(_)).then(|| "ALL".to_owned());
    Ok(all.into_iter().chain(parts).collect::<Vec<_>>().join(","))
}

/// Reads `[speeds]`.
///
/// # Errors
/// Not speeds by node set.
pub fn speeds(node: Option<&Node>) -> Result<Vec<SetSpeed>, ParseError> {
    let Some(node) = node else {
        return Ok(Vec::new());
    };
    let one = |e: &crate::native::flow::tree::Entry| {
        Ok(SetSpeed {
            set: at(&e.node, "[speeds]", parse_name(&e.key))?,
            speed_permille: amounts::speed_in(&e.node, &format!("[speeds], {}", e.key))?,
        })
    };
    node.table("[speeds]")?.iter().map(one).collect()
}

/// Reads `[[transfer]]`.
///
/// # Errors
/// Not transfers between node sets.
pub fn transfers(node: Option<&Node>) -> Result<Vec<Transfer>, ParseError> {
    const WHAT: &str = "[[transfer]]";
    let Some(node) = node else {
        return Ok(Vec::new());
    };
    let one = |node: &Node| {
        let mut fields = Fields::new(WHAT, node)?;
        let from = fields
            .take("from")
            .map(|n| parse_name_of(n, "from"))
            .transpose()?;
        let to = fields
            .take("to")
            .map(|n| parse_name_of(n, "to"))
            .transpose()?;
        let rate = fields.take("rate").ok_or_else(|| {
            ParseError::new(node.line, format!("{WHAT}: 'rate' is missing, like rate = \"100M\""))
        });
        let bytes_per_second = amounts::rate_in(rate?, "[[transfer]], rate")?;
        fields.finish()?;
        Ok(Transfer {
            from,
            to,
            bytes_per_second,
        })
    };
    node.list(WHAT)?.iter().map(one).collect()
}
