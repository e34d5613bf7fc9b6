//! What `sacct --format` and `sstat --format` can show: names and widths. Sources: sacct(1),
//! sstat(1), the widths of a captured `sstat`.

macro_rules! fields {
    ($($name:ident $width:literal;)+) => {
        /// A column, called as it is here.
        #[allow(missing_docs, reason = "the name says it: sacct(1) explains each")]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Field {
            $($name,)+
        }

        impl Field {
            /// All of them, by name.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Its name as it stands in headings.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// Its usual width; below 0 aligned to the left.
            pub const fn width(self) -> i32 {
                match self { $(Self::$name => $width,)+ }
            }
        }
    };
}

fields! {
    Account 10;
    AdminComment 19;
    AllocCPUS 10;
    AllocNodes 10;
    AllocTRES 10;
    AssocID 8;
    AveCPU 10;
    AveCPUFreq 10;
    AveDiskRead 12;
    AveDiskWrite 12;
    AvePages 10;
    AveRSS 10;
    AveVMSize 10;
    BlockID 16;
    Cluster 10;
    Comment 14;
    Constraints 19;
    ConsumedEnergy 14;
    ConsumedEnergyRaw 17;
    Container 19;
    CPUTime 10;
    CPUTimeRAW 10;
    DBIndex 20;
    DerivedExitCode 15;
    Elapsed 10;
    ElapsedRaw 10;
    Eligible 19;
    End 19;
    ExitCode 8;
    FailedNode 15;
    Flags 20;
    GID 6;
    Group 9;
    JobID -12;
    JobIDRaw -12;
    JobName 10;
    Layout 9;
    MaxDiskRead 12;
    MaxDiskReadNode 15;
    MaxDiskReadTask 15;
    MaxDiskWrite 12;
    MaxDiskWriteNode 16;
    MaxDiskWriteTask 16;
    MaxPages 8;
    MaxPagesNode 12;
    MaxPagesTask 14;
    MaxRSS 10;
    MaxRSSNode 10;
    MaxRSSTask 10;
    MaxVMSize 10;
    MaxVMSizeNode 14;
    MaxVMSizeTask 14;
    McsLabel 10;
    MinCPU 10;
    MinCPUNode 10;
    MinCPUTask 10;
    NCPUS 10;
    NNodes 8;
    NodeList 15;
    NTasks 8;
    Partition 10;
    Planned 10;
    PlannedCPU 10;
    PlannedCPURAW 13;
    Priority 10;
    QOS 10;
    QOSRAW 6;
    Reason 22;
    ReqCPUFreq 10;
    ReqCPUFreqGov 13;
    ReqCPUFreqMax 13;
    ReqCPUFreqMin 13;
    ReqCPUS 8;
    ReqMem 10;
    ReqNodes 8;
    ReqTRES 10;
    Reservation 20;
    ReservationId 13;
    Reserved 10;
    ResvCPU 10;
    ResvCPURAW 10;
    Start 19;
    State 10;
    Submit 19;
    SubmitLine 20;
    Suspended 10;
    SystemComment 19;
    SystemCPU 10;
    Timelimit 10;
    TimelimitRaw 12;
    TotalCPU 10;
    TRESUsageInAve 14;
    TRESUsageInMax 14;
    TRESUsageInMaxNode 18;
    TRESUsageInMaxTask 18;
    TRESUsageInMin 14;
    TRESUsageInMinNode 18;
    TRESUsageInMinTask 18;
    TRESUsageInTot 14;
    TRESUsageOutAve 15;
    TRESUsageOutMax 15;
    TRESUsageOutMaxNode 19;
    TRESUsageOutMaxTask 19;
    TRESUsageOutMin 15;
    TRESUsageOutMinNode 19;
    TRESUsageOutMinTask 19;
    TRESUsageOutTot 15;
    UID 6;
    User 9;
    UserCPU 10;
    WCKey 10;
    WCKeyID 8;
    WorkDir 20;
}

impl Field {
    /// The field of that name in letters of any case, else the first whose name begins so.
    pub fn of_word(word: &str) -> Option<Self> {
        let begins = |f: &&Self| {
            let start = f.name().get(..word.len());
            !word.is_empty() && start.is_some_and(|s| s.eq_ignore_ascii_case(word))
        };
        let exact = |f: &&Self| f.name().eq_ignore_ascii_case(word);
        let mut all = Self::ALL.iter();
        let found = all.clone().find(exact).or_else(|| all.find(begins));
        found.copied()
    }
}

/// A column of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// What it shows.
    pub field: Field,
    /// Width; below 0 aligned to the left.
    pub width: i32,
}

/// Widest column that can be asked for.
const WIDEST: i32 = 1 << 16;

/// Reads `jobid%25,state,nodelist%-40`; `all` and what begins it are all fields.
///
/// # Errors
/// The first word that is no field.
pub fn columns(text: &str) -> Result<Vec<Column>, String> {
    read(text, Field::ALL)
}

/// The same, with the fields that `all` stands for; where there are none it is no field.
pub(super) fn read(text: &str, all: &[Field]) -> Result<Vec<Column>, String> {
    let mut columns = Vec::new();
    for word in text.split(',').filter(|w| !w.trim().is_empty()) {
        let (name, width) = match word.split_once('%') {
            Some((name, width)) => (name.trim(), Some(width)),
            None => (word.trim(), None),
        };
        let is_all = !name.is_empty() && "all".starts_with(&name.to_ascii_lowercase());
        let fields = match Field::of_word(name) {
            _ if is_all && !all.is_empty() => all.to_vec(),
            Some(field) => vec![field],
            None => return Err(name.to_owned()),
        };
        let width = width
            .and_then(|w| w.parse::<i32>().ok())
            .filter(|w| *w != 0);
        columns.extend(fields.into_iter().map(|field| Column {
            field,
            width: width.map_or(field.width(), |w| w.clamp(-WIDEST, WIDEST)),
        }));
    }
    Ok(columns)
}

/// The text of `--helpformat`: all names, four in a line.
pub fn help(all: &[Field]) -> String {
    let names: Vec<&str> = all.iter().map(|field| field.name()).collect();
    lines(&names)
}

/// Names, four in a line.
pub(super) fn lines(names: &[&str]) -> String {
    let mut text = String::new();
    for line in names.chunks(4) {
        for name in line {
            text.push_str(&format!("{name:<20}"));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names() {
        let check = |text: &str, want: Result<&[(Field, i32)], &str>| {
            let got = columns(text).map(|all| {
                let pairs = all.iter().map(|c| (c.field, c.width));
                pairs.collect::<Vec<_>>()
            });
            let want = want.map(<[_]>::to_vec).map_err(str::to_owned);
            assert_eq!(got, want, "{text}");
        };
        check("jobid,STATE", Ok(&[(Field::JobID, -12), (Field::State, 10)]));
        check("jobidraw", Ok(&[(Field::JobIDRaw, -12)]));
        check("job", Ok(&[(Field::JobID, -12)]));
        check("State%20,nodelist%-256", Ok(&[(Field::State, 20), (Field::NodeList, -256)]));
        check("timelimitraw,elapsed", Ok(&[(Field::TimelimitRaw, 12), (Field::Elapsed, 10)]));
        check("jobid,nosuch", Err("nosuch"));
        check("", Ok(&[]));
    }

    #[test]
    fn all_of_them() {
        let check = |text: &str, first: (Field, i32), count: usize| {
            let got = columns(text).unwrap();
            assert_eq!(((got[0].field, got[0].width), got.len()), (first, count), "{text}");
        };
        let all = Field::ALL.len();
        for word in ["ALL", "all", "al", "A"] {
            check(word, (Field::Account, 10), all);
        }
        check("ALL%20", (Field::Account, 20), all);
        check("jobid,all", (Field::JobID, -12), all + 1);
        check("acc", (Field::Account, 10), 1);
        check("alloc", (Field::AllocCPUS, 10), 1);
        assert_eq!(read("al", &[]).unwrap()[0].field, Field::AllocCPUS);
        assert_eq!(read("all", &[]).unwrap()[0].field, Field::AllocCPUS);
    }

    /// Every name that is told is understood.
    #[test]
    fn every_told_field_is_taken() {
        let text = help(Field::ALL);
        for name in text.split_whitespace() {
            let column = columns(name).unwrap();
            assert_eq!(column[0].field.name(), name);
        }
        assert!(text.starts_with(
            "Account             AdminComment        AllocCPUS           AllocNodes          \n"
        ));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_read(text in "\\PC{0,30}|[a-zA-Z%,0-9-]{0,30}") {
            let _ = columns(&text);
        }
    }
}
