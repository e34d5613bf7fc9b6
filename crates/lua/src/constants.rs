//! Numbers that scripts know by name, as `slurm.NAME`. Source: slurm.h.

/// A number that is not set, of 32 bits.
pub const NO_VAL: i64 = 0xffff_fffe;
/// The same of 16 bits.
pub const NO_VAL16: i64 = 0xfffe;
/// The same of 8 bits.
pub const NO_VAL8: i64 = 0xfe;
/// The same of 64 bits, which Lua's whole numbers do not have room for.
pub const NO_VAL64: f64 = 18_446_744_073_709_551_614.0;
/// Without a limit.
pub const INFINITE: i64 = 0xffff_ffff;
/// What a nice value is offset by.
pub const NICE_OFFSET: i64 = 0x8000_0000;
/// The bit that makes memory one of each core.
pub const MEM_PER_CPU: f64 = 9_223_372_036_854_775_808.0;
/// Whole nodes, shared with nobody.
pub const SHARED_NONE: i64 = 0;
/// Nodes may be shared with others.
pub const SHARED_OK: i64 = 1;

/// Events that mail is sent about: the bit and the word of the field `mail_types`.
pub const MAIL: [(i64, &str); 8] = [
    (0x0001, "begin"),
    (0x0002, "end"),
    (0x0004, "fail"),
    (0x0008, "requeue"),
    (0x0010, "100"),
    (0x0020, "90"),
    (0x0040, "80"),
    (0x0080, "50"),
];

/// Whole numbers by name.
pub const NUMBERS: &[(&str, i64)] = &[
    ("SUCCESS", 0),
    ("ERROR", -1),
    ("FAILURE", -1),
    ("NO_VAL", NO_VAL),
    ("NO_VAL16", NO_VAL16),
    ("NO_VAL8", NO_VAL8),
    ("INFINITE", INFINITE),
    ("NICE_OFFSET", NICE_OFFSET),
    ("ALLOC_SID_ADMIN_HOLD", 1),
    ("ALLOC_SID_USER_HOLD", 2),
    ("JOB_SHARED_NONE", SHARED_NONE),
    ("JOB_SHARED_OK", SHARED_OK),
    ("JOB_SHARED_USER", 2),
    ("JOB_SHARED_MCS", 3),
    ("SHARED_FORCE", 0x8000),
    ("MAIL_JOB_BEGIN", 0x0001),
    ("MAIL_JOB_END", 0x0002),
    ("MAIL_JOB_FAIL", 0x0004),
    ("MAIL_JOB_REQUEUE", 0x0008),
    ("MAIL_JOB_TIME100", 0x0010),
    ("MAIL_JOB_TIME90", 0x0020),
    // As Slurm misspells it.
    ("MAIL_JOB_TIME890", 0x0020),
    ("MAIL_JOB_TIME80", 0x0040),
    ("MAIL_JOB_TIME50", 0x0080),
    ("MAIL_JOB_STAGE_OUT", 0x0100),
    ("MAIL_ARRAY_TASKS", 0x0200),
    ("MAIL_INVALID_DEPEND", 0x0400),
];

/// Numbers that are no whole ones in Lua.
pub const FLOATS: [(&str, f64); 3] = [
    ("NO_VAL64", NO_VAL64),
    ("INFINITE64", 18_446_744_073_709_551_615.0),
    ("MEM_PER_CPU", MEM_PER_CPU),
];
