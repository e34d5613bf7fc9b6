//! What all requests share.

use crate::cluster::Cluster;
use crate::config::{AppNames, Config};
use crate::figures::Shared;
use crate::interactive::names::AppAddress;
use crate::interactive::nodes::Ways;
use crate::interactive::opened::OpenedApps;
use crate::interactive::shells::Shells;
use crate::limits::{APP_REQUESTS, APP_REQUESTS_OF_USER, FLOW_FILES_OF_USER, STREAMS_OF_USER};
use crate::links::Links;
use crate::problem::{Problem, Result};
use crate::rates::Rates;
use crate::samples::Samples;
use crate::templates::{self, Template};
use crate::tokens::Tokens;
use crate::turns::Turns;
use crate::users::Users;
use cosy_model::Uid;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The page of one cluster.
pub struct Site {
    /// As configured.
    pub config: Config,
    /// The way to the controller.
    pub cluster: Cluster,
    /// Makes tokens and reads them.
    pub tokens: Tokens,
    /// Links that log a browser in.
    pub links: Links,
    /// Names of users.
    pub users: Users,
    /// How often each may ask.
    pub rates: Rates,
    /// What everybody is told alike.
    pub shared: Shared,
    /// How full the cluster was.
    pub samples: Samples,
    /// Scripts of the site that the form for jobs can begin with.
    pub templates: Vec<Template>,
    /// Streams that are open.
    pub streams: Places,
    /// Ways to jobs that were found lately.
    pub ways: Ways,
    /// Shells in jobs.
    pub shells: Shells,
    /// Under which names browsers reach programs of jobs, where they do.
    pub app_address: Option<AppAddress>,
    /// Programs of jobs that are open in browsers.
    pub apps: OpenedApps,
    /// Requests to such programs that are under way.
    pub app_turns: Turns,
    /// Workflow files that are being read.
    pub flow_files: Places,
    /// The user of the server in front, if it connects over the socket.
    pub proxy_user: Option<Uid>,
    /// Name of the cookie that keeps somebody logged in.
    pub cookie: String,
}

/// The page as handlers have it.
pub type SiteState = axum::extract::State<Arc<Site>>;

impl Site {
    /// With the keys and samples of its state directory.
    ///
    /// # Errors
    /// They cannot be read or made.
    pub fn open(config: Config) -> anyhow::Result<Self> {
        let tokens = Tokens::open(&config.key, &config.state_dir)?;
        let sockets = match config.controller.is_empty() {
            true => cosy_client::cluster::find(),
            false => config.controller.clone(),
        };
        // Cookies know no ports: two clusters on one host would log each other out.
        let prefix = if config.secure { "__Host-" } else { "" };
        let cookie = format!("{prefix}cosy-{}", tokens.mark());
        let proxy_user = config
            .proxy
            .as_ref()
            .and_then(|proxy| proxy.user.as_deref());
        let proxy_user = proxy_user.map(|name| match nix::unistd::User::from_name(name) {
            Ok(Some(user)) => Ok(Uid(user.uid.as_raw())),
            Ok(None) => Err(anyhow::anyhow!("[proxy] user: there is no user '{name}'")),
            Err(e) => Err(anyhow::anyhow!("[proxy] user: '{name}' cannot be looked up: {e}")),
        });
        Ok(Self {
            proxy_user: proxy_user.transpose()?,
            cluster: Cluster::new(&sockets),
            links: Links::default(),
            users: Users::default(),
            rates: Rates::default(),
            shared: Shared::default(),
            samples: Samples::open(&config.state_dir.join("samples")),
            ways: Ways::default(),
            shells: Shells::default(),
            app_address: match &config.apps {
                AppNames::Nowhere => None,
                AppNames::OnThisHost => config.listen.map(|at| AppAddress::of_this_host(at.port())),
                AppNames::Below(address) => Some(address.clone()),
            },
            apps: OpenedApps::default(),
            app_turns: Turns::new(APP_REQUESTS, APP_REQUESTS_OF_USER),
            streams: Places::new(STREAMS_OF_USER, "streams"),
            flow_files: Places::new(FLOW_FILES_OF_USER, "workflow files"),
            templates: match &config.templates {
                Some(folder) => templates::read(folder)?,
                None => Vec::new(),
            },
            tokens,
            cookie,
            config,
        })
    }

    /// The address that people have, for links.
    pub fn address(&self) -> Option<String> {
        let listen = self
            .config
            .listen
            .map(|address| format!("http://{address}"));
        self.config.address.clone().or(listen)
    }
}

/// What each user may have so many of at once.
pub struct Places {
    users: Arc<Mutex<HashMap<Uid, usize>>>,
    most: usize,
    what: &'static str,
}

/// Given back when it is over.
pub struct Place(Uid, Arc<Mutex<HashMap<Uid, usize>>>);

impl Places {
    /// So many of each user.
    pub fn new(most: usize, what: &'static str) -> Self {
        let users = Arc::default();
        Self { users, most, what }
    }

    /// A place for one more.
    ///
    /// # Errors
    /// The user has enough of them.
    pub fn place(&self, user: Uid) -> Result<Place> {
        let mut all = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(user).or_insert(0);
        if *count >= self.most {
            let (most, what) = (self.most, self.what);
            return Err(Problem::busy(format!("{most} {what} at once are enough")));
        }
        *count += 1;
        Ok(Place(user, self.users.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.0) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.0);
            }
        }
    }
}

/// Seconds since 1970.
pub fn now_seconds() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Milliseconds since 1970.
pub fn now() -> cosy_model::Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    cosy_model::Time(since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0)))
}
