//! Adds the variables that the MPI plugins set for an allocation to its own.

use crate::native::mpi::{PreparedPlugins, prepare_plugins};
use cosy_model::OsText;
use cosy_plugin::Environment;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Adds the variables of the plugins to `variables`; `None` where they set none. Their files are
/// removed when the value is dropped.
pub fn prepare(program: &str, variables: &mut OsText) -> Option<PreparedPlugins> {
    let mut environment = read(variables);
    let prepared = prepare_plugins(&environment, program)?;
    environment.extend(prepared.variables.clone());
    *variables = write(&environment);
    Some(prepared)
}

fn read(block: &OsText) -> Environment {
    let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    block
        .0
        .split(|b| *b == 0)
        .filter_map(|v| {
            let at = v.iter().position(|b| *b == b'=')?;
            Some((part(&v[..at]), part(&v[at + 1..])))
        })
        .collect()
}

fn write(environment: &Environment) -> OsText {
    let one =
        |(name, value): (&OsString, &OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
    let all: Vec<Vec<u8>> = environment.iter().map(one).collect();
    OsText(all.join(&0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks() {
        let block = OsText::from("A=1\0B=x=y\0odd");
        assert_eq!(write(&read(&block)).lossy(), "A=1\0B=x=y");
        assert!(write(&read(&OsText::default())).is_empty());
    }

    #[test]
    fn one_task_needs_nothing() {
        let mut variables = OsText::from("COSY_TASKS=1\0COSY_NODE_COUNT=1");
        assert!(prepare("x", &mut variables).is_none());
        assert_eq!(variables.lossy(), "COSY_TASKS=1\0COSY_NODE_COUNT=1");
    }
}
