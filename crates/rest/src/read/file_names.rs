//! Names of a job's files with its patterns put in, as far as the job as a whole has one value for
//! them. Source: sbatch(1), "FILENAME PATTERN".

use cosy_model::api::JobField as F;
use cosy_slurm::job::JobView;

/// The file of that field; empty where none was named.
pub fn expanded(job: &JobView<'_>, field: F) -> String {
    let pattern = job.text(field);
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        // A width stands between the sign and the letter: `%4j`.
        let rest = letters.as_str();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (width, rest) = rest.split_at(digits);
        let width = width.parse::<usize>().unwrap_or(0).min(10);
        let mut rest = rest.chars();
        let value = rest.next().and_then(|sign| value(job, sign));
        match value {
            Some(Part::Number(n)) => out.push_str(&format!("{n:0width$}")),
            Some(Part::Text(text)) => out.push_str(text),
            None => {
                out.push('%');
                continue;
            }
        }
        letters = rest;
    }
    out
}

enum Part<'t> {
    Number(i64),
    Text(&'t str),
}

fn value<'t>(job: &JobView<'t>, sign: char) -> Option<Part<'t>> {
    Some(match sign {
        '%' => Part::Text("%"),
        'A' => Part::Number(job.base_id()),
        'a' => Part::Number(job.task().unwrap_or(4_294_967_294)),
        'j' => Part::Number(job.raw_id()),
        'u' => Part::Text(job.text(F::User)),
        'x' => Part::Text(job.text(F::Name)),
        'N' => Part::Text(job.text(F::BatchHost)),
        _ => return None,
    })
}
