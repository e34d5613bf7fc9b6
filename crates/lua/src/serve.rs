//! Lines in, lines out: first the script, then questions.

use crate::machine::{Load, Machine};
use cosy_rules::protocol::{Answer, QUESTION_BYTES, Question};
use serde::Deserialize;
use std::io::{BufRead, BufReader, Read, Write};

/// The first line.
#[derive(Debug, Deserialize)]
struct First {
    id: u64,
    load: Load,
}

/// Answers until there is no more input.
///
/// # Errors
/// Input that makes no sense, or nobody to answer to.
pub fn serve(input: impl Read, mut output: impl Write) -> Result<(), String> {
    let mut input = BufReader::new(input);
    let Some(line) = line(&mut input)? else {
        return Ok(());
    };
    let first: First = serde_json::from_slice(&line).map_err(|e| e.to_string())?;
    let (machine, answer) = Machine::load(first.load);
    tell(&mut output, first.id, answer)?;
    while let Some(line) = self::line(&mut input)? {
        let question: Question = serde_json::from_slice(&line).map_err(|e| e.to_string())?;
        drop(line);
        let id = question.id;
        tell(&mut output, id, machine.judge(question))?;
    }
    Ok(())
}

fn line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, String> {
    let mut line = Vec::new();
    let mut bounded = input.take(QUESTION_BYTES as u64 + 1);
    let read = bounded.read_until(b'\n', &mut line);
    read.map_err(|e| e.to_string())?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) => Err("a line without an end".to_owned()),
    }
}

fn tell(output: &mut impl Write, id: u64, answer: Answer) -> Result<(), String> {
    let answer = Answer { id, ..answer };
    let mut line = serde_json::to_vec(&answer).map_err(|e| e.to_string())?;
    line.push(b'\n');
    let told = output.write_all(&line).and_then(|()| output.flush());
    told.map_err(|e| e.to_string())
}
