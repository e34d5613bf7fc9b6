//! `POST job/ID`: what becomes of a job, as `scontrol update` reads it.

use crate::fault::{FAIL_PARSING, Fault, Warning};
use crate::query::short;
use crate::shape::Shapes;
use crate::value::{self, Given};
use crate::version::ApiVersion;
use cosy_slurm::control::job::{self, Limit, Update};
use jiff::Zoned;

/// A change that was read.
#[derive(Clone, Debug, Default)]
pub struct Changing {
    /// What becomes of the job.
    pub update: Update,
    /// True to hold it, false to let it go.
    pub hold: Option<bool>,
    /// What has no effect.
    pub warnings: Vec<Warning>,
}

/// Fields, and the words of `scontrol update` that say the same.
const WORDS: &[(&str, &str)] = &[
    ("account", "Account"),
    ("admin_comment", "AdminComment"),
    ("begin_time", "StartTime"),
    ("comment", "Comment"),
    ("constraints", "Features"),
    ("cpus_per_task", "CPUsPerTask"),
    ("current_working_directory", "WorkDir"),
    ("deadline", "Deadline"),
    ("dependency", "Dependency"),
    ("excluded_nodes", "ExcNodeList"),
    ("licenses", "Licenses"),
    ("mail_type", "MailType"),
    ("mail_user", "MailUser"),
    ("memory_per_cpu", "MinMemoryCPU"),
    ("memory_per_node", "MinMemoryNode"),
    ("minimum_cpus", "NumCPUs"),
    ("minimum_nodes", "NumNodes"),
    ("name", "JobName"),
    ("nice", "Nice"),
    ("nodes", "NumNodes"),
    ("partition", "Partition"),
    ("priority", "Priority"),
    ("qos", "QOS"),
    ("requeue", "Requeue"),
    ("required_nodes", "ReqNodeList"),
    ("reservation", "ReservationName"),
    ("shared", "OverSubscribe"),
    ("site_factor", "SiteFactor"),
    ("standard_error", "StdErr"),
    ("standard_input", "StdIn"),
    ("standard_output", "StdOut"),
    ("tasks", "NumTasks"),
    ("tasks_per_node", "TasksPerNode"),
    ("temporary_disk_per_node", "MinTmpDiskNode"),
    ("time_limit", "TimeLimit"),
    ("time_minimum", "TimeMin"),
    ("tres_per_node", "Gres"),
    ("wckey", "WCKey"),
];

impl Changing {
    /// Reads a body about the job of that id.
    ///
    /// # Errors
    /// A field that cannot be read, or that a job cannot get another value of.
    pub fn read(id: &str, body: &[u8], version: ApiVersion, now: &Zoned) -> Result<Self, Fault> {
        let mut entries = value::object(body)?;
        // The same fields, one level deeper, are what `job/submit` takes.
        if let Some(serde_json::Value::Object(job)) = entries.get("job") {
            entries = job.clone();
        }
        let known = Shapes::of(version).record("job_request");
        let mut changing = Self::default();
        let mut words = vec![format!("JobId={id}")];
        for (name, value) in &entries {
            if !known.iter().any(|field| field.name == name) {
                let why = format!("Ignoring unknown field \"{}\"", short(name));
                changing.warnings.push(Warning::new(short(name), why));
                continue;
            }
            let given = Given::read(name, value)?;
            match (name.as_str(), given) {
                ("hold", given) => {
                    changing.hold = given.map(|given| given.flag("hold")).transpose()?
                }
                ("job_id", Some(given)) if given.text() == id => {}
                (name, Some(given)) => words.push(word(name, &given)?),
                (_, None) => {}
            }
        }
        changing.update = job::read(&words, now).map_err(|mistake| {
            let lines: Vec<&str> = mistake
                .0
                .iter()
                .map(|line| line.trim_start_matches("scontrol: error: "))
                .collect();
            Fault::new(FAIL_PARSING, lines.join(" "), "job")
        })?;
        match changing.update.limit {
            Some(Limit::To(limit)) => changing.update.change.time_limit = Some(limit),
            Some(Limit::More(_) | Limit::Less(_)) => {
                return Err(Fault::value("time_limit", "a time limit is a number of minutes"));
            }
            None => {}
        }
        Ok(changing)
    }
}

/// A field as `Name=value`.
fn word(name: &str, given: &Given) -> Result<String, Fault> {
    let known = WORDS.iter().find(|(own, _)| *own == name);
    let Some((_, word)) = known else {
        return Err(Fault::unsupported(name));
    };
    let value = match name {
        "begin_time" | "deadline" => format!("uts{}", given.number(name)?),
        "memory_per_cpu" | "memory_per_node" | "temporary_disk_per_node" => {
            format!("{}M", given.number(name)?)
        }
        "time_limit" | "time_minimum" if *given != Given::Infinite => {
            given.number(name)?.to_string()
        }
        "requeue" => u8::from(given.flag(name)?).to_string(),
        "shared" => match given.text().as_str() {
            "none" => "no".to_owned(),
            "oversubscribe" => "yes".to_owned(),
            other => return Err(Fault::unsupported(format!("shared {}", short(other)))),
        },
        _ => given.text(),
    };
    Ok(format!("{word}={value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::Span;

    fn read(body: &str) -> Result<Changing, Fault> {
        let now = "2026-11-21T12:00:00+00:00[+00:00]".parse().unwrap();
        Changing::read("7", body.as_bytes(), ApiVersion::V44, &now)
    }

    #[test]
    fn changes() {
        let read_one = read(
            r#"{"time_limit": {"set": true, "infinite": false, "number": 30}, "name": "n x",
                "priority": {"set": false}, "hold": true, "nice": 5, "colour": "red",
                "memory_per_node": {"set": true, "number": 100}}"#,
        );
        let changing = read_one.unwrap();
        let change = &changing.update.change;
        assert_eq!(change.time_limit, Some(Span::from_minutes(30)));
        assert_eq!(change.name.as_deref(), Some("n x"));
        assert_eq!((change.nice, change.priority), (Some(5), None));
        assert_eq!(changing.hold, Some(true));
        assert_eq!(changing.warnings.len(), 1);
        assert!(change.memory.is_some());
    }

    #[test]
    fn what_is_no_change() {
        let check =
            |body: &str, number: u32| assert_eq!(read(body).unwrap_err().number, number, "{body}");
        check("", 9001);
        check("[]", 9001);
        check(r#"{"tasks": "many"}"#, 9001);
        check(r#"{"nodes": "x"}"#, 9001);
        check(r#"{"container": "/c"}"#, 2036);
        check(r#"{"time_limit": "+5"}"#, 9001);
        check(r#"{"time_limit": [5]}"#, 9001);
    }

    #[test]
    fn words_are_those_of_scontrol() {
        let now: Zoned = "2026-11-21T12:00:00+00:00[+00:00]".parse().unwrap();
        for (name, word) in WORDS {
            let told = job::read(&["JobId=7".to_owned(), format!("{word}=?")], &now);
            let unknown = told.is_err_and(|e| e.0.concat().contains("not supported"));
            assert!(!unknown, "{name}: {word}");
            assert!(
                Shapes::of(ApiVersion::V42)
                    .record("job_request")
                    .iter()
                    .any(|f| f.name == *name)
            );
        }
    }
}
