//! `[[gpu]]` and `[[device]]` tables: what there is, with its identity.

use super::values::{List, number, one_of, path, text, texts, truth};
use crate::devices::{Device, Devices, MOST_SHARDS};
use crate::gpus::{GpuSearch, Vendor};
use cosy_config::{Check, Raw};
use cosy_model::CountedResources;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::Spanned;

/// Most pieces of one table, and most GPUs.
const MOST: u32 = 1024;
/// Most names of models that are given types.
const TYPES: usize = 64;

/// One `[[gpu]]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gpu {
    r#type: Option<Raw>,
    vendor: Option<Raw>,
    shards: Option<Raw>,
    file: Option<Raw>,
    files: Option<List>,
    numa: Option<Raw>,
    id: Option<Raw>,
    count: Option<Raw>,
}

/// One `[[device]]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Other {
    name: Option<Raw>,
    file: Option<Raw>,
    files: Option<List>,
    numa: Option<Raw>,
    id: Option<Raw>,
    count: Option<Raw>,
}

/// What the tables of both kinds say.
struct Table<'t> {
    /// Place of the table in the text, in bytes.
    at: usize,
    kind: String,
    vendor: Option<&'t Raw>,
    shards: Option<&'t Raw>,
    file: Option<&'t Raw>,
    files: Option<&'t List>,
    numa: Option<&'t Raw>,
    id: Option<&'t Raw>,
    count: Option<&'t Raw>,
}

/// What `gpus`, `other` and the tables say together.
pub(super) fn devices(
    check: &mut Check<'_>,
    (gpus, tables): (Option<u32>, &[Spanned<Gpu>]),
    (counted, others): (&CountedResources, &[Spanned<Other>]),
) -> Devices {
    let mut all = Vec::new();
    for item in tables {
        all.extend(gpu_pieces(check, item));
        if all.len() > MOST as usize {
            break;
        }
    }
    let told = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let at = tables.first().map_or(0, |item| item.span().start);
    if told > MOST {
        check.fault(at, format!("a node has at most {MOST} GPUs"));
    }
    let shards = all.iter().filter_map(|g| g.shards).map(u64::from);
    if shards.sum::<u64>() > u64::from(MOST_SHARDS) {
        check.fault(at, format!("a node has at most {MOST_SHARDS} shards"));
        all.clear();
    }
    let mut devices = Devices::of(all);
    for item in others {
        other_pieces(check, item, &mut devices);
    }
    match (gpus, told) {
        (Some(n), tables) if tables > 0 && n != tables => check
            .file_fault(format!("gpus says {n}, the [[gpu]] tables are {tables}: leave gpus out")),
        (Some(n), 0) => devices.add(Devices::of(vec![Device::default(); n as usize])),
        (Some(_) | None, _) => {}
    }
    if let Some(name) = devices.others.keys().find(|n| counted.get(n) > 0) {
        check.file_fault(format!(
            "{name} is in other and in [[device]] tables: leave it out of other"
        ));
    }
    devices
}

fn gpu_pieces(check: &mut Check<'_>, item: &Spanned<Gpu>) -> Vec<Device> {
    let gpu = item.get_ref();
    let kind = gpu.r#type.as_ref().and_then(|v| word(check, "type", v));
    let table = Table {
        at: item.span().start,
        kind: kind.unwrap_or_default(),
        vendor: gpu.vendor.as_ref(),
        shards: gpu.shards.as_ref(),
        file: gpu.file.as_ref(),
        files: gpu.files.as_ref(),
        numa: gpu.numa.as_ref(),
        id: gpu.id.as_ref(),
        count: gpu.count.as_ref(),
    };
    pieces(check, table)
}

fn other_pieces(check: &mut Check<'_>, item: &Spanned<Other>, devices: &mut Devices) {
    let other = item.get_ref();
    let table = Table {
        at: item.span().start,
        kind: String::new(),
        vendor: None,
        shards: None,
        file: other.file.as_ref(),
        files: other.files.as_ref(),
        numa: other.numa.as_ref(),
        id: other.id.as_ref(),
        count: other.count.as_ref(),
    };
    let Some(name) = &other.name else {
        return check.fault(item.span().start, "a device needs a name");
    };
    let name = word(check, "name", name);
    let pieces = pieces(check, table);
    if let Some(name) = name {
        devices.others.entry(name).or_default().extend(pieces);
    }
}

/// The devices that a table stands for.
fn pieces(check: &mut Check<'_>, table: Table<'_>) -> Vec<Device> {
    // Several devices, a file each; or one device with several files.
    let file = table.file.map_or(Vec::new(), |v| file_list(check, v));
    let files = table.files.map_or(Vec::new(), |v| files(check, v));
    let numa = table.numa.and_then(|v| number(check, "numa", v, (0, MOST)));
    let id = table.id.and_then(|v| identity(check, v));
    let given = table
        .count
        .and_then(|v| number(check, "count", v, (1, MOST)));
    let count = given.unwrap_or(1) as usize;
    let named = file.len();
    let fault = if named > 0 && !files.is_empty() {
        Some("file and files exclude each other".to_owned())
    } else if !files.is_empty() && count > 1 {
        Some("files are those of one device: leave count out, or use file".to_owned())
    } else if named > 0 && given.is_some() && named != count {
        Some(format!("file names {named} devices, count says {count}"))
    } else if id.is_some() && named.max(count) > 1 {
        Some("an id is that of one device".to_owned())
    } else {
        None
    };
    if let Some(text) = fault {
        check.fault(table.at, text);
    }
    let vendor = table.vendor.and_then(|v| vendor(check, v));
    let shards = table
        .shards
        .and_then(|v| number(check, "shards", v, (1, MOST_SHARDS)));
    let one = |files: Vec<PathBuf>| Device {
        kind: table.kind.clone(),
        vendor: vendor.unwrap_or_else(|| vendor_of(&files)),
        files,
        numa,
        id: id.clone(),
        index: 0,
        shards,
    };
    match named {
        0 => vec![one(files); count],
        _ => file.into_iter().map(|f| one(vec![f])).collect(),
    }
}

fn vendor(check: &mut Check<'_>, value: &Raw) -> Option<Vendor> {
    let all = [("nvidia", Vendor::Nvidia), ("amd", Vendor::Amd)];
    one_of(check, "vendor", value, &all)
}

/// Whose GPUs have such files.
fn vendor_of(files: &[PathBuf]) -> Vendor {
    match files.iter().any(|f| f.starts_with("/dev/dri")) {
        true => Vendor::Amd,
        false => Vendor::Nvidia,
    }
}

/// What the file says of GPUs that are found by themselves.
pub(super) struct Search<'f> {
    /// It says which GPUs there are.
    pub told: bool,
    pub detect: Option<&'f Raw>,
    pub types: &'f BTreeMap<String, Raw>,
    pub shards: Option<&'f Raw>,
    pub nvml: Option<&'f Raw>,
    pub rocm: Option<&'f Raw>,
}

/// How GPUs are looked for: not where the file says which there are.
pub(super) fn gpu_search(check: &mut Check<'_>, keys: &Search<'_>) -> GpuSearch {
    let detect = keys.detect.and_then(|v| truth(check, "gpu_detect", v));
    let first_type = keys.types.iter().next();
    let needless = [
        ("gpu_detect", keys.detect.filter(|_| detect == Some(true))),
        ("gpu_types", first_type.map(|(_, value)| value)),
        ("gpu_shards", keys.shards),
        ("nvml_library", keys.nvml),
        ("rocm_library", keys.rocm),
    ];
    for (key, value) in needless.into_iter().filter(|_| keys.told) {
        if let Some(value) = value {
            let what = format!(
                "{key} is for GPUs that are found by themselves, but 'gpus' or [[gpu]] says which there are: leave one out"
            );
            check.fault(value.span().start, what);
        }
    }
    let mut types = BTreeMap::new();
    for (part, value) in keys.types.iter().take(TYPES + 1) {
        if let Some(kind) = word(check, "gpu_types", value) {
            types.insert(part.clone(), kind);
        }
        if part.trim().is_empty() || types.len() > TYPES {
            let what =
                format!("gpu_types has up to {TYPES} parts of names of models, none of them empty");
            check.fault(value.span().start, what);
        }
    }
    GpuSearch {
        off: keys.told || detect == Some(false),
        nvml: keys.nvml.and_then(|v| path(check, "nvml_library", v)),
        rocm: keys.rocm.and_then(|v| path(check, "rocm_library", v)),
        types,
        shards: keys
            .shards
            .and_then(|v| number(check, "gpu_shards", v, (1, MOST_SHARDS))),
    }
}

/// A name that requests use: no digit first, or it would be a number of them.
fn word(check: &mut Check<'_>, key: &str, value: &Raw) -> Option<String> {
    let text = text(check, key, value)?;
    if let Err(why) = cosy_model::device::check_name(&text) {
        check.fault(value.span().start, format!("{key}: {why}"));
        return None;
    }
    Some(text)
}

/// `/dev/nvidia[0-3]`: numbers in the last part only.
fn file_list(check: &mut Check<'_>, value: &Raw) -> Vec<PathBuf> {
    let Some(text) = text(check, "file", value) else {
        return Vec::new();
    };
    let at = value.span().start;
    let Some((directory, name)) = text.rsplit_once('/') else {
        absolute(check, at, &text);
        return Vec::new();
    };
    let fault = match cosy_model::expand(name) {
        Ok(names) if names.len() > MOST as usize => {
            format!("{} files are more than {MOST}", names.len())
        }
        Ok(names) => {
            let path = |n: &String| absolute(check, at, &format!("{directory}/{n}"));
            return names.iter().filter_map(path).collect();
        }
        Err(e) => format!("file: {e}"),
    };
    check.fault(at, fault);
    Vec::new()
}

fn files(check: &mut Check<'_>, list: &List) -> Vec<PathBuf> {
    let at = list.span().start;
    let names = texts(check, "files", list).unwrap_or_default();
    let paths = names.iter().filter_map(|n| absolute(check, at, n));
    paths.collect()
}

fn absolute(check: &mut Check<'_>, at: usize, name: &str) -> Option<PathBuf> {
    if name.starts_with('/') && !name.contains('\0') {
        return Some(PathBuf::from(name));
    }
    let what = format!("'{}' is no absolute path", name.escape_debug());
    check.fault(at, what);
    None
}

/// Reads a device's `id`, which becomes part of a list in a variable.
fn identity(check: &mut Check<'_>, value: &Raw) -> Option<String> {
    let text = text(check, "id", value)?;
    let good = !text.is_empty()
        && text.len() <= 255
        && text.bytes().all(|b| b.is_ascii_graphic() && b != b',');
    if !good {
        check.fault(value.span().start, "id must be 1 to 255 visible characters without a comma");
    }
    good.then_some(text)
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::gpus::Vendor;
    use std::path::{Path, PathBuf};

    fn read(tables: &str) -> Result<Config, String> {
        let key = "a".repeat(64);
        let text = format!("name = 'n1'\ncontroller = 'h:1'\ncontroller_key = '{key}'\n{tables}");
        Config::parse(Path::new("/x"), &text).map_err(|faults| faults.to_string())
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
        assert_eq!((devices.gpus.len(), devices.others["fpga"].len()), (6, 2));
        assert_eq!((devices.gpus[4].vendor, devices.shards()), (Vendor::Amd, vec![4]));
        assert_eq!(devices.gpus[5].files.len(), 3);
    }

    #[test]
    fn gpus_are_looked_for_unless_they_are_told() {
        let search = |text: &str| read(text).unwrap().gpu_search;
        assert!(!search("").off);
        for told in ["gpus = 0", "gpus = 2", "[[gpu]]", "gpu_detect = false"] {
            assert!(search(told).off, "{told}");
        }
        let all =
            search("gpu_shards = 3\ngpu_types = {'A100 80GB' = 'a100-80'}\nnvml_library = '/x'");
        assert_eq!((all.shards, all.nvml), (Some(3), Some(PathBuf::from("/x"))));
        assert_eq!(all.types["A100 80GB"], "a100-80");
        assert!(search("gpus = 2\ngpu_detect = false").off);
    }

    #[test]
    fn shards_and_vendors() {
        let text = "[[gpu]]\nfile = '/dev/dri/renderD[128-129]'\n[[gpu]]\nshards = 2\ncount = 2\n[[gpu]]\nvendor = 'amd'";
        let devices = read(text).unwrap().devices;
        let gpus: Vec<_> = devices.gpus.iter().map(|g| (g.vendor, g.index)).collect();
        assert_eq!(gpus, [(Vendor::Amd, 0), (Vendor::Amd, 1), (Vendor::Amd, 4)]);
        assert_eq!(devices.shards(), [2, 2]);
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
        check("[[gpu]]\nname = 'x'", "5: unknown field `name`");
        check("[[gpu]]\nfile = 'x/nvidia0'", "no absolute path");
        check("[[gpu]]\nfile = 'nvidia0'", "no absolute path");
        check("[[gpu]]\nfile = '/x'\nfiles = ['/y']", "exclude each other");
        check("[[gpu]]\nfiles = ['/y']\ncount = 2", "one device");
        check("[[gpu]]\nfile = '/x[0-1]'\ncount = 3", "names 2 devices");
        check("[[gpu]]\ncount = 2\nid = 'u'", "an id is that of one");
        check("[[gpu]]\nid = 'a,b'", "without a comma");
        check("[[gpu]]\ncount = 0", "from 1 to 1024");
        check("gpus = 2\n[[gpu]]\ncount = 3", "gpus says 2");
        check("[[gpu]]\nvendor = 'intel'", "vendor is 'nvidia' or 'amd', not 'intel'");
        check("[[gpu]]\nshards = 0", "from 1 to 1024");
        check("[[gpu]]\nshards = 600\ncount = 2", "at most 1024 shards");
        check("gpus = 2\ngpu_detect = true", "5: gpu_detect is for GPUs that are found");
        check("gpu_shards = 2\n[[gpu]]", "4: gpu_shards is for GPUs that are found");
        check("gpu_types = {A100 = '2'}", "4: gpu_types: '2'");
        check("gpu_types = {' ' = 'a'}", "none of them empty");
        check("gpu_detect = 'auto'", "gpu_detect");
        check("nvml_library = ''", "nvml_library");
        check("[[gpu]]\nfile = '/x[0-9999]'", "more than 1024");
        check("[[device]]\ncount = 2", "needs a name");
        check("[[device]]\nname = 'gpu'", "'gpu'");
        check("other = {f = 1}\n[[device]]\nname = 'f'", "f is in other");
        check("other = {'gpu:a' = 1}", "gpu:a");
    }
}
