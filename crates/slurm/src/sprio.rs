//! `sprio`: what the priorities of waiting jobs are made of. Source: sprio(1); recordings.
//!
//! A queue that orders by fair share alone has one weight, that of fair share: the number of users, so
//! that the weighted factor is the rank.

use crate::layout::Layout;
use cosy_model::PrioritySettings;
use cosy_model::api::{JobField as F, Table};
use cosy_model::policy::Tres;
use cosy_view::words::priority_factors::{self, PriorityFactors};
use std::cmp::Ordering;

/// Slurm's sentence where nothing has factors. Source: a capture.
pub const NO_FACTORS: [&str; 3] = [
    "You are not running a supported priority plugin",
    "(priority/basic).",
    "Only 'priority/multifactor' is supported.",
];

/// What is said where jobs were named and none of them has factors.
pub const NO_JOBS: &str = "Unable to find jobs matching user/id(s) specified";

/// Fields of jobs that the report is made of.
pub const NEEDS: &[F] = &[
    F::Id,
    F::Queue,
    F::User,
    F::Account,
    F::Qos,
    F::Priority,
    F::Nice,
    F::PriorityFactors,
];

/// One in billionths.
const ONE: u64 = 1_000_000_000;

/// What the options ask for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Columns by letter; the usual ones without.
    pub format: Option<String>,
    /// More columns.
    pub long: bool,
    /// Factors and not points.
    pub normalized: bool,
    /// Users were named: theirs is a column.
    pub users: bool,
    /// No headings.
    pub bare: bool,
    /// Letters to sort by.
    pub sort: Option<String>,
}

/// A factor with its weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Factor {
    Age,
    Association,
    FairShare,
    Size,
    Queue,
    Qos,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Column {
    Id,
    Partition,
    User,
    Account,
    Cluster,
    QosName,
    Priority,
    NormalizedPriority,
    Site,
    Nice,
    Points(Factor),
    Normalized(Factor),
    TresPoints,
    TresNormalized,
    /// A letter that means nothing.
    Unknown,
}

fn column(letter: char) -> Option<Column> {
    use Column::{Normalized, Points};
    Some(match letter {
        'i' => Column::Id,
        'r' => Column::Partition,
        'u' => Column::User,
        'o' => Column::Account,
        'c' => Column::Cluster,
        'n' => Column::QosName,
        'Y' => Column::Priority,
        'y' => Column::NormalizedPriority,
        'S' => Column::Site,
        'N' => Column::Nice,
        'A' => Points(Factor::Age),
        'a' => Normalized(Factor::Age),
        'B' => Points(Factor::Association),
        'b' => Normalized(Factor::Association),
        'F' => Points(Factor::FairShare),
        'f' => Normalized(Factor::FairShare),
        'J' => Points(Factor::Size),
        'j' => Normalized(Factor::Size),
        'P' => Points(Factor::Queue),
        'p' => Normalized(Factor::Queue),
        'Q' => Points(Factor::Qos),
        'q' => Normalized(Factor::Qos),
        'T' => Column::TresPoints,
        't' => Column::TresNormalized,
        _ => return None,
    })
}

const fn heading(column: Column) -> &'static str {
    match column {
        Column::Id => "JOBID",
        Column::Partition => "PARTITION",
        Column::User => "USER",
        Column::Account => "ACCOUNT",
        Column::Cluster => "CLUSTER",
        Column::QosName => "QOSNAME",
        Column::Priority | Column::NormalizedPriority => "PRIORITY",
        Column::Site => "SITE",
        Column::Nice => "NICE",
        Column::Points(factor) | Column::Normalized(factor) => match factor {
            Factor::Age => "AGE",
            Factor::Association => "ASSOC",
            Factor::FairShare => "FAIRSHARE",
            Factor::Size => "JOBSIZE",
            Factor::Queue => "PARTITION",
            Factor::Qos => "QOS",
        },
        Column::TresPoints | Column::TresNormalized => "TRES",
        Column::Unknown => "",
    }
}

/// A report under way.
#[derive(Debug)]
pub struct Report<'a> {
    settings: &'a PrioritySettings,
    cluster: &'a str,
    layout: Layout<Column>,
    unknown: Vec<char>,
    options: &'a Options,
}

impl<'a> Report<'a> {
    /// Reads the options.
    pub fn new(settings: &'a PrioritySettings, cluster: &'a str, options: &'a Options) -> Self {
        let usual = usual(settings, options);
        let format = options.format.as_ref().unwrap_or(&usual);
        let unknown = std::cell::RefCell::new(Vec::new());
        let layout = Layout::of_letters(format, |letter| {
            Some(column(letter).unwrap_or_else(|| {
                unknown.borrow_mut().push(letter);
                Column::Unknown
            }))
        });
        Self {
            settings,
            cluster,
            layout,
            unknown: unknown.into_inner(),
            options,
        }
    }

    /// Letters of the format that mean nothing.
    pub fn unknown(&self) -> &[char] {
        &self.unknown
    }

    /// The heading, unless none is wanted.
    pub fn heading(&self) -> String {
        let mut out = String::new();
        if !self.options.bare {
            self.layout
                .line(&mut out, |column, out| out.push_str(heading(*column)));
        }
        out
    }

    /// The line of the weights.
    pub fn weights(&self) -> String {
        let mut out = String::new();
        self.layout.line(&mut out, |column, out| match column {
            Column::Id => out.push_str("Weights"),
            Column::Site => out.push('1'),
            Column::Points(factor) | Column::Normalized(factor) => {
                out.push_str(&weight(self.settings, *factor).to_string());
            }
            Column::TresPoints | Column::TresNormalized => {
                let all = self.settings.tres.iter();
                let all: Vec<String> = all.map(|(tres, w)| format!("{tres}={w}")).collect();
                out.push_str(&all.join(","));
            }
            _ => {}
        });
        out
    }

    /// A line for each job of the table that has factors.
    pub fn lines(&self, table: &Table) -> String {
        let rows = (0..table.rows).filter_map(|at| self.row(table, at));
        let mut rows: Vec<Row<'_>> = rows.collect();
        let keys = sort_keys(self.options.sort.as_deref().unwrap_or("i"));
        for (column, turned) in keys.into_iter().rev() {
            rows.sort_by(|a, b| {
                let order = compare(column, a, b);
                if turned { order.reverse() } else { order }
            });
        }
        let mut out = String::new();
        for row in &rows {
            self.layout
                .line(&mut out, |column, out| out.push_str(&row.cell(*column)));
        }
        out
    }

    fn row<'t>(&'t self, table: &'t Table, at: usize) -> Option<Row<'t>> {
        let factors = priority_factors::read(table.text(at, F::PriorityFactors))?;
        let queue = table.text(at, F::Queue);
        let by_share = self.settings.by_share.iter().any(|name| name == queue);
        Some(Row {
            table,
            at,
            cluster: self.cluster,
            settings: self.settings,
            by_share,
            factors,
        })
    }
}

/// The columns where no format is given: those without a weight are left out.
fn usual(settings: &PrioritySettings, options: &Options) -> String {
    let user = if options.users || options.long {
        " %.8u"
    } else {
        ""
    };
    let letters = if options.normalized {
        " %10y"
    } else {
        " %.10Y %.10S"
    };
    let mut format = format!("%.15i %9r{user}{letters}");
    let factors = [
        (Factor::Age, 'A'),
        (Factor::Association, 'B'),
        (Factor::FairShare, 'F'),
        (Factor::Size, 'J'),
        (Factor::Queue, 'P'),
        (Factor::Qos, 'Q'),
    ];
    for (factor, letter) in factors {
        if options.long || weight(settings, factor) > 0 {
            match options.normalized {
                true => format.push_str(&format!(" %10{}", letter.to_ascii_lowercase())),
                false => format.push_str(&format!(" %.10{letter}")),
            }
        }
    }
    if options.long && !options.normalized {
        format.push_str(" %.11N");
    }
    if options.long || !settings.tres.is_empty() {
        format.push_str(if options.normalized {
            " %20t"
        } else {
            " %.20T"
        });
    }
    format
}

/// The weight of a factor. Where queues order by fair share alone its weight is the number of users.
fn weight(settings: &PrioritySettings, factor: Factor) -> u32 {
    match factor {
        Factor::Age => settings.age,
        Factor::Association => settings.association,
        Factor::FairShare if settings.weighted.is_empty() => settings.users,
        Factor::FairShare => settings.fair_share,
        Factor::Size => settings.size,
        Factor::Queue => settings.queue,
        Factor::Qos => settings.qos,
    }
}

/// A job with factors.
#[derive(Clone, Debug)]
struct Row<'t> {
    table: &'t Table,
    at: usize,
    cluster: &'t str,
    settings: &'t PrioritySettings,
    /// Its queue orders by fair share alone.
    by_share: bool,
    factors: PriorityFactors,
}

impl Row<'_> {
    fn number(&self, field: F) -> i64 {
        self.table.number(self.at, field).unwrap_or(0)
    }

    fn factor(&self, factor: Factor) -> u64 {
        match factor {
            Factor::Age => self.factors.age,
            Factor::Association => self.factors.association,
            Factor::FairShare => self.factors.fair_share,
            Factor::Size => self.factors.size,
            Factor::Queue => self.factors.queue,
            Factor::Qos => self.factors.qos,
        }
    }

    fn weight(&self, factor: Factor) -> u32 {
        match self.by_share {
            true if factor == Factor::FairShare => self.settings.users,
            _ => weight(self.settings, factor),
        }
    }

    fn points(&self, factor: Factor) -> u64 {
        rounded(u128::from(self.factor(factor)) * u128::from(self.weight(factor)))
    }

    fn cell(&self, column: Column) -> String {
        match column {
            Column::Id => self.number(F::Id).to_string(),
            Column::Partition => self.table.text(self.at, F::Queue).to_owned(),
            Column::User => self.table.text(self.at, F::User).to_owned(),
            Column::Account => self.table.text(self.at, F::Account).to_owned(),
            Column::Cluster => self.cluster.to_owned(),
            Column::QosName => self.table.text(self.at, F::Qos).to_owned(),
            Column::Priority => self.number(F::Priority).to_string(),
            Column::NormalizedPriority => {
                format!("{:.8}", self.number(F::Priority) as f64 / f64::from(u32::MAX))
            }
            Column::Site => self.factors.site.to_string(),
            Column::Nice => self.number(F::Nice).to_string(),
            Column::Points(factor) => self.points(factor).to_string(),
            Column::Normalized(factor) => decimal(self.factor(factor), 7),
            Column::TresPoints => {
                let points = |(tres, ppb): &(Tres, u64)| {
                    let weight = self.settings.tres.get(tres).copied().unwrap_or(0);
                    let points = rounded(u128::from(*ppb) * u128::from(weight));
                    (*ppb > 0 && weight > 0).then(|| format!("{tres}={points}"))
                };
                let all: Vec<String> = self.factors.tres.iter().filter_map(points).collect();
                all.join(",")
            }
            Column::TresNormalized => {
                let all = self.factors.tres.iter().filter(|(_, ppb)| *ppb > 0);
                let all = all.map(|(tres, ppb)| format!("{tres}={}", decimal(*ppb, 2)));
                all.collect::<Vec<String>>().join(",")
            }
            Column::Unknown => String::new(),
        }
    }
}

/// Billionths to whole points: to the nearest, halves to the even one, as `%.0f` has it.
fn rounded(billionths: u128) -> u64 {
    let one = u128::from(ONE);
    let (whole, rest) = (billionths / one, billionths % one);
    let up = match (rest * 2).cmp(&one) {
        Ordering::Less => false,
        Ordering::Greater => true,
        Ordering::Equal => whole % 2 == 1,
    };
    u64::try_from(whole + u128::from(up)).unwrap_or(u64::MAX)
}

/// Billionths with so many digits behind the point, to the nearest.
fn decimal(billionths: u64, digits: u32) -> String {
    let unit = 10_u64.pow(9 - digits);
    let scaled = billionths.saturating_add(unit / 2) / unit;
    let all = 10_u64.pow(digits);
    let width = digits as usize;
    format!("{}.{:0width$}", scaled / all, scaled % all)
}

/// Letters to sort by, each perhaps with `-` or `+` before it; others are passed over.
fn sort_keys(text: &str) -> Vec<(Column, bool)> {
    let mut keys = Vec::new();
    let mut turned = false;
    for letter in text.chars() {
        match letter {
            '-' => turned = true,
            '+' => turned = false,
            letter => {
                keys.extend(column(letter).map(|column| (column, turned)));
                turned = false;
            }
        }
    }
    keys
}

fn compare(column: Column, a: &Row<'_>, b: &Row<'_>) -> Ordering {
    let number = |row: &Row<'_>| match column {
        Column::Id => Some(row.number(F::Id)),
        Column::Priority | Column::NormalizedPriority => Some(row.number(F::Priority)),
        Column::Site => Some(row.factors.site),
        Column::Nice => Some(row.number(F::Nice)),
        Column::Points(factor) => i64::try_from(row.points(factor)).ok(),
        Column::Normalized(factor) => i64::try_from(row.factor(factor)).ok(),
        _ => None,
    };
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.cell(column).cmp(&b.cell(column)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::api::Column as Values;

    const RECORDED: &str = include_str!("../recordings/sprio.txt");

    /// What was recorded of a command: its standard output.
    fn recorded(command: &str) -> String {
        let from = format!("$ {command}\n");
        let (_, rest) = RECORDED.split_once(&from).unwrap();
        let lines = rest.lines().take_while(|l| !l.starts_with('='));
        let lines = lines.filter_map(|l| l.strip_prefix("1 "));
        lines.map(|l| format!("{l}\n")).collect()
    }

    fn settings() -> PrioritySettings {
        PrioritySettings {
            weighted: vec!["main".to_owned()],
            users: 5,
            age: 1000,
            fair_share: 10_000,
            size: 100,
            queue: 100,
            qos: 2000,
            ..PrioritySettings::default()
        }
    }

    /// The two jobs of the recording.
    fn table() -> Table {
        let both = |text: &str| Values::Texts(vec![text.to_owned(), text.to_owned()]);
        let columns = NEEDS.iter().map(|field| match field {
            F::Id => Values::Numbers(vec![148, 145]),
            F::Queue => both("main"),
            F::User => both("www-data"),
            F::Account => both("a"),
            F::Qos => both("normal"),
            F::Priority => Values::Numbers(vec![2162, 2125]),
            F::PriorityFactors => Values::Texts(
                [625, 250]
                    .map(|size| format!("fair_share=200000000,size={size}000000,queue=1000000000"))
                    .to_vec(),
            ),
            _ => Values::Numbers(vec![0; 2]),
        });
        Table::of(NEEDS.to_vec(), columns.collect(), 2)
    }

    fn told(options: &Options) -> String {
        let settings = settings();
        let report = Report::new(&settings, "c1", options);
        format!("{}{}", report.heading(), report.lines(&table()))
    }

    #[test]
    fn as_recorded() {
        let usual = Options::default();
        let long = Options {
            long: true,
            ..usual.clone()
        };
        let normalized = Options {
            normalized: true,
            ..usual.clone()
        };
        let format = Options {
            format: Some("%.15i %.8u %Y %A %F %J %P %Q %N %S".to_owned()),
            bare: true,
            ..usual.clone()
        };
        let sorted = Options {
            sort: Some("-y".to_owned()),
            ..usual.clone()
        };
        let of_user = Options {
            users: true,
            ..usual.clone()
        };
        for (command, options) in [
            ("sprio", &usual),
            ("sprio -l", &long),
            ("sprio -n", &normalized),
            ("sprio -h -o \"%.15i %.8u %Y %A %F %J %P %Q %N %S\"", &format),
            ("sprio -S -y", &sorted),
            ("sprio -u www-data", &of_user),
            ("sprio -p main", &usual),
        ] {
            assert_eq!(told(options), recorded(command), "{command}");
        }
        let settings = settings();
        let report = Report::new(&settings, "c1", &usual);
        assert_eq!(format!("{}{}", report.heading(), report.weights()), recorded("sprio -w"));
        let unknown = Options {
            format: Some("%k".to_owned()),
            ..usual
        };
        assert_eq!(told(&unknown), recorded("sprio -o \"%k\""));
        assert_eq!(Report::new(&settings, "", &unknown).unknown(), ['k']);
    }

    #[test]
    fn weights_of_resources_are_a_column() {
        let mut settings = settings();
        settings.tres = [(Tres::Cpu, 1000), (Tres::gpus(), 10)].into();
        let mut table = table();
        let with = |field: &F| match field {
            F::PriorityFactors => {
                let one = "site=0,cpu=250000000,gres/gpu=0".to_owned();
                Values::Texts(vec![one, "site=0".to_owned()])
            }
            F::Id => Values::Numbers(vec![1, 2]),
            F::Queue | F::User | F::Account | F::Qos => {
                Values::Texts(vec!["x".to_owned(), "x".to_owned()])
            }
            _ => Values::Numbers(vec![0; 2]),
        };
        table = Table::of(NEEDS.to_vec(), NEEDS.iter().map(with).collect(), table.rows);
        let options = Options::default();
        let report = Report::new(&settings, "", &options);
        assert!(report.heading().ends_with("QOS                 TRES\n"));
        assert!(report.weights().ends_with("cpu=1000,gres/gpu=10\n"));
        let lines = report.lines(&table);
        let ends: Vec<&str> = lines
            .lines()
            .filter_map(|l| l.split_whitespace().last())
            .collect();
        assert_eq!(ends, ["cpu=250", "0"]);
        let normalized = Options {
            format: Some("%t %f".to_owned()),
            ..Options::default()
        };
        let report = Report::new(&settings, "", &normalized);
        assert_eq!(report.lines(&table), "cpu=0.25 0.0000000\n 0.0000000\n");
    }

    #[test]
    fn a_queue_by_fair_share_tells_ranks() {
        let settings = PrioritySettings {
            by_share: vec!["main".to_owned()],
            users: 5,
            ..PrioritySettings::default()
        };
        let options = Options::default();
        let report = Report::new(&settings, "", &options);
        assert!(report.heading().ends_with("SITE  FAIRSHARE\n"), "{}", report.heading());
        assert!(
            report
                .lines(&table())
                .lines()
                .all(|line| line.ends_with(" 1"))
        );
    }

    #[test]
    fn halves_go_to_the_even_point() {
        assert_eq!([25, 35, 24, 36].map(|n| rounded(n * 100_000_000)), [2, 4, 2, 4]);
    }
}
