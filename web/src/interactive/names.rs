//! Host names of programs of jobs: `j12-8888.jobs.example.org` is port 8888 of job 12.
//!
//! Pure.

use cosy_model::JobId;

/// A program of a job, as browsers name it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AppName {
    /// The job.
    pub job: JobId,
    /// The port, on its first node.
    pub port: u16,
}

/// Under which names the programs of jobs are, such as `https://*.jobs.example.org`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppAddress {
    /// `https` or `http`.
    scheme: String,
    /// What stands behind the name's first part: `.jobs.example.org`, perhaps with a port.
    rest: String,
}

impl AppAddress {
    /// Reads `SCHEME://*.DOMAIN[:PORT]`.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, host) = text.trim_end_matches('/').split_once("://")?;
        let rest = host.strip_prefix('*')?;
        let fine = |c: char| c.is_ascii_alphanumeric() || ".-:".contains(c);
        let is_domain = rest.len() > 1 && rest.starts_with('.') && rest.chars().all(fine);
        (is_domain && matches!(scheme, "http" | "https")).then(|| Self {
            scheme: scheme.to_owned(),
            rest: rest.to_ascii_lowercase(),
        })
    }

    /// The names that a page on this host's own address has: browsers know that they are this host.
    pub fn of_this_host(port: u16) -> Self {
        Self {
            scheme: "http".to_owned(),
            rest: format!(".localhost:{port}"),
        }
    }

    /// Whether browsers reach it over TLS.
    pub fn is_secure(&self) -> bool {
        self.scheme == "https"
    }

    /// The origin of a program, as browsers write it.
    pub fn origin(&self, name: AppName) -> String {
        format!("{}://j{}-{}{}", self.scheme, name.job, name.port, self.rest)
    }

    /// Which program a request is for, by its `Host`. `Some(None)`: one under these names that is
    /// none.
    pub fn read(&self, host: &str) -> Option<Option<AppName>> {
        let host = host.to_ascii_lowercase();
        let first = host.strip_suffix(&self.rest)?;
        let name = || {
            let (job, port) = first.strip_prefix('j')?.split_once('-')?;
            let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
            (number(job) && number(port)).then_some(())?;
            Some(AppName {
                job: JobId(job.parse().ok()?),
                port: port.parse().ok().filter(|port| *port > 0)?,
            })
        };
        Some(name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        let address = AppAddress::parse("https://*.jobs.Example.org").unwrap();
        let name = AppName {
            job: JobId(12),
            port: 8888,
        };
        assert_eq!(address.origin(name), "https://j12-8888.jobs.example.org");
        assert_eq!(address.read("J12-8888.jobs.example.org"), Some(Some(name)));
        for none in [
            "j12.jobs.example.org",
            "j-1.jobs.example.org",
            "j1-0.jobs.example.org",
            "j1-99999.jobs.example.org",
            "j+1-1.jobs.example.org",
            ".jobs.example.org",
        ] {
            assert_eq!(address.read(none), Some(None), "{none}");
        }
        for page in [
            "cosy.example.org",
            "jobs.example.org",
            "j1-1.jobs.example.org:81",
            "127.0.0.1",
        ] {
            assert_eq!(address.read(page), None, "{page}");
        }
        let own = AppAddress::of_this_host(8090);
        assert_eq!(own.read("j12-8888.localhost:8090"), Some(Some(name)));
        assert_eq!(own.read("localhost:8090"), None);
        for odd in [
            "https://jobs.example.org",
            "*.x",
            "ftp://*.x.y",
            "https://*",
            "https://*.",
            "https://*.a/b",
        ] {
            assert_eq!(AppAddress::parse(odd), None, "{odd}");
        }
    }
}
