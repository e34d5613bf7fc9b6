//! Slurm's error numbers, their names, and the sentences that its commands say with them: a script of
//! the site gives one of them back, and tools ask for their sentences. Numbers without a sentence
//! here are told as Slurm tells unknown ones. Source: slurm_errno.h, and what the commands print.

/// Number, name and sentence; the sentence is empty where none is known.
pub const ERRORS: &[(u32, &str, &str)] = &[
    (2000, "ESLURM_INVALID_PARTITION_NAME", "Invalid partition name specified"),
    (
        2001,
        "ESLURM_DEFAULT_PARTITION_NOT_SET",
        "No partition specified or system default partition",
    ),
    (2002, "ESLURM_ACCESS_DENIED", "Access/permission denied"),
    (
        2003,
        "ESLURM_JOB_MISSING_REQUIRED_PARTITION_GROUP",
        "User's group not permitted to use this partition",
    ),
    (2004, "ESLURM_REQUESTED_NODES_NOT_IN_PARTITION", "Requested nodes not in this partition"),
    (2005, "ESLURM_TOO_MANY_REQUESTED_CPUS", "More processors requested than permitted"),
    (2006, "ESLURM_INVALID_NODE_COUNT", "Node count specification invalid"),
    (2007, "ESLURM_MAX_JOB_COUNT", ""),
    (2008, "ESLURM_JOB_MISSING_SIZE_SPECIFICATION", "Job size specification needs to be provided"),
    (2009, "ESLURM_JOB_SCRIPT_MISSING", "Job script not specified"),
    (2010, "ESLURM_USER_ID_MISSING", "Invalid user id"),
    (2011, "ESLURM_DUPLICATE_JOB_ID", "Duplicate job id"),
    (2012, "ESLURM_PATHNAME_TOO_LONG", "Pathname of a file, directory or other parameter too long"),
    (2013, "ESLURM_NOT_TOP_PRIORITY", "Immediate execution impossible, insufficient priority"),
    (
        2014,
        "ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE",
        "Requested node configuration is not available",
    ),
    (
        2015,
        "ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE",
        "Requested partition configuration not available now",
    ),
    (2016, "ESLURM_NODES_BUSY", "Requested nodes are busy"),
    (2017, "ESLURM_INVALID_JOB_ID", "Invalid job id specified"),
    (2018, "ESLURM_INVALID_NODE_NAME", "Invalid node name specified"),
    (2019, "ESLURM_WRITING_TO_FILE", "I/O error writing script/environment to file"),
    (2020, "ESLURM_TRANSITION_STATE_NO_UPDATE", "Job can not be altered now, try again later"),
    (2021, "ESLURM_ALREADY_DONE", "Job/step already completing or completed"),
    (2022, "ESLURM_INTERCONNECT_FAILURE", "Error configuring interconnect"),
    (2023, "ESLURM_BAD_DIST", "Task distribution specification invalid"),
    (2024, "ESLURM_JOB_PENDING", "Job is pending execution"),
    (2025, "ESLURM_BAD_TASK_COUNT", "Task count specification invalid"),
    (2026, "ESLURM_INVALID_JOB_CREDENTIAL", "Error generating job credential"),
    (2027, "ESLURM_IN_STANDBY_MODE", ""),
    (2028, "ESLURM_INVALID_NODE_STATE", "Invalid node state specified"),
    (2029, "ESLURM_INVALID_FEATURE", "Invalid feature specification"),
    (
        2035,
        "ESLURM_FRAGMENTATION",
        "Immediate execution impossible, resources too fragmented for allocation",
    ),
    (2036, "ESLURM_NOT_SUPPORTED", "Requested operation not supported on this system"),
    (2037, "ESLURM_DISABLED", "Requested operation is presently disabled"),
    (2038, "ESLURM_DEPENDENCY", "Job dependency problem"),
    (2039, "ESLURM_BATCH_ONLY", "Only batch jobs are accepted or processed"),
    (2040, "ESLURM_LICENSES_UNAVAILABLE", "Licenses not available"),
    (2042, "ESLURM_JOB_HELD", "Job is in held state, pending scheduler release"),
    (2044, "ESLURM_INVALID_TASK_MEMORY", "Memory required by task is not available"),
    (2045, "ESLURM_INVALID_ACCOUNT", "Invalid account or account/partition combination specified"),
    (2046, "ESLURM_INVALID_PARENT_ACCOUNT", "Invalid parent account specified"),
    (2047, "ESLURM_SAME_PARENT_ACCOUNT", "Account already child of parent account specified"),
    (2048, "ESLURM_INVALID_LICENSES", "Invalid license specification"),
    (2049, "ESLURM_NEED_RESTART", ""),
    (
        2050,
        "ESLURM_ACCOUNTING_POLICY",
        "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
    ),
    (
        2051,
        "ESLURM_INVALID_TIME_LIMIT",
        "Requested time limit is invalid (missing or exceeds some limit)",
    ),
    (2052, "ESLURM_RESERVATION_ACCESS", "Access denied to requested reservation"),
    (2053, "ESLURM_RESERVATION_INVALID", "Requested reservation is invalid"),
    (2054, "ESLURM_INVALID_TIME_VALUE", "Invalid time specified"),
    (2055, "ESLURM_RESERVATION_BUSY", "Requested reservation is in use"),
    (2056, "ESLURM_RESERVATION_NOT_USABLE", "Requested reservation not usable now"),
    (2057, "ESLURM_INVALID_WCKEY", "Invalid wckey specification"),
    (2058, "ESLURM_RESERVATION_OVERLAP", "Requested reservation overlaps with another reservation"),
    (2059, "ESLURM_PORTS_BUSY", "Required ports are in use"),
    (2060, "ESLURM_PORTS_INVALID", "Requires more ports than can be reserved"),
    (2061, "ESLURM_PROLOG_RUNNING", "SlurmctldProlog is still running"),
    (2062, "ESLURM_NO_STEPS", "Job steps can not be run on this cluster"),
    (2066, "ESLURM_INVALID_QOS", "Invalid qos specification"),
    (2067, "ESLURM_QOS_PREEMPTION_LOOP", "QOS Preemption loop detected"),
    (2068, "ESLURM_NODE_NOT_AVAIL", "Required node not available (down, drained or reserved)"),
    (2069, "ESLURM_INVALID_CPU_COUNT", "CPU count specification invalid"),
    (2070, "ESLURM_PARTITION_NOT_AVAIL", "Required partition not available (inactive or drain)"),
    (2071, "ESLURM_CIRCULAR_DEPENDENCY", "Circular job dependency"),
    (2072, "ESLURM_INVALID_GRES", "Invalid generic resource (gres) specification"),
    (2073, "ESLURM_JOB_NOT_PENDING", "Job is no longer pending execution"),
    (2074, "ESLURM_QOS_THRES", "Requested account has breached requested QOS usage threshold"),
    (2075, "ESLURM_PARTITION_IN_USE", "Partition is in use"),
    (2076, "ESLURM_STEP_LIMIT", "Step limit reached for this job"),
    (2077, "ESLURM_JOB_SUSPENDED", "Job is current suspended, requested operation disabled"),
    (2078, "ESLURM_CAN_NOT_START_IMMEDIATELY", "Job can not start immediately"),
    (2080, "ESLURM_RESERVATION_EMPTY", "Reservation request lacks users or accounts"),
    (2081, "ESLURM_INVALID_ARRAY", "Invalid job array specification"),
    (2082, "ESLURM_RESERVATION_NAME_DUP", "Duplicate reservation name"),
    (2083, "ESLURM_JOB_STARTED", "Job has already started"),
    (2084, "ESLURM_JOB_FINISHED", "Job has already finished"),
    (2085, "ESLURM_JOB_NOT_RUNNING", "Job is not running"),
    (2086, "ESLURM_JOB_NOT_PENDING_NOR_RUNNING", "Job is not pending nor running"),
    (2087, "ESLURM_JOB_NOT_SUSPENDED", "Job is not suspended"),
    (2088, "ESLURM_JOB_NOT_FINISHED", "Job is not finished"),
    (2089, "ESLURM_TRIGGER_DUP", "Duplicate event trigger"),
    (2090, "ESLURM_INTERNAL", "Slurm internal error, contact system administrator"),
    (2092, "ESLURM_BURST_BUFFER_PERMISSION", "Burst Buffer permission denied"),
    (2093, "ESLURM_BURST_BUFFER_LIMIT", "Burst Buffer resource limit exceeded"),
    (2094, "ESLURM_INVALID_BURST_BUFFER_REQUEST", "Burst Buffer request invalid"),
    (
        2095,
        "ESLURM_PRIO_RESET_FAIL",
        "Changes to job priority are not persistent, change nice instead",
    ),
    (2099, "ESLURM_INVALID_MCS_LABEL", "Invalid mcs_label specified"),
    (2100, "ESLURM_BURST_BUFFER_WAIT", "Waiting for burst buffer"),
    (2101, "ESLURM_PARTITION_DOWN", "Partition in DOWN state"),
    (2102, "ESLURM_DUPLICATE_GRES", "Duplicate generic resource (gres) specification"),
    (2104, "ESLURM_RSV_ALREADY_STARTED", "Reservation already started"),
    (2105, "ESLURM_SUBMISSIONS_DISABLED", "System submissions disabled"),
    (2106, "ESLURM_NOT_HET_JOB", "Job not heterogeneous job"),
    (2107, "ESLURM_NOT_HET_JOB_LEADER", "Job not heterogeneous job leader"),
    (
        2108,
        "ESLURM_NOT_WHOLE_HET_JOB",
        "Operation not permitted on individual component of heterogeneous job",
    ),
    (2109, "ESLURM_CORE_RESERVATION_UPDATE", "Core-based reservation can not be updated"),
    (2110, "ESLURM_DUPLICATE_STEP_ID", "Duplicate job step id"),
    (2111, "ESLURM_INVALID_CORE_CNT", "Core count for reservation node list is not consistent!"),
    (2112, "ESLURM_X11_NOT_AVAIL", "X11 forwarding not available"),
    (2113, "ESLURM_GROUP_ID_MISSING", "Invalid group id"),
    (
        2114,
        "ESLURM_BATCH_CONSTRAINT",
        "Job --batch option is invalid or not a subset of --constraints",
    ),
    (2115, "ESLURM_INVALID_TRES", "Invalid Trackable RESource (TRES) specification"),
    (2116, "ESLURM_INVALID_TRES_BILLING_WEIGHTS", "Invalid TRESBillingWeights specification"),
    (2117, "ESLURM_INVALID_JOB_DEFAULTS", "Invalid JobDefaults specification"),
    (2118, "ESLURM_RESERVATION_MAINT", "Job can not start due to maintenance reservation."),
    (
        2119,
        "ESLURM_INVALID_GRES_TYPE",
        "Invalid GRES specification (with and without type identification)",
    ),
    (2120, "ESLURM_REBOOT_IN_PROGRESS", "Reboot already in progress"),
    (
        2121,
        "ESLURM_MULTI_KNL_CONSTRAINT",
        "Multiple KNL NUMA and/or MCDRAM constraints require use of a heterogeneous job",
    ),
    (2122, "ESLURM_UNSUPPORTED_GRES", ""),
    (2123, "ESLURM_INVALID_NICE", "Invalid --nice value"),
    (
        2124,
        "ESLURM_INVALID_TIME_MIN_LIMIT",
        "Invalid time-min specification (exceeds job's time or other limits)",
    ),
    (2125, "ESLURM_DEFER", ""),
    (2126, "ESLURM_CONFIGLESS_DISABLED", ""),
    (2127, "ESLURM_ENVIRONMENT_MISSING", ""),
    (2128, "ESLURM_RESERVATION_NO_SKIP", ""),
    (2129, "ESLURM_RESERVATION_USER_GROUP", ""),
    (2130, "ESLURM_PARTITION_ASSOC", ""),
    (2131, "ESLURM_IN_STANDBY_USE_BACKUP", ""),
    (2132, "ESLURM_BAD_THREAD_PER_CORE", ""),
    (2133, "ESLURM_INVALID_PREFER", ""),
    (2134, "ESLURM_INSUFFICIENT_GRES", ""),
    (8000, "ESLURM_MISSING_TIME_LIMIT", "Time limit specification required, but not provided"),
];

/// The sentence of an error number.
pub fn sentence(number: u32) -> Option<&'static str> {
    if number == 0 {
        return Some("No error");
    }
    let known = ERRORS.iter().find(|(n, _, _)| *n == number);
    known
        .map(|(_, _, sentence)| *sentence)
        .filter(|sentence| !sentence.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_and_names_are_there_once() {
        assert!(ERRORS.is_sorted_by(|a, b| a.0 < b.0));
        let names: std::collections::BTreeSet<&str> = ERRORS.iter().map(|e| e.1).collect();
        assert_eq!(names.len(), ERRORS.len());
        assert_eq!(sentence(2000), Some("Invalid partition name specified"));
        assert_eq!(sentence(2066), Some("Invalid qos specification"));
        assert_eq!(sentence(1), None);
    }
}
