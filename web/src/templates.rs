//! Scripts of the site that the form for jobs can begin with, read at the start.

use anyhow::Context as _;
use serde::Serialize;
use std::fs;
use std::io::Read;
use std::path::Path;

/// Templates, at most.
const MOST: usize = 100;
/// Bytes of one.
const BYTES: u64 = 64 << 10;

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Template {
    /// Name of its file without `.sh`.
    pub name: String,
    /// The commands.
    pub text: String,
}

/// All files `NAME.sh` of that folder, by name.
///
/// # Errors
/// The folder or a file cannot be read, or is too much.
pub fn read(folder: &Path) -> anyhow::Result<Vec<Template>> {
    let shown = folder.display();
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read '{shown}'"))? {
        let path = entry?.path();
        let is_script = path.extension().is_some_and(|end| end == "sh");
        let Some(name) = path.file_stem().filter(|_| is_script && path.is_file()) else {
            continue;
        };
        let name = name.to_string_lossy().into_owned();
        let mut text = String::new();
        let file = fs::File::open(&path)?
            .take(BYTES + 1)
            .read_to_string(&mut text);
        file.with_context(|| format!("cannot read '{}'", path.display()))?;
        if text.len() as u64 > BYTES || all.len() == MOST {
            anyhow::bail!("'{}': templates are {MOST} of {BYTES} bytes at most", path.display());
        }
        all.push(Template { name, text });
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("b.sh", "two\n");
        write("a.sh", "one\n");
        write("README", "no template");
        let all = read(folder.path()).unwrap();
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((names, all[0].text.as_str()), (vec!["a", "b"], "one\n"));
        write("c.sh", &"x".repeat(70_000));
        assert!(
            read(folder.path())
                .unwrap_err()
                .to_string()
                .contains("c.sh")
        );
        assert!(read(&folder.path().join("none")).is_err());
    }
}
