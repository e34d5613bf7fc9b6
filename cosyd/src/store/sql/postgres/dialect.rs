//! Statements and tables as PostgreSQL wants them, out of those that SQLite reads.

use super::super::value::{Params, Result, Value, too_large};
use std::fmt::Write;

/// First statement of a transaction beside the leader's batches: fails when another leads by now.
pub const FENCE: &str = "SELECT cosy_fence(?1)";
/// First statement of a leader's batch: fails when the row was claimed since.
pub const BATCH: &str = "SELECT cosy_batch(?1, ?2, ?3, ?4)";

/// What PostgreSQL needs beside the tables.
///
/// `leader` has one row: see `cosy_lease`. `controllers` has who stands by, and since when it was not
/// heard.
pub const OWN: &str = "
    CREATE TABLE schema_version (version BIGINT NOT NULL);
    CREATE TABLE leader (
        id BIGINT PRIMARY KEY CHECK (id = 1), epoch BIGINT NOT NULL, holder TEXT NOT NULL,
        run TEXT NOT NULL, address TEXT NOT NULL, released BOOLEAN NOT NULL, next TEXT NOT NULL,
        until TIMESTAMPTZ NOT NULL, lease_ms BIGINT NOT NULL, renewals BIGINT NOT NULL,
        session BIGINT NOT NULL, seq BIGINT NOT NULL);
    CREATE TABLE controllers (
        name TEXT PRIMARY KEY, address TEXT NOT NULL, at TIMESTAMPTZ NOT NULL);
    CREATE FUNCTION cosy_fence(mine BIGINT) RETURNS BIGINT LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM 1 FROM leader WHERE id = 1 AND epoch = mine AND NOT released FOR SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'another controller leads' USING ERRCODE = 'CY001';
        END IF;
        RETURN mine;
    END $$;
    CREATE FUNCTION cosy_batch(mine BIGINT, of_session BIGINT, number BIGINT, lease BIGINT)
    RETURNS BIGINT LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE leader SET until = clock_timestamp() + lease * interval '1 millisecond',
            renewals = renewals + 1, seq = number
        WHERE id = 1 AND epoch = mine AND session = of_session AND NOT released;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the lead was claimed by another' USING ERRCODE = 'CY001';
        END IF;
        RETURN number;
    END $$;
    INSERT INTO leader VALUES (1, 0, '', '', '', true, '', 'epoch', 0, 0, 0, 0);
    INSERT INTO schema_version VALUES (0);
";

/// Goes before a change of tables, in its transaction: nobody leads, and who led does not come back.
pub const UNLED: &str = "
    DO $$ BEGIN
        UPDATE leader SET epoch = epoch + 1, renewals = renewals + 1, released = true
        WHERE id = 1 AND (released OR until <= clock_timestamp()
            OR until > clock_timestamp() + lease_ms * interval '1 millisecond');
        IF NOT FOUND THEN
            RAISE EXCEPTION 'its tables are of an earlier release, and controller % leads with them: they are changed when that one has ended',
                (SELECT holder FROM leader);
        END IF;
    END $$;
";

/// A statement with numbered parameters as PostgreSQL counts them.
pub fn statement(sql: &str) -> String {
    let sql = &sql.replace(
        "SELECT value FROM json_each(?)",
        "SELECT json_array_elements_text(CAST(? AS json))",
    );
    let mut text = String::with_capacity(sql.len() + 8);
    let (mut number, mut quoted) = (0, false);
    let mut rest = sql.chars().peekable();
    while let Some(c) = rest.next() {
        quoted ^= c == '\'';
        if c != '?' || quoted {
            text.push(c);
            continue;
        }
        text.push('$');
        if rest.peek().is_some_and(char::is_ascii_digit) {
            continue; // its number follows
        }
        number += 1;
        let _ = write!(text, "{number}");
    }
    // Of a join whose order SQLite is told, PostgreSQL finds its own.
    text.replace(" CROSS JOIN ", " JOIN ")
}

/// Adds the text that carries out the statement of that number with these values.
///
/// # Errors
/// A number that no database holds.
pub fn execute(text: &mut String, number: usize, params: &impl Params) -> Result<()> {
    let _ = write!(text, "EXECUTE cosy{number}");
    let mut end = ";";
    for (at, value) in params.values().enumerate() {
        text.push(if at == 0 { '(' } else { ',' });
        literal(text, value)?;
        end = ");";
    }
    text.push_str(end);
    Ok(())
}

/// A value as PostgreSQL reads it in a statement, whatever its text has in it.
fn literal(text: &mut String, value: Value<'_>) -> Result<()> {
    match value {
        Value::Null => text.push_str("NULL"),
        Value::Integer(n) => {
            let _ = write!(text, "{n}");
        }
        Value::Text(of) => {
            text.push_str("E'");
            for c in of.chars() {
                match c {
                    // PostgreSQL has no such character in texts.
                    '\0' => text.push('\u{fffd}'),
                    '\'' => text.push_str("''"),
                    '\\' => text.push_str("\\\\"),
                    c => text.push(c),
                }
            }
            text.push('\'');
        }
        Value::Blob(bytes) => {
            const DIGITS: [char; 16] = [
                '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
            ];
            text.push_str("'\\x");
            text.reserve(2 * bytes.len());
            for byte in bytes {
                for half in [byte >> 4, byte & 15] {
                    text.push(DIGITS.get(usize::from(half)).copied().unwrap_or('0'));
                }
            }
            text.push('\'');
        }
        Value::TooLarge(n) => return Err(too_large(n)),
    }
    Ok(())
}

/// A step of the tables' history as PostgreSQL takes it.
pub fn migration(step: &str) -> String {
    let mut text = String::with_capacity(step.len());
    let mut rest = step;
    while let Some(at) = rest.find("CREATE TRIGGER") {
        let (before, after) = rest.split_at(at);
        text.push_str(before);
        let end = after.find("END;").map_or(after.len(), |end| end + 4);
        let (trigger, behind) = after.split_at(end);
        text.push_str(&refusal(trigger));
        rest = behind;
    }
    text.push_str(rest);
    let identity = "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY";
    text.replace("INTEGER PRIMARY KEY AUTOINCREMENT", identity)
        // Only SQLite has numbers that were given out before.
        .replace("FROM sqlite_sequence", "FROM (VALUES ('', 0)) AS none (name, seq)")
        .replace(" STRICT, WITHOUT ROWID", "")
        .replace(" STRICT", "")
        .replace("INTEGER", "BIGINT")
        .replace("BLOB", "BYTEA")
        .replace(" user TEXT", " \"user\" TEXT")
}

/// `CREATE TRIGGER name BEFORE what ON table BEGIN SELECT RAISE(ABORT, 'why'); END;`
fn refusal(trigger: &str) -> String {
    let words: Vec<&str> = trigger.split_whitespace().collect();
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let (name, what, table) = (word(2), word(4), word(6));
    let why = trigger.split('\'').nth(1).unwrap_or_default();
    format!(
        "CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION '{why}'; END $$;
         CREATE TRIGGER {name} BEFORE {what} ON {table}
         FOR EACH ROW EXECUTE FUNCTION {name}();"
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::value::OwnedValue;
    use super::*;

    #[test]
    fn parameters() {
        assert_eq!(statement("a = ?2 AND b = ?1"), "a = $2 AND b = $1");
        assert_eq!(statement("a = ? AND b = '?' AND c = ?"), "a = $1 AND b = '?' AND c = $2");
    }

    #[test]
    fn values_stay_values() {
        let text = |of: &str| OwnedValue::Text(of.to_owned());
        let all = [
            text("o'$1\\'; DROP TABLE t; --\0"),
            OwnedValue::Integer(i64::MIN),
            OwnedValue::Blob(vec![1, 255]),
            OwnedValue::Null,
        ];
        let mut said = String::new();
        execute(&mut said, 7, &&all[..]).unwrap();
        execute(&mut said, 8, &&all[..0]).unwrap();
        assert_eq!(
            said,
            "EXECUTE cosy7(E'o''$1\\\\''; DROP TABLE t; --\u{fffd}',-9223372036854775808,'\\x01ff',NULL);EXECUTE cosy8;"
        );
    }

    #[test]
    fn tables() {
        let made = "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, user TEXT NOT NULL,
            b BLOB) STRICT, WITHOUT ROWID;";
        let want = "CREATE TABLE t (a BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, \"user\" TEXT NOT NULL,
            b BYTEA);";
        assert_eq!(migration(made), want);
        let trigger = migration(
            "x; CREATE TRIGGER n BEFORE UPDATE ON t\n BEGIN SELECT RAISE(ABORT, 'no way'); END; y",
        );
        let parts = ["BEFORE UPDATE ON t", "'no way'"];
        assert!(parts.iter().all(|part| trigger.contains(part)), "{trigger}");
        assert!(trigger.starts_with("x; ") && trigger.ends_with(" y"), "{trigger}");
    }
}
