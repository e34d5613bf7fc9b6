//! A document under way: lists of records, and what stands in every answer.

use crate::call::Endpoint;
use crate::fault::{Fault, Warning};
use crate::json::{self, Misfit};
use crate::shape::{Field, Kind, Shape, Shapes};
use crate::version::ApiVersion;
use cosy_slurm::json_yaml::{Data, map};

/// Who asks, as answers tell it, and names that only the host knows.
#[derive(Clone, Copy)]
pub struct Client<'c> {
    /// Address of the client, `[::1]:41234`.
    pub source: &'c str,
    /// Login name of the user.
    pub user: &'c str,
    /// Name of the user's first group.
    pub group: &'c str,
    /// Names of groups by number.
    pub group_name: &'c dyn Fn(u32) -> Option<String>,
}

/// Text is handed on in pieces of about so many bytes.
const PIECE: usize = 64 << 10;

/// A document under way.
pub(crate) struct Document<'d> {
    version: ApiVersion,
    out: String,
    print: &'d mut dyn FnMut(&str),
    misfits: Vec<Misfit>,
    /// Objects in its lists.
    pub rows: usize,
    begun: bool,
}

impl<'d> Document<'d> {
    /// An empty one, whose text goes to `print` piece by piece.
    pub fn new(version: ApiVersion, print: &'d mut dyn FnMut(&str)) -> Self {
        Self {
            version,
            out: String::from("{"),
            print,
            misfits: Vec::new(),
            rows: 0,
            begun: false,
        }
    }

    fn fields(&self, record: &str) -> &'static [Field] {
        Shapes::of(self.version).record(record)
    }

    fn name(&mut self, name: &str) {
        if self.begun {
            self.out.push(',');
        }
        self.begun = true;
        json::text(&mut self.out, name);
        self.out.push(':');
    }

    /// A list under a name.
    pub fn list(&mut self, name: &str, record: &str, rows: impl IntoIterator<Item = Data>) {
        self.name(name);
        self.out.push('[');
        let fields = self.fields(record);
        for (at, row) in rows.into_iter().enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            self.rows += 1;
            json::record(&mut self.out, fields, &row, &mut self.misfits);
            if self.out.len() >= PIECE {
                (self.print)(&self.out);
                self.out.clear();
            }
        }
        self.out.push(']');
    }

    /// One object under a name.
    pub fn one(&mut self, name: &str, record: &str, data: &Data) {
        self.name(name);
        let fields = self.fields(record);
        json::record(&mut self.out, fields, data, &mut self.misfits);
    }

    /// One value under a name.
    pub fn value(&mut self, name: &'static str, kind: Kind, value: Data) {
        let field = [Field {
            name,
            shape: Shape::One(kind),
            words: Vec::new(),
        }];
        let mut text = String::new();
        json::record(&mut text, &field, &map([(name, value)]), &mut self.misfits);
        if self.begun {
            self.out.push(',');
        }
        self.begun = true;
        // Without the braces around it.
        self.out.push_str(
            text.trim_start_matches('{')
                .strip_suffix('}')
                .unwrap_or_default(),
        );
    }

    /// The end that every answer has. Gives what did not fit.
    pub fn close(
        mut self,
        endpoint: &Endpoint,
        client: &Client<'_>,
        cluster: &str,
        faults: &[Fault],
        warnings: &[Warning],
    ) -> Vec<Misfit> {
        let meta = meta(self.version, endpoint, client, cluster);
        self.one("meta", "meta", &meta);
        self.list("errors", "error", faults.iter().map(Fault::data));
        self.list("warnings", "warning", warnings.iter().map(Warning::data));
        self.out.push('}');
        (self.print)(&self.out);
        self.misfits
    }
}

fn meta(version: ApiVersion, endpoint: &Endpoint, client: &Client<'_>, cluster: &str) -> Data {
    let (plugin, name) = match endpoint.is_of_accounting() {
        true => ("openapi/slurmdbd", "Slurm OpenAPI slurmdbd"),
        false => ("openapi/slurmctld", "Slurm OpenAPI slurmctld"),
    };
    let release = version.release();
    let [major, minor, micro] = release.map(Data::from);
    map([
        (
            "plugin",
            map([
                ("type", plugin.into()),
                ("name", name.into()),
                ("data_parser", format!("data_parser/{}", version.word()).into()),
                ("accounting_storage", "accounting_storage/slurmdbd".into()),
            ]),
        ),
        (
            "client",
            map([
                ("source", client.source.into()),
                ("user", client.user.into()),
                ("group", client.group.into()),
            ]),
        ),
        ("command", Data::Null),
        (
            "slurm",
            map([
                ("version", map([("major", major), ("micro", micro), ("minor", minor)])),
                ("release", release.join(".").into()),
                ("cluster", cluster.into()),
            ]),
        ),
    ])
}

impl Document<'_> {
    /// `shares` is an object with the list in it.
    pub fn shares(&mut self, shares: &[Data]) {
        self.name("shares");
        self.out.push_str("{\"shares\":[");
        let fields = self.fields("share");
        for (at, row) in shares.iter().enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            json::record(&mut self.out, fields, row, &mut self.misfits);
        }
        self.out
            .push_str(&format!("],\"total_shares\":{}}}", shares.len()));
    }
}
