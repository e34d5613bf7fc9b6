//! Variables around a helper: what it gets of a step's, and what tasks get beside what
//! the library says.

use cosy_model::OsText;
use cosy_model::variables::PREFIX;

/// Open MPI 4 takes a program for one that runs alone unless it sees that one of the
/// launchers known to it has started it. By this variable it recognises a launcher that
/// speaks PMIx and binds tasks itself, which is what is true here. Nothing else reads it;
/// Open MPI 5 needs none.
const DIRECT_LAUNCH: &str = "JSM_JSRUN_PORT";

/// Where Open MPI's tasks on one node have memory in common: in a directory that is
/// removed with the step, however it ends, and that nodes on one host do not share.
const COMMON_MEMORY: [&str; 2] = [
    "OMPI_MCA_btl_vader_backing_directory",
    "OMPI_MCA_btl_sm_backing_directory",
];

/// What a helper sees of a step's variables: ours, and what the dynamic linker and
/// libpmix read.
pub fn of_helper(variables: &OsText) -> Vec<(Vec<u8>, Vec<u8>)> {
    const PREFIXES: [&[u8]; 2] = [PREFIX.as_bytes(), b"PMIX_MCA_"];
    const NAMES: [&[u8]; 4] = [b"PATH", b"HOME", b"USER", b"LD_LIBRARY_PATH"];
    pairs(variables)
        .filter(|(name, _)| {
            NAMES.contains(name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        })
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect()
}

/// What every task gets, unless the step says otherwise.
pub fn of_tasks(variables: &OsText, directory: &OsText) -> Vec<OsText> {
    let common = COMMON_MEMORY.map(|name| (name, &directory.0[..]));
    std::iter::once((DIRECT_LAUNCH, &b"0"[..]))
        .chain(common)
        .filter(|(name, _)| value(variables, name).is_none())
        .map(|(name, value)| OsText([name.as_bytes(), b"=", value].concat()))
        .collect()
}

/// The value of a variable.
pub fn value<'a>(variables: &'a OsText, name: &str) -> Option<&'a [u8]> {
    let found = pairs(variables).find(|(n, _)| *n == name.as_bytes());
    found.map(|(_, value)| value)
}

fn pairs(variables: &OsText) -> impl Iterator<Item = (&[u8], &[u8])> {
    variables.0.split(|b| *b == 0).filter_map(|variable| {
        let at = variable.iter().position(|b| *b == b'=')?;
        Some((&variable[..at], &variable[at + 1..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_step_says_wins() {
        let step = OsText(b"OMPI_MCA_btl_vader_backing_directory=/scratch\0A=b=c\0X".to_vec());
        let tasks = of_tasks(&step, &OsText(b"/d".to_vec()));
        let tasks: Vec<String> = tasks.iter().map(OsText::lossy).collect();
        assert_eq!(tasks, ["JSM_JSRUN_PORT=0", "OMPI_MCA_btl_sm_backing_directory=/d"]);
        assert_eq!(value(&step, "A"), Some(&b"b=c"[..]));
        assert_eq!(value(&step, "X"), None);
    }

    #[test]
    fn helpers_see_little() {
        let step = b"LD_PRELOAD=x\0PMIX_RANK=3\0PMIX_MCA_gds=hash\0PATH=/bin\0=\0COSY_JOB_ID=1";
        let seen = of_helper(&OsText(step.to_vec()));
        let names: Vec<&[u8]> = seen.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, [&b"PMIX_MCA_gds"[..], b"PATH", b"COSY_JOB_ID"]);
    }
}
