//! What the what-if paper says of its results, tried on ours.
//!
//! A published share agrees when it lies between the lowest and the highest of our seeds, or
//! within [`NEAR`] of their mean. Comparisons are of means over seeds.
//!
//! Source: what-if paper, sections 5.2 to 5.4, table 1.

use super::figures::{GrantedShares, MakespanGrowth, Row, table};
use super::placement::Method;
use super::study::{AHEAD_HOURS, Study};
use crate::booking::claims::Claim;
use crate::booking::spread::{Spread, mean};

/// Shares this near to a published one agree.
const NEAR: f64 = 0.03;

/// Table 1 of the paper: book-ahead time; delayed jobs, original and affected wait in
/// seconds under load-Mica, then under what-if-Mica.
pub const PAPER: [(i64, [f64; 3], [f64; 3]); 6] = [
    (0, [284.0, 2532.0, 7853.0], [172.0, 4155.0, 8112.0]),
    (2, [341.0, 2138.0, 11572.0], [280.0, 3594.0, 8744.0]),
    (4, [372.0, 1782.0, 11167.0], [319.0, 3491.0, 9193.0]),
    (6, [357.0, 1984.0, 11036.0], [429.0, 2426.0, 11081.0]),
    (12, [390.0, 2244.0, 15405.0], [393.0, 1926.0, 16649.0]),
    (24, [411.0, 1872.0, 12832.0], [407.0, 1646.0, 13011.0]),
];

/// What the claims are tried on.
pub struct ClaimInputs<'a> {
    /// All runs of the study.
    pub study: &'a Study,
    /// Success by load and by what-if.
    pub success: &'a [GrantedShares; 2],
    /// Makespans by load and by what-if.
    pub growth: &'a [MakespanGrowth; 2],
    /// Table 1 by load and by what-if.
    pub table: &'a [Vec<Row>; 2],
}

impl ClaimInputs<'_> {
    /// Every claim of the paper, in its order.
    pub fn claims(&self) -> Vec<Claim> {
        vec![
            self.share("shares granted, of all requests", (0.80, 0.97), |success| success.all),
            self.share("shares granted where both times are at most 2 h", (0.38, 0.92), |s| {
                s.small
            }),
            self.share(
                "shares granted in the fifth of all requests at the highest load",
                (0.58, 0.92),
                |s| s.loaded,
            ),
            self.share(
                "the same, with the fifth of each of the 36 combinations",
                (0.58, 0.92),
                |s| s.loaded_of_each,
            ),
            self.more_granted(),
            self.all_granted(),
            self.growth_range(),
            self.shorter_makespans(
                "what-if has the shorter makespan in most combinations",
                |growth| &growth.grid,
            ),
            self.shorter_makespans("the same, of the jobs of the queue alone", |growth| {
                &growth.queue_grid
            }),
            self.more_delayed_ahead(),
            self.fewer_delayed(),
            self.smaller_delays(),
            self.six_hours(),
            self.far_ahead(),
            self.sharp(),
            self.few_limited(),
            self.smaller(
                "with all jobs below 89 nodes the delays are much smaller",
                &self.study.limited,
            ),
            self.smaller("with better estimates the delays are smaller", &self.study.exact),
        ]
    }

    fn share(
        &self,
        statement: &'static str,
        (load, what_if): (f64, f64),
        figure: impl Fn(&GrantedShares) -> Spread,
    ) -> Claim {
        let ours = self.success.each_ref().map(figure);
        let percent = |spread: &Spread| format!("{:.1} %", spread.times(100.0));
        Claim {
            statement,
            paper: format!("load {:.0} %, what-if {:.0} %", load * 100.0, what_if * 100.0),
            ours: format!("load {}, what-if {}", percent(&ours[0]), percent(&ours[1])),
            holds: ours[0].agrees(load, NEAR) && ours[1].agrees(what_if, NEAR),
        }
    }

    fn more_granted(&self) -> Claim {
        let [load, what_if] = self.success;
        let pairs = [
            (load.all, what_if.all),
            (load.small, what_if.small),
            (load.loaded, what_if.loaded),
        ];
        let ours = pairs.map(|(load, what_if)| (what_if.mean - load.mean) * 100.0);
        Claim {
            statement: "what-if grants more than load: of all, of the small times, at high load",
            paper: "17, 54 and 34 points more".to_owned(),
            ours: format!("{:.1}, {:.1} and {:.1} points more", ours[0], ours[1], ours[2]),
            holds: ours.iter().all(|more| *more > 0.0),
        }
    }

    fn all_granted(&self) -> Claim {
        let granted = self.rows().map(|row| row.granted.low);
        let least = granted.fold(1.0, f64::min) * 100.0;
        Claim {
            statement: "in the window of 30 h all requests are granted",
            paper: "200 of 200, at each book-ahead time".to_owned(),
            ours: format!("at least {least:.1} % in every run"),
            holds: least >= 100.0,
        }
    }

    fn growth_range(&self) -> Claim {
        let [load, what_if] = self.growth;
        let (least, most) = (load.least.min(what_if.least), load.most.max(what_if.most));
        let added = load.most_added_secs.max(what_if.most_added_secs);
        Claim {
            statement: "reservations prolong the makespan by 1 to 8 %",
            paper: "1 to 8 %, up to approximately 60000 s".to_owned(),
            ours: format!(
                "{:.1} to {:.1} %, up to {added:.0} s; of the queue's jobs alone {:.1} % with load, {:.1} % with what-if",
                least * 100.0,
                most * 100.0,
                load.queue.times(100.0),
                what_if.queue.times(100.0)
            ),
            // As rounded as the paper's.
            holds: least >= 0.005 && most < 0.085,
        }
    }

    fn shorter_makespans(
        &self,
        statement: &'static str,
        of: impl Fn(&MakespanGrowth) -> &Vec<Vec<f64>>,
    ) -> Claim {
        let [load, what_if] = self.growth.each_ref().map(of);
        let pairs = load.iter().flatten().zip(what_if.iter().flatten());
        let (mut shorter, mut equal) = (0, 0);
        for (load, what_if) in pairs {
            shorter += usize::from(what_if < load);
            equal += usize::from(what_if == load);
        }
        let all = load.iter().flatten().count();
        Claim {
            statement,
            paper: "most of 36".to_owned(),
            ours: format!("{shorter} of {all}, and as long in {equal}"),
            holds: 2 * shorter > all,
        }
    }

    fn more_delayed_ahead(&self) -> Claim {
        let jobs = |rows: &Vec<Row>| rows.iter().map(|row| row.jobs.mean).collect::<Vec<_>>();
        let both = self.table.each_ref().map(jobs);
        let early = |jobs: &Vec<f64>| jobs.first() < jobs.last();
        Claim {
            statement: "more jobs are delayed with a longer book-ahead time (24 h against 0)",
            paper: "load 284 to 411, what-if 172 to 407".to_owned(),
            ours: format!("load {}, what-if {}", listed(&both[0]), listed(&both[1])),
            holds: both.iter().all(early),
        }
    }

    fn fewer_delayed(&self) -> Claim {
        let near = self.near(|load, what_if| what_if.jobs.mean < load.jobs.mean);
        let jobs = |rows: &[Row]| listed(&rows.iter().map(|r| r.jobs.mean).collect::<Vec<_>>());
        let [load, what_if] = self.table;
        Claim {
            statement: "what-if delays fewer jobs at 0, 2 and 4 h",
            paper: "172, 280, 319 against 284, 341, 372".to_owned(),
            ours: format!("{} against {}", jobs(&what_if[..3]), jobs(&load[..3])),
            holds: near,
        }
    }

    fn smaller_delays(&self) -> Claim {
        let near = self.near(|load, what_if| more(what_if) < more(load));
        let [load, what_if] = self.table;
        let secs = |rows: &[Row]| listed(&rows.iter().map(more).collect::<Vec<_>>());
        Claim {
            statement: "what-if delays each of them less at 0, 2 and 4 h",
            paper: "3957, 5150, 5702 s against 5321, 9434, 9385 s".to_owned(),
            ours: format!("{} s against {} s", secs(&what_if[..3]), secs(&load[..3])),
            holds: near,
        }
    }

    fn six_hours(&self) -> Claim {
        let [load, what_if] = self.table;
        let (load, what_if) = (&load[3], &what_if[3]);
        let (jobs, each) =
            (ratio(what_if.jobs.mean, load.jobs.mean), ratio(more(what_if), more(load)));
        Claim {
            statement: "at 6 h what-if delays more jobs, each about as much",
            paper: "429 against 357 jobs, 8655 against 9052 s".to_owned(),
            ours: format!(
                "{:.0} against {:.0} jobs, {:.0} against {:.0} s",
                what_if.jobs.mean,
                load.jobs.mean,
                more(what_if),
                more(load)
            ),
            holds: jobs > 1.0 && (0.85..=1.15).contains(&each),
        }
    }

    fn far_ahead(&self) -> Claim {
        let [load, what_if] = self.table;
        let total = |rows: &[Row], at: usize| rows[at].total_days.mean;
        let at = |at: usize| ratio(total(what_if, at), total(load, at));
        Claim {
            statement: "the whole delay: load slightly less at 12 h, the same at 24 h (within 15 %)",
            paper: "what-if has 1.13 and 1.03 times that of load".to_owned(),
            ours: format!("{:.2} and {:.2} times", at(4), at(5)),
            holds: (1.0..=1.3).contains(&at(4)) && (0.85..=1.15).contains(&at(5)),
        }
    }

    fn sharp(&self) -> Claim {
        let sharp = mean(self.rows().map(|row| row.sharpness.mean)) * 100.0;
        Claim {
            statement: "the delay comes up in a few sharp increases",
            paper: "figure 4".to_owned(),
            ours: format!("{sharp:.0} % of it in the twentieth of the hours with most"),
            holds: sharp >= 50.0,
        }
    }

    fn few_limited(&self) -> Claim {
        let count = self.study.limited_jobs;
        Claim {
            statement: "fewer than ten jobs ask for 89 nodes or more",
            paper: "less than 10 of 1800, of \"processors\"".to_owned(),
            ours: format!("{count} of all, of nodes with 8 processors"),
            holds: count < 10,
        }
    }

    /// The whole delay of a changed workload against that of the plain one, by book-ahead
    /// time and method.
    fn smaller(&self, statement: &'static str, changed: &[super::run::Run]) -> Claim {
        let days = |rows: &[Row]| {
            rows.iter()
                .map(|row| row.total_days.mean)
                .collect::<Vec<_>>()
        };
        let mut shares = Vec::new();
        for (method, rows) in Method::ALL.iter().zip(self.table) {
            let (new, old) = (days(&table(changed, *method)), days(rows));
            shares.extend(new.into_iter().zip(old).map(|(new, old)| ratio(new, old)));
        }
        let percent: Vec<f64> = shares.iter().map(|share| share * 100.0).collect();
        let (load, what_if) = percent.split_at(AHEAD_HOURS.len());
        Claim {
            statement,
            paper: "significantly".to_owned(),
            ours: format!(
                "of the whole delay are left: load {} %, what-if {} % (0 to 24 h)",
                listed(load),
                listed(what_if)
            ),
            holds: mean(shares.iter().copied()) <= 0.8,
        }
    }

    /// Whether something holds at 0, 2 and 4 h.
    fn near(&self, holds: impl Fn(&Row, &Row) -> bool) -> bool {
        let [load, what_if] = self.table;
        let mut pairs = load.iter().zip(what_if).take(3);
        pairs.all(|(load, what_if)| holds(load, what_if))
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.table.iter().flatten()
    }
}

/// How much longer the delayed jobs waited in the mean, in seconds.
fn more(row: &Row) -> f64 {
    row.affected_secs.mean - row.original_secs.mean
}

/// One over the other; zero when the other is.
fn ratio(one: f64, other: f64) -> f64 {
    if other == 0.0 { 0.0 } else { one / other }
}

fn listed(values: &[f64]) -> String {
    let values: Vec<String> = values.iter().map(|value| format!("{value:.0}")).collect();
    values.join(", ")
}
