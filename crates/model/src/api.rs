//! What commands ask the controller and what it answers: the words only. How they
//! travel (frames, versions, keys) is the business of `cosy-proto`.
//!
//! Lists name the fields they want and come back by column ([`Table`]): 40,000 jobs
//! with 30 named fields each would cost 70 to 90 ms of encoding alone.

mod bounded;
mod bounds;
mod bounds_policy;
mod change;
mod filter;
mod info;
mod reply;
mod request;
mod request_kind;
mod table;

pub use change::{JobChange, NodeAction, Submission};
pub use filter::{Cursor, JobFilter, JobRef};
pub use info::{
    Archived, BudgetRow, ControllerRole, ControllerRow, EndedJob, HistoryEvent, MeterRow, NodeInfo,
    PredictedWait, PredictionRecord, QueueInfo, StepCursor, StepRow, TURN_BOUNDS_MS, WHOLE_TURN,
};
pub use reply::{Reply, RulesTried};
pub use request::Request;
pub use table::{Column, FieldKind, JobField, NO_NUMBER, Table, Value};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_refs() {
        let check = |text: &str, want: Option<(u64, Option<u32>)>| {
            let got = text.parse::<JobRef>().ok().map(|r| (r.job.0, r.task));
            assert_eq!(got, want, "{text}");
        };
        check("12", Some((12, None)));
        check("12_3", Some((12, Some(3))));
        check("0", None);
        check("", None);
        check("-1", None);
        check("12_", None);
        check("12_x", None);
        check("99999999999999999999", None);
    }

    #[test]
    fn fields_have_words() {
        for f in JobField::ALL {
            assert_eq!(f.word().parse::<JobField>().as_ref(), Ok(f));
        }
    }
}
