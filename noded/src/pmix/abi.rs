//! The shapes of libpmix's structures and the numbers of its constants, as far as a
//! server of one step needs them: the application binary interface of major version 4.
//!
//! Source: the PMIx standard 4.1 and the headers that it is published with
//! (`pmix_common.h`, `pmix_server.h`). A test compiles a program against the installed
//! headers and compares every size, place and constant with those here.

use std::ffi::{c_char, c_int, c_void};

/// Bytes of a namespace with its NUL.
pub const NAMESPACE_BYTES: usize = 256;
/// Bytes of a key with its NUL.
pub const KEY_BYTES: usize = 512;

/// `PMIX_SUCCESS`: the call has worked, or its callback tells.
pub const SUCCESS: c_int = 0;
/// `PMIX_OPERATION_SUCCEEDED`: the call has worked, and no callback follows.
pub const OPERATION_SUCCEEDED: c_int = -157;
/// A general error.
pub const ERROR: c_int = -1;
/// Nothing is known of it.
pub const NOT_FOUND: c_int = -46;
/// `PMIX_ERR_NOT_SUPPORTED`: the server does not do that.
pub const NOT_SUPPORTED: c_int = -47;

/// All ranks of a namespace.
pub const RANK_WILDCARD: u32 = u32::MAX - 1;

/// Kinds of values.
pub mod kind {
    /// C's `bool`, one byte.
    pub const BOOL: u16 = 1;
    /// `char *`, ended by NUL.
    pub const STRING: u16 = 3;
    /// C's `uint16_t`, in this machine's byte order.
    pub const UINT16: u16 = 13;
    /// C's `uint32_t`, in this machine's byte order.
    pub const UINT32: u16 = 14;
    /// `pmix_info_t`, in arrays.
    pub const INFO: u16 = 24;
    /// `pmix_data_array_t *`: values of one kind.
    pub const DATA_ARRAY: u16 = 39;
    /// Number of a process in its namespace (`pmix_rank_t`).
    pub const PROC_RANK: u16 = 40;
    /// A map of nodes or ranks as the library packs it.
    pub const REGEX: u16 = 49;
}

/// `pmix_proc_t`: one process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Proc {
    /// `nspace`, ended by NUL.
    pub namespace: [c_char; NAMESPACE_BYTES],
    /// Number in the namespace, or [`RANK_WILDCARD`].
    pub rank: u32,
}

/// `pmix_byte_object_t`: bytes with their length.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ByteObject {
    /// `bytes`: where they begin.
    pub bytes: *mut c_char,
    /// `size`: how many they are.
    pub size: usize,
}

/// `pmix_data_array_t`: values of one kind.
#[repr(C)]
pub struct DataArray {
    /// `type`: one of [`kind`].
    pub kind: u16,
    /// `size`: number of values.
    pub size: usize,
    /// `array`: where they begin; of the type that `kind` says.
    pub array: *mut c_void,
}

/// The union inside `pmix_value_t`, by the members that are used.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Data {
    /// `flag`, for [`kind::BOOL`].
    pub flag: bool,
    /// `string`, for [`kind::STRING`], ended by NUL.
    pub string: *const c_char,
    /// `uint16`, for [`kind::UINT16`].
    pub uint16: u16,
    /// `uint32` and `rank`, for [`kind::UINT32`] and [`kind::PROC_RANK`].
    pub uint32: u32,
    /// `bo`, for [`kind::REGEX`].
    pub bytes: ByteObject,
    /// `darray`, for [`kind::DATA_ARRAY`].
    pub array: *const DataArray,
    /// As large as the largest member (`envar`).
    pub whole: [u64; 3],
}

/// `pmix_value_t`: a value with its kind.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Value {
    /// `type`: one of [`kind`], which says the member of `data`.
    pub kind: u16,
    /// `data`: the value itself.
    pub data: Data,
}

/// `pmix_info_t`: a key with its value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Info {
    /// `key`, ended by NUL.
    pub key: [c_char; KEY_BYTES],
    /// `flags`: directives to the library; 0 here.
    pub flags: u32,
    /// `value`: what the key has.
    pub value: Value,
}

/// `pmix_op_cbfunc_t`: takes a status and the library's token.
pub type OpDone = Option<unsafe extern "C" fn(c_int, *mut c_void)>;
/// `pmix_release_cbfunc_t`: told when the library needs data no more.
pub type Release = Option<unsafe extern "C" fn(*mut c_void)>;
/// `pmix_modex_cbfunc_t`: takes a status, data with their length, and tokens.
pub type ModexDone =
    Option<unsafe extern "C" fn(c_int, *const c_char, usize, *mut c_void, Release, *mut c_void)>;
/// `pmix_server_client_connected_fn_t` and `pmix_server_client_finalized_fn_t`: a process has
/// come, or has gone.
pub type ClientConnectedFn =
    unsafe extern "C" fn(*const Proc, *mut c_void, OpDone, *mut c_void) -> c_int;
/// `pmix_server_abort_fn_t`: a process asks for the end of others.
pub type Abort = unsafe extern "C" fn(
    *const Proc,
    *mut c_void,
    c_int,
    *const c_char,
    *mut Proc,
    usize,
    OpDone,
    *mut c_void,
) -> c_int;
/// `pmix_server_fencenb_fn_t`: processes of this node have reached a fence.
pub type Fence = unsafe extern "C" fn(
    *const Proc,
    usize,
    *const Info,
    usize,
    *mut c_char,
    usize,
    ModexDone,
    *mut c_void,
) -> c_int;
/// `pmix_server_dmodex_req_fn_t`: asks for the data of a process elsewhere.
pub type DirectModex =
    unsafe extern "C" fn(*const Proc, *const Info, usize, ModexDone, *mut c_void) -> c_int;

/// A function that this server does not offer: the library answers "not supported".
pub type NotOffered = Option<unsafe extern "C" fn()>;

/// `pmix_server_module_t`, with room at its end for functions that later releases add.
#[repr(C)]
pub struct Module {
    /// `client_connected`: a process of this node has come.
    pub client_connected: Option<ClientConnectedFn>,
    /// `client_finalized`: a process of this node is done with PMIx.
    pub client_finalized: Option<ClientConnectedFn>,
    /// `abort`: a process asks for the end of others.
    pub abort: Option<Abort>,
    /// `fence_nb`: all processes of this node are at a fence.
    pub fence: Option<Fence>,
    /// `direct_modex`: data of a process elsewhere are asked for.
    pub direct_modex: Option<DirectModex>,
    /// `publish`, `lookup`, `unpublish`, `spawn`, `connect`, `disconnect`,
    /// `register_events`, `deregister_events`, `listener`, `notify_event`, `query`,
    /// `tool_connected`, `log`, `allocate`, `job_control`, `monitor`, `get_credential`,
    /// `validate_credential`, `iof_pull`, `push_stdin`, `group`, `fabric`,
    /// `client_connected2`
    pub rest: [NotOffered; 23],
    /// Members that version 4 of the library does not have.
    pub room: [NotOffered; 12],
}

const _: () = {
    assert!(size_of::<Proc>() == 260);
    assert!(size_of::<ByteObject>() == 16);
    assert!(size_of::<DataArray>() == 24);
    assert!(size_of::<Value>() == 32);
    assert!(size_of::<Info>() == 552);
    assert!(std::mem::offset_of!(Info, value) == 520);
    assert!(std::mem::offset_of!(Module, room) == 28 * size_of::<usize>());
};
