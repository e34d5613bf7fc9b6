//! What history tells and an administrator should find in the log, too: nodes that come and
//! go, jobs that run again because of it, a store that was restored, clocks that were set or are
//! wrong.

use cosy_control::Record;
use cosy_model::api::HistoryEvent;

/// How loud something is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Loudness {
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
            Loudness::Error => tracing::error!("{}", line(event)),
            Loudness::Warning => tracing::warn!("{}", line(event)),
            Loudness::Information => tracing::info!("{}", line(event)),
            Loudness::Silence => {}
        }
    }
}

fn loudness(event: &HistoryEvent) -> Loudness {
    let of_node = event.object.starts_with("node ");
    match event.what.as_str() {
        "store_restored" => Loudness::Error,
        "lost" | "down" | "drained" | "revoked" if of_node => Loudness::Warning,
        "back" | "resumed" | "joined" if of_node => Loudness::Information,
        "node_lost" | "found" | "found_ended" => Loudness::Warning,
        "clock_set" | "clock_wrong" => Loudness::Warning,
        "requeued" | "clock_right" => Loudness::Information,
        _ => Loudness::Silence,
    }
}

/// `node n1: drained by root: new disk`.
fn line(event: &HistoryEvent) -> String {
    let mut text = format!("{}: {}", event.object, event.what);
    if event.who != "controller" {
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
    use cosy_model::Time;

    #[test]
    fn lines_and_loudness() {
        let check = |what: &str, who: &str, object: &str, detail: &str, wanted, said: &str| {
            let event = HistoryEvent {
                seq: 1,
                at: Time(0),
                what: what.into(),
                who: who.into(),
                object: object.into(),
                detail: detail.into(),
            };
            assert_eq!(loudness(&event), wanted, "{what}");
            assert_eq!(line(&event), said);
        };
        let (warning, information) = (Loudness::Warning, Loudness::Information);
        check(
            "lost",
            "controller",
            "node n1",
            "",
            warning,
            "node n1: lost",
        );
        check(
            "back",
            "controller",
            "node n1",
            "",
            information,
            "node n1: back",
        );
        check(
            "drained",
            "root",
            "node n1",
            "new\ndisk",
            warning,
            "node n1: drained by root: new?disk",
        );
        check(
            "requeued",
            "controller",
            "job 7",
            "node n1 was lost",
            information,
            "job 7: requeued: node n1 was lost",
        );
        check(
            "started",
            "controller",
            "job 7",
            "on n1",
            Loudness::Silence,
            "job 7: started: on n1",
        );
    }
}
