//! The shapes and numbers in `noded::pmix` against those of the installed headers.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use noded::pmix::abi::{
    self, ByteObject, Data, DataArray, Info, KEY_BYTES, Module, NAMESPACE_BYTES, Proc, Value, kind,
};
use noded::pmix::key;
use noded::pmix::library::MAJOR;
use std::fmt::Write;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

/// Prints one value for each expression, or does not compile. `None`: no headers.
fn values(expressions: &[(&str, String)]) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("values.c");
    let mut text = "#include <pmix_server.h>\n#include <stddef.h>\n\
        #define P(x) printf(_Generic((x), char *: \"%s\\n\", default: \"%ld\\n\"), (x))\n\
        int main(void) {\n"
        .to_owned();
    for (expression, _) in expressions {
        let _ = writeln!(text, "P({expression});");
    }
    text.push_str("return 0; }\n");
    std::fs::write(&source, text).unwrap();
    let flags = Command::new("pkg-config")
        .args(["--cflags", "pmix"])
        .output();
    let flags = String::from_utf8(flags.ok()?.stdout).unwrap();
    let program = folder.path().join("values");
    let has_headers = Command::new("cc")
        .args([
            "-E",
            "-w",
            "-include",
            "pmix_server.h",
            "-x",
            "c",
            "/dev/null",
        ])
        .args(flags.split_whitespace())
        .output()
        .ok()?;
    if !has_headers.status.success() {
        return None;
    }
    let built = Command::new("cc")
        .args(["-w", "-o"])
        .arg(&program)
        .arg(&source)
        .args(flags.split_whitespace())
        .status();
    assert!(built.unwrap().success(), "the program does not compile");
    Some(lines_of(&program))
}

fn lines_of(program: &Path) -> Vec<String> {
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn check(expressions: &[(&str, String)]) {
    let Some(found) = values(expressions) else {
        println!("skipped: there are no headers of libpmix");
        return;
    };
    assert_eq!(found.len(), expressions.len());
    for ((expression, expected), found) in expressions.iter().zip(found) {
        assert_eq!(found, *expected, "{expression}");
    }
}

macro_rules! same {
    ($($c:expr => $rust:expr),* $(,)?) => {
        check(&[$(($c, $rust.to_string())),*])
    };
}

#[test]
fn shapes() {
    same! {
        "(long)PMIX_VERSION_MAJOR" => MAJOR,
        "(long)sizeof(pmix_proc_t)" => size_of::<Proc>(),
        "(long)offsetof(pmix_proc_t, rank)" => offset_of!(Proc, rank),
        "(long)sizeof(pmix_nspace_t)" => NAMESPACE_BYTES,
        "(long)sizeof(pmix_key_t)" => KEY_BYTES,
        "(long)sizeof(pmix_byte_object_t)" => size_of::<ByteObject>(),
        "(long)offsetof(pmix_byte_object_t, size)" => offset_of!(ByteObject, size),
        "(long)sizeof(pmix_data_array_t)" => size_of::<DataArray>(),
        "(long)offsetof(pmix_data_array_t, size)" => offset_of!(DataArray, size),
        "(long)offsetof(pmix_data_array_t, array)" => offset_of!(DataArray, array),
        "(long)sizeof(pmix_value_t)" => size_of::<Value>(),
        "(long)sizeof(((pmix_value_t *)0)->data)" => size_of::<Data>(),
        "(long)offsetof(pmix_value_t, data)" => offset_of!(Value, data),
        "(long)sizeof(pmix_info_t)" => size_of::<Info>(),
        "(long)offsetof(pmix_info_t, flags)" => offset_of!(Info, flags),
        "(long)offsetof(pmix_info_t, value)" => offset_of!(Info, value),
        "(long)offsetof(pmix_server_module_t, client_connected)"
            => offset_of!(Module, client_connected),
        "(long)offsetof(pmix_server_module_t, client_finalized)"
            => offset_of!(Module, client_finalized),
        "(long)offsetof(pmix_server_module_t, abort)" => offset_of!(Module, abort),
        "(long)offsetof(pmix_server_module_t, fence_nb)" => offset_of!(Module, fence),
        "(long)offsetof(pmix_server_module_t, direct_modex)" => offset_of!(Module, direct_modex),
        "(long)offsetof(pmix_server_module_t, publish)" => offset_of!(Module, rest),
        "(long)sizeof(pmix_server_module_t)" => offset_of!(Module, room),
        "(long)sizeof(pmix_status_t)" => size_of::<std::ffi::c_int>(),
        "(long)sizeof(pmix_data_type_t)" => size_of::<u16>(),
    }
}

#[test]
fn numbers() {
    same! {
        "(long)PMIX_SUCCESS" => abi::SUCCESS,
        "(long)PMIX_OPERATION_SUCCEEDED" => abi::OPERATION_SUCCEEDED,
        "(long)PMIX_ERROR" => abi::ERROR,
        "(long)PMIX_ERR_NOT_FOUND" => abi::NOT_FOUND,
        "(long)PMIX_ERR_NOT_SUPPORTED" => abi::NOT_SUPPORTED,
        "(long)(PMIX_RANK_WILDCARD)" => abi::RANK_WILDCARD,
        "(long)PMIX_BOOL" => kind::BOOL,
        "(long)PMIX_STRING" => kind::STRING,
        "(long)PMIX_UINT16" => kind::UINT16,
        "(long)PMIX_UINT32" => kind::UINT32,
        "(long)PMIX_INFO" => kind::INFO,
        "(long)PMIX_DATA_ARRAY" => kind::DATA_ARRAY,
        "(long)PMIX_PROC_RANK" => kind::PROC_RANK,
        "(long)PMIX_REGEX" => kind::REGEX,
    }
}

#[test]
fn names() {
    same! {
        "PMIX_SERVER_TMPDIR" => key::SERVER_TMPDIR,
        "PMIX_SYSTEM_TMPDIR" => key::SYSTEM_TMPDIR,
        "PMIX_SERVER_NSPACE" => key::SERVER_NSPACE,
        "PMIX_SERVER_RANK" => key::SERVER_RANK,
        "PMIX_SERVER_TOOL_SUPPORT" => key::SERVER_TOOL_SUPPORT,
        "PMIX_HOSTNAME" => key::HOSTNAME,
        "PMIX_JOBID" => key::JOBID,
        "PMIX_UNIV_SIZE" => key::UNIV_SIZE,
        "PMIX_JOB_SIZE" => key::JOB_SIZE,
        "PMIX_MAX_PROCS" => key::MAX_PROCS,
        "PMIX_JOB_NUM_APPS" => key::JOB_NUM_APPS,
        "PMIX_NUM_NODES" => key::NUM_NODES,
        "PMIX_NODE_MAP" => key::NODE_MAP,
        "PMIX_PROC_MAP" => key::PROC_MAP,
        "PMIX_TMPDIR" => key::TMPDIR,
        "PMIX_NSDIR" => key::NSDIR,
        "PMIX_TDIR_RMCLEAN" => key::TDIR_RMCLEAN,
        "PMIX_LOCAL_SIZE" => key::LOCAL_SIZE,
        "PMIX_NODE_SIZE" => key::NODE_SIZE,
        "PMIX_LOCAL_PEERS" => key::LOCAL_PEERS,
        "PMIX_LOCALLDR" => key::LOCALLDR,
        "PMIX_NODE_INFO_ARRAY" => key::NODE_INFO_ARRAY,
        "PMIX_APP_INFO_ARRAY" => key::APP_INFO_ARRAY,
        "PMIX_PROC_INFO_ARRAY" => key::PROC_INFO_ARRAY,
        "PMIX_RANK" => key::RANK,
        "PMIX_APPNUM" => key::APPNUM,
        "PMIX_APP_SIZE" => key::APP_SIZE,
        "PMIX_APPLDR" => key::APPLDR,
        "PMIX_APP_RANK" => key::APP_RANK,
        "PMIX_GLOBAL_RANK" => key::GLOBAL_RANK,
        "PMIX_LOCAL_RANK" => key::LOCAL_RANK,
        "PMIX_NODE_RANK" => key::NODE_RANK,
        "PMIX_NODEID" => key::NODEID,
        "PMIX_PROCDIR" => key::PROCDIR,
        "PMIX_SPAWNED" => key::SPAWNED,
        "PMIX_REINCARNATION" => key::REINCARNATION,
    }
}
