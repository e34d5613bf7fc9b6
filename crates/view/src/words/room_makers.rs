//! Running jobs that make room for a reservation.

use crate::value::FieldValue;
use cosy_model::policy::PreemptMode;
use cosy_model::reservation::RoomMaker;

/// One record for each.
pub fn room_makers(makers: &[RoomMaker]) -> FieldValue<'_> {
    let record = |maker: &'_ RoomMaker| {
        let RoomMaker {
            job,
            user,
            queue,
            mode,
            lost_core_secs,
            told,
        } = maker;
        FieldValue::record(vec![
            ("job", job.0.into()),
            ("user", user.clone().into()),
            ("queue", queue.clone().into()),
            ("mode", mode.word().into()),
            ("lost_core_seconds", (*lost_core_secs).into()),
            ("told", (*told).into()),
        ])
    };
    FieldValue::List(makers.iter().map(record).collect())
}

/// `12 of ann in low (requeued, 3.5 core-hours lost), 13 in low (...)`; empty of nobody.
pub fn in_words(makers: &[RoomMaker]) -> String {
    let one = |maker: &RoomMaker| {
        let whose = match maker.user.as_str() {
            "" => String::new(),
            user => format!(" of {user}"),
        };
        let how = match maker.mode {
            PreemptMode::Requeue => "requeued",
            PreemptMode::Suspend => "suspended",
            PreemptMode::Cancel | PreemptMode::Off => "cancelled",
        };
        let tenths = maker.lost_core_secs.saturating_mul(10) / 3600;
        let lost = format!("{}.{} core-hours lost", tenths / 10, tenths % 10);
        format!("{}{whose} in {} ({how}, {lost})", maker.job, maker.queue)
    };
    makers.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{JobId, Time};

    #[test]
    fn each_with_what_it_loses() {
        let maker = |job: u64, user: &str, mode: PreemptMode, lost_core_secs: u64| RoomMaker {
            job: JobId(job),
            user: user.to_owned(),
            queue: "low".to_owned(),
            mode,
            lost_core_secs,
            told: Time(0),
        };
        let makers = [
            maker(12, "ann", PreemptMode::Requeue, 12_600),
            maker(13, "", PreemptMode::Cancel, 359),
        ];
        assert_eq!(
            in_words(&makers),
            "12 of ann in low (requeued, 3.5 core-hours lost), 13 in low (cancelled, 0.0 core-hours lost)"
        );
        assert_eq!(in_words(&[]), "");
    }
}
