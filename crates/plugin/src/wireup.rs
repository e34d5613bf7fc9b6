//! How the tasks of a program that is launched directly find each other.

use crate::find::word;
use crate::{PluginError, Plugins, needed};
use cosy_model::step::Wireup;
use std::fs::File;
use std::path::Path;

/// The wire-up for `programs`: as `choice` says (a plugin's name, or `pmi`, `pmix` or
/// `none` themselves), else that of the first plugin which knows a library that one of
/// them was linked with. What cannot be read is left to those who will execute it.
///
/// # Errors
/// [`PluginError`].
pub fn wireup<P: AsRef<Path>>(
    plugins: &Plugins,
    choice: Option<&str>,
    programs: &[P],
) -> Result<Wireup, PluginError> {
    if let Some(choice) = choice {
        return match (plugins.named(choice), word(choice)) {
            (Ok(plugin), _) => plugin.wireup(),
            (Err(_), Some(wireup)) => Ok(wireup),
            (Err(e), None) => Err(e),
        };
    }
    let mut libraries = Vec::new();
    for program in programs {
        let Ok(file) = File::open(program) else {
            continue;
        };
        let found = needed(&file);
        libraries.extend(found.map_err(|e| PluginError::Program(program.as_ref().into(), e))?);
    }
    if libraries.is_empty() {
        return Ok(Wireup::None);
    }
    for plugin in plugins.usual() {
        let known = plugin.libraries()?;
        if libraries.iter().any(|l| known.contains(l)) {
            return plugin.wireup();
        }
    }
    Ok(Wireup::None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn by_choice_and_by_library() {
        let work = tempfile::tempdir().unwrap();
        let this = std::env::current_exe().unwrap();
        let libraries = needed(&File::open(&this).unwrap()).unwrap();
        for (name, known, wireup) in [
            ("here", libraries.first().map_or("", String::as_str), "pmix"),
            ("other", "libother.so.1", "pmi"),
        ] {
            let directory = work.path().join(name);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("wireup"), wireup).unwrap();
            fs::write(directory.join("libraries"), known).unwrap();
        }
        let plugins = Plugins::new(vec![work.path().to_owned()]);
        let check = |choice: Option<&str>, program: &Path, expected: Option<Wireup>| {
            assert_eq!(wireup(&plugins, choice, &[program]).ok(), expected);
        };
        let script = work.path().join("here/wireup");
        check(Some("other"), &this, Some(Wireup::Pmi));
        check(Some("none"), &this, Some(Wireup::None));
        check(Some("pmix"), &script, Some(Wireup::Pmix));
        check(Some("lam"), &this, None);
        check(None, &script, Some(Wireup::None));
        check(None, Path::new("/nonexistent"), Some(Wireup::None));
        if !libraries.is_empty() {
            check(None, &this, Some(Wireup::Pmix));
        }
    }
}
