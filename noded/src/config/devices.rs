//! `[[gpu]]` and `[[device]]` tables: what there is, with its identity.

use super::{Reader, Value};
use crate::devices::Device;
use std::path::PathBuf;
use toml::de::DeValue;

/// Most pieces of one table, and most GPUs.
const MOST: i64 = 1024;

/// One table.
#[derive(Default)]
struct Table {
    name: Option<String>,
    kind: String,
    /// Several devices, a file each.
    file: Vec<PathBuf>,
    /// One device with several files.
    files: Vec<PathBuf>,
    numa: Option<u32>,
    id: Option<String>,
    count: Option<u32>,
}

impl Reader<'_> {
    /// All `[[gpu]]` tables.
    pub(super) fn gpus(&mut self, value: &Value<'_>) {
        for item in self.tables("gpu", value) {
            if let Some(table) = self.table(item, "type") {
                let devices = self.pieces(item, &table);
                self.draft.devices.gpus.extend(devices);
            }
        }
        if self.draft.devices.gpus.len() as i64 > MOST {
            let text = format!("a node has at most {MOST} GPUs");
            self.fault(&value.span(), text);
        }
    }

    /// All `[[device]]` tables.
    pub(super) fn devices(&mut self, value: &Value<'_>) {
        for item in self.tables("device", value) {
            let Some(table) = self.table(item, "name") else {
                continue;
            };
            let Some(name) = table.name.clone() else {
                self.fault(&item.span(), "a device needs a name".to_owned());
                continue;
            };
            let devices = self.pieces(item, &table);
            let all = self.draft.devices.others.entry(name).or_default();
            all.extend(devices);
        }
    }

    fn tables<'v, 'a>(&mut self, name: &str, value: &'v Value<'a>) -> &'v [Value<'a>] {
        match value.get_ref() {
            DeValue::Array(items) => items,
            _ => {
                let text = format!("{name} must be tables, each beginning with [[{name}]]");
                self.fault(&value.span(), text);
                &[]
            }
        }
    }

    /// Reads one table; `word` is what its type is called.
    fn table(&mut self, item: &Value<'_>, word: &str) -> Option<Table> {
        let DeValue::Table(entries) = item.get_ref() else {
            let text = format!("must be a table with {word}, file, files, numa, id, count");
            self.fault(&item.span(), text);
            return None;
        };
        let mut table = Table::default();
        for (key, value) in entries {
            let name: &str = key.get_ref();
            match name {
                "type" if word == name => table.kind = self.word(name, value).unwrap_or_default(),
                "name" if word == name => table.name = self.word(name, value),
                "file" => table.file = self.file_list(value),
                "files" => table.files = self.files(value),
                "numa" => table.numa = self.number(name, value, 0, MOST),
                "id" => table.id = self.identity(value),
                "count" => table.count = self.number(name, value, 1, MOST),
                _ => self.fault(
                    &key.span(),
                    format!("unknown key '{name}': there are {word}, file, files, numa, id, count"),
                ),
            }
        }
        Some(table)
    }

    /// The devices that a table stands for.
    fn pieces(&mut self, item: &Value<'_>, table: &Table) -> Vec<Device> {
        let one = |files: Vec<PathBuf>| Device {
            kind: table.kind.clone(),
            files,
            numa: table.numa,
            id: table.id.clone(),
        };
        let count = table.count.unwrap_or(1) as usize;
        let named = table.file.len();
        let fault = if named > 0 && !table.files.is_empty() {
            Some("file and files exclude each other".to_owned())
        } else if !table.files.is_empty() && count > 1 {
            Some("files are those of one device: leave count out, or use file".to_owned())
        } else if named > 0 && table.count.is_some() && named != count {
            Some(format!("file names {named} devices, count says {count}"))
        } else if table.id.is_some() && named.max(count) > 1 {
            Some("an id is that of one device".to_owned())
        } else {
            None
        };
        if let Some(text) = fault {
            self.fault(&item.span(), text);
        }
        match named {
            0 => vec![one(table.files.clone()); count],
            _ => table.file.iter().map(|f| one(vec![f.clone()])).collect(),
        }
    }

    /// A name that requests use: no digit first, or it would be a number of them.
    fn word(&mut self, name: &str, value: &Value<'_>) -> Option<String> {
        let text = self.string(name, value)?;
        if let Err(why) = cosy_model::device::check_name(&text) {
            self.fault(&value.span(), format!("{name}: {why}"));
            return None;
        }
        Some(text)
    }

    /// `/dev/nvidia[0-3]`: numbers in the last part only.
    fn file_list(&mut self, value: &Value<'_>) -> Vec<PathBuf> {
        let Some(text) = self.string("file", value) else {
            return Vec::new();
        };
        let Some((directory, name)) = text.rsplit_once('/') else {
            self.absolute(value, &text);
            return Vec::new();
        };
        let fault = match cosy_model::expand(name) {
            Ok(names) if names.len() as i64 > MOST => {
                format!("{} files are more than {MOST}", names.len())
            }
            Ok(names) => {
                let path = |n: &String| self.absolute(value, &format!("{directory}/{n}"));
                return names.iter().filter_map(path).collect();
            }
            Err(e) => format!("file: {e}"),
        };
        self.fault(&value.span(), fault);
        Vec::new()
    }

    fn files(&mut self, value: &Value<'_>) -> Vec<PathBuf> {
        let names = self.texts("files", value).unwrap_or_default();
        let paths = names.iter().filter_map(|n| self.absolute(value, n));
        paths.collect()
    }

    fn absolute(&mut self, value: &Value<'_>, name: &str) -> Option<PathBuf> {
        if name.starts_with('/') && !name.contains('\0') {
            return Some(PathBuf::from(name));
        }
        let text = format!("'{}' is no absolute path", name.escape_debug());
        self.fault(&value.span(), text);
        None
    }

    /// It becomes part of a list in a variable.
    fn identity(&mut self, value: &Value<'_>) -> Option<String> {
        let text = self.string("id", value)?;
        let good = !text.is_empty()
            && text.len() <= 255
            && text.bytes().all(|b| b.is_ascii_graphic() && b != b',');
        if !good {
            let fault = "id must be 1 to 255 visible characters without a comma".to_owned();
            self.fault(&value.span(), fault);
        }
        good.then_some(text)
    }

    /// What `gpus`, `other` and the tables say together.
    pub(super) fn settle_devices(&mut self) {
        let tables = self.draft.devices.gpu_count();
        match self.draft.gpus {
            Some(n) if tables > 0 && n != tables => self.whole(format!(
                "gpus says {n}, the [[gpu]] tables are {tables}: leave gpus out"
            )),
            Some(n) if tables == 0 => {
                self.draft.devices.gpus = vec![Device::default(); n as usize];
            }
            Some(_) | None => {}
        }
        let others = &self.draft.devices.others;
        let twice = others.keys().find(|n| self.draft.other.get(n) > 0).cloned();
        if let Some(name) = twice {
            self.whole(format!(
                "{name} is in other and in [[device]] tables: leave it out of other"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, parse};
    use std::path::{Path, PathBuf};

    fn read(tables: &str) -> Result<Config, String> {
        let key = "a".repeat(64);
        let text = format!("name = 'n1'\ncontroller = 'h:1'\ncontroller_key = '{key}'\n{tables}");
        parse(&text, Path::new("/")).map_err(|faults| {
            let lines = faults.iter().map(|f| format!("{}: {}", f.line, f.text));
            lines.collect::<Vec<_>>().join("\n")
        })
    }

    #[test]
    fn tables_of_devices() {
        let text = "other = {licence = 2}\n\
            [[gpu]]\ntype = 'a100'\nfile = '/dev/nvidia[0-1]'\nnuma = 1\n\
            [[gpu]]\ntype = 'a100.mig-1g.5gb'\nfiles = ['/dev/nvidia2', '/dev/cap3']\nid = 'MIG-1'\n\
            [[gpu]]\ncount = 2\n\
            [[device]]\nname = 'fpga'\nfile = '/dev/fpga0'\n\
            [[device]]\nname = 'fpga'\ncount = 2\n";
        let config = read(text).unwrap();
        let devices = config.devices;
        let types = ["a100", "a100", "a100.mig-1g.5gb", "", ""];
        assert_eq!(devices.gpu_types(), types);
        assert_eq!(devices.gpus[1].files, [PathBuf::from("/dev/nvidia1")]);
        assert_eq!(devices.gpus[1].numa, Some(1));
        assert_eq!(devices.gpus[2].files.len(), 2);
        assert_eq!(devices.gpus[2].id.as_deref(), Some("MIG-1"));
        assert_eq!(devices.others["fpga"].len(), 3);
        assert_eq!(read("gpus = 3").unwrap().devices.gpu_count(), 3);
    }

    #[test]
    fn the_example_in_etc() {
        let text = include_str!("../../../etc/noded.toml");
        let (_, tables) = text.split_once("# --- GPUs and other devices").unwrap();
        let lines = tables.lines().filter_map(|l| l.strip_prefix("# "));
        let code: Vec<&str> = lines
            .filter(|l| l.starts_with("[[") || l.contains(" = "))
            .collect();
        let devices = read(&code.join("\n")).unwrap().devices;
        assert_eq!((devices.gpus.len(), devices.others["fpga"].len()), (5, 2));
        assert_eq!(devices.gpus[4].files.len(), 3);
    }

    #[test]
    fn faults_have_lines_and_reasons() {
        let check = |tables: &str, want: &str| {
            let got = read(tables).unwrap_err();
            assert!(got.contains(want), "{tables}: {got}");
        };
        check("gpu = 3", "4: gpu must be tables");
        check("[[gpu]]\ntype = '2'", "5: type: '2'");
        check("[[gpu]]\ntype = 'a:b'", "a:b");
        check("[[gpu]]\nname = 'x'", "5: unknown key 'name'");
        check("[[gpu]]\nfile = 'x/nvidia0'", "no absolute path");
        check("[[gpu]]\nfile = 'nvidia0'", "no absolute path");
        check("[[gpu]]\nfile = '/x'\nfiles = ['/y']", "exclude each other");
        check("[[gpu]]\nfiles = ['/y']\ncount = 2", "one device");
        check("[[gpu]]\nfile = '/x[0-1]'\ncount = 3", "names 2 devices");
        check("[[gpu]]\ncount = 2\nid = 'u'", "an id is that of one");
        check("[[gpu]]\nid = 'a,b'", "without a comma");
        check("[[gpu]]\ncount = 0", "from 1 to 1024");
        check("gpus = 2\n[[gpu]]\ncount = 3", "gpus says 2");
        check("[[gpu]]\nfile = '/x[0-9999]'", "more than 1024");
        check("[[device]]\ncount = 2", "needs a name");
        check("[[device]]\nname = 'gpu'", "'gpu'");
        check("other = {f = 1}\n[[device]]\nname = 'f'", "f is in other");
        check("other = {'gpu:a' = 1}", "gpu:a");
    }
}
