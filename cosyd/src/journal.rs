//! What history tells and an administrator should find in the log, too: nodes that come and
//! go, jobs that run again because of it, a store that was restored, clocks that were set or are
//! wrong.

use cosy_control::Record;
use cosy_model::history::{CONTROLLER, Event};
use cosy_model::{EventKind, EventObject};

/// How loud something is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LogLevel {
    Error,
    Warning,
    Information,
    Silence,
}

/// Says what has become durable.
pub fn tell(records: &[Record]) {
    for record in records {
        let Record::Happened(event) = record else {
            continue;
        };
        match loudness(event) {
            LogLevel::Error => tracing::error!("{}", line(event)),
            LogLevel::Warning => tracing::warn!("{}", line(event)),
            LogLevel::Information => tracing::info!("{}", line(event)),
            LogLevel::Silence => {}
        }
    }
}

fn loudness(event: &Event) -> LogLevel {
    use EventKind as K;
    let of_node = matches!(event.object, EventObject::Node(_));
    match event.kind {
        K::StoreRestored => LogLevel::Error,
        K::Lost | K::Down | K::Drained | K::Revoked if of_node => LogLevel::Warning,
        K::Back | K::Resumed | K::Joined if of_node => LogLevel::Information,
        K::PoweredDown | K::PoweredUp => LogLevel::Information,
        K::PowerFailed => LogLevel::Warning,
        K::NodeLost | K::Found | K::FoundEnded => LogLevel::Warning,
        K::ClockSet | K::ClockWrong => LogLevel::Warning,
        K::Requeued | K::ClockRight => LogLevel::Information,
        // Of something else than a node these are nobody's business but the user's.
        K::Lost | K::Down | K::Drained | K::Revoked | K::Back | K::Resumed | K::Joined => {
            LogLevel::Silence
        }
        K::Began
        | K::Booked
        | K::Cancelled
        | K::Changed
        | K::Cleared
        | K::Closed
        | K::Confirmed
        | K::Created
        | K::DatesSet
        | K::Degraded
        | K::Deleted
        | K::Ended
        | K::Expired
        | K::Extended
        | K::Failed
        | K::Granted
        | K::Held
        | K::InUse
        | K::LimitCut
        | K::LimitUsedUp
        | K::LowUse
        | K::Made
        | K::MakesRoom
        | K::Moved
        | K::NotReplanned
        | K::Opened
        | K::Preempted
        | K::Spared
        | K::StartMoved
        | K::Regrouped
        | K::Released
        | K::Removed
        | K::Repaired
        | K::Replanned
        | K::Requeue
        | K::Resized
        | K::Resuming
        | K::Retried
        | K::Set
        | K::Shared
        | K::Shortened
        | K::Started
        | K::Stopped
        | K::Submitted
        | K::Suspended
        | K::TaskFailed
        | K::Token
        | K::Triggered
        | K::TriggerEnded
        | K::TriggerFailed
        | K::Unused
        | K::Withdrawn => LogLevel::Silence,
    }
}

/// `node n1: drained by root: new disk`.
fn line(event: &Event) -> String {
    let mut text = format!("{}: {}", event.object, event.kind);
    if event.who != CONTROLLER {
        text = format!("{text} by {}", event.who);
    }
    if !event.detail.is_empty() {
        text = format!("{text}: {}", event.detail);
    }
    text.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{JobId, Time};

    #[test]
    fn lines_and_loudness() {
        let check = |kind, who: &str, object, detail: &str, wanted, text: &str| {
            let event = Event {
                seq: 1,
                at: Time(0),
                kind,
                who: who.into(),
                object,
                detail: detail.into(),
            };
            assert_eq!(loudness(&event), wanted, "{kind}");
            assert_eq!(line(&event), text);
        };
        use EventKind as K;
        let (node, job) = (|| EventObject::Node("n1".into()), || EventObject::Job(JobId(7)));
        let (warning, information) = (LogLevel::Warning, LogLevel::Information);
        check(K::Lost, "controller", node(), "", warning, "node n1: lost");
        check(K::Back, "controller", node(), "", information, "node n1: back");
        check(
            K::Drained,
            "root",
            node(),
            "new\ndisk",
            warning,
            "node n1: drained by root: new?disk",
        );
        check(
            K::Drained,
            "root",
            EventObject::Queue("node 1".into()),
            "",
            LogLevel::Silence,
            "queue node 1: drained by root",
        );
        check(
            K::Requeued,
            "controller",
            job(),
            "node n1 was lost",
            information,
            "job 7: requeued: node n1 was lost",
        );
        check(K::Started, "controller", job(), "on n1", LogLevel::Silence, "job 7: started: on n1");
    }
}
