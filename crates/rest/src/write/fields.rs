//! What becomes of each field of a job that is submitted: an option of `sbatch`, whose rules then hold, a
//! part of the job that has no option, or a refusal. A field that changes what comes of the job is never
//! passed over.

/// What a field becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Becomes {
    /// The option with the value as it is: lists with commas.
    Option(&'static str),
    /// The option where the value is true.
    Flag(&'static str),
    /// The option with a number of minutes.
    Minutes(&'static str),
    /// The option with a number of MiB.
    Mebibytes(&'static str),
    /// The option with seconds since 1970; 0 asks for nothing.
    Moment(&'static str),
    /// The option, where the number is not 0.
    Count(&'static str),
    /// Something of its own: `crate::write::options` reads it.
    Own,
    /// Refused where it asks for something.
    Refused,
    /// Told as a warning.
    Nothing(&'static str),
}

const FILLED: &str = "is filled in by the controller";

/// Every field of a job.
pub const FIELDS: &[(&str, Becomes)] = &[
    ("account", Becomes::Option("account")),
    ("account_gather_frequency", Becomes::Option("acctg-freq")),
    ("admin_comment", Becomes::Own),
    ("allocation_node_list", Becomes::Nothing(FILLED)),
    ("allocation_node_port", Becomes::Nothing(FILLED)),
    ("argv", Becomes::Own),
    ("array", Becomes::Option("array")),
    ("batch_features", Becomes::Option("batch")),
    ("begin_time", Becomes::Moment("begin")),
    ("flags", Becomes::Own),
    ("burst_buffer", Becomes::Option("bb")),
    ("clusters", Becomes::Own),
    ("cluster_constraint", Becomes::Option("cluster-constraint")),
    ("comment", Becomes::Option("comment")),
    ("contiguous", Becomes::Flag("contiguous")),
    ("container", Becomes::Option("container")),
    ("container_id", Becomes::Refused),
    ("core_specification", Becomes::Count("core-spec")),
    ("thread_specification", Becomes::Count("thread-spec")),
    ("cpu_binding", Becomes::Nothing("the system binds tasks to the cores of their job")),
    ("cpu_binding_flags", Becomes::Nothing("the system binds tasks to the cores of their job")),
    ("cpu_frequency", Becomes::Option("cpu-freq")),
    ("cpus_per_tres", Becomes::Own),
    ("crontab", Becomes::Refused),
    ("deadline", Becomes::Moment("deadline")),
    ("delay_boot", Becomes::Nothing("nodes are not rebooted for jobs")),
    ("dependency", Becomes::Option("dependency")),
    ("end_time", Becomes::Own),
    ("environment", Becomes::Own),
    ("rlimits", Becomes::Own),
    ("excluded_nodes", Becomes::Own),
    ("extra", Becomes::Refused),
    ("constraints", Becomes::Option("constraint")),
    ("group_id", Becomes::Own),
    ("hetjob_group", Becomes::Own),
    ("immediate", Becomes::Own),
    ("job_id", Becomes::Own),
    ("kill_on_node_fail", Becomes::Own),
    ("licenses", Becomes::Option("licenses")),
    ("mail_type", Becomes::Own),
    ("mail_user", Becomes::Option("mail-user")),
    ("mcs_label", Becomes::Option("mcs-label")),
    ("memory_binding", Becomes::Option("mem-bind")),
    (
        "memory_binding_type",
        Becomes::Nothing("the system binds tasks to the memory near their cores"),
    ),
    ("memory_per_tres", Becomes::Own),
    ("name", Becomes::Option("job-name")),
    ("network", Becomes::Option("network")),
    ("nice", Becomes::Option("nice")),
    ("tasks", Becomes::Option("ntasks")),
    ("oom_kill_step", Becomes::Refused),
    ("open_mode", Becomes::Own),
    ("reserve_ports", Becomes::Own),
    ("overcommit", Becomes::Flag("overcommit")),
    ("partition", Becomes::Option("partition")),
    ("distribution_plane_size", Becomes::Own),
    ("power_flags", Becomes::Nothing("nodes are not switched for jobs")),
    ("prefer", Becomes::Option("prefer")),
    ("hold", Becomes::Flag("hold")),
    ("priority", Becomes::Own),
    ("profile", Becomes::Own),
    ("qos", Becomes::Option("qos")),
    ("reboot", Becomes::Flag("reboot")),
    ("required_nodes", Becomes::Own),
    ("requeue", Becomes::Own),
    ("reservation", Becomes::Option("reservation")),
    ("script", Becomes::Own),
    ("shared", Becomes::Own),
    ("site_factor", Becomes::Own),
    ("spank_environment", Becomes::Refused),
    ("step_id", Becomes::Own),
    ("distribution", Becomes::Own),
    ("time_limit", Becomes::Minutes("time")),
    ("time_minimum", Becomes::Minutes("time-min")),
    ("tres_bind", Becomes::Option("gpu-bind")),
    ("tres_freq", Becomes::Option("gpu-freq")),
    ("tres_per_job", Becomes::Own),
    ("tres_per_node", Becomes::Option("gres")),
    ("tres_per_socket", Becomes::Own),
    ("tres_per_task", Becomes::Own),
    ("user_id", Becomes::Own),
    ("wait_all_nodes", Becomes::Nothing("a job starts when all of its nodes are ready")),
    ("kill_warning_flags", Becomes::Own),
    ("kill_warning_signal", Becomes::Own),
    ("kill_warning_delay", Becomes::Own),
    ("current_working_directory", Becomes::Own),
    ("cpus_per_task", Becomes::Count("cpus-per-task")),
    ("minimum_cpus", Becomes::Own),
    ("maximum_cpus", Becomes::Own),
    ("nodes", Becomes::Option("nodes")),
    ("minimum_nodes", Becomes::Own),
    ("maximum_nodes", Becomes::Own),
    ("minimum_boards_per_node", Becomes::Nothing("nodes are chosen by their cores")),
    ("minimum_sockets_per_board", Becomes::Nothing("nodes are chosen by their cores")),
    ("sockets_per_node", Becomes::Count("sockets-per-node")),
    ("threads_per_core", Becomes::Count("threads-per-core")),
    ("tasks_per_node", Becomes::Count("ntasks-per-node")),
    ("tasks_per_socket", Becomes::Count("ntasks-per-socket")),
    ("tasks_per_core", Becomes::Count("ntasks-per-core")),
    ("tasks_per_board", Becomes::Nothing("nodes are chosen by their cores")),
    ("ntasks_per_tres", Becomes::Count("ntasks-per-gpu")),
    ("minimum_cpus_per_node", Becomes::Count("mincpus")),
    ("memory_per_cpu", Becomes::Mebibytes("mem-per-cpu")),
    ("memory_per_node", Becomes::Mebibytes("mem")),
    ("temporary_disk_per_node", Becomes::Mebibytes("tmp")),
    ("selinux_context", Becomes::Refused),
    ("required_switches", Becomes::Own),
    ("segment_size", Becomes::Count("segment")),
    ("standard_error", Becomes::Option("error")),
    ("standard_input", Becomes::Option("input")),
    ("standard_output", Becomes::Option("output")),
    ("wait_for_switch", Becomes::Own),
    ("wckey", Becomes::Option("wckey")),
    ("x11", Becomes::Refused),
    ("x11_magic_cookie", Becomes::Refused),
    ("x11_target_host", Becomes::Refused),
    ("x11_target_port", Becomes::Own),
];

/// What becomes of a field; nothing is known of one that Slurm has not.
pub fn of(name: &str) -> Option<Becomes> {
    FIELDS
        .iter()
        .find(|(own, _)| *own == name)
        .map(|(_, becomes)| *becomes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Shapes;
    use crate::version::ApiVersion;
    use cosy_slurm::submit::{Program, table};

    #[test]
    fn every_field_of_slurm_becomes_something() {
        for version in ApiVersion::ALL {
            for field in Shapes::of(version).record("job_request") {
                assert!(of(field.name).is_some(), "{} in {version:?}", field.name);
            }
        }
        let fields = Shapes::of(ApiVersion::V44).record("job_request");
        for (name, _) in FIELDS {
            assert!(fields.iter().any(|field| field.name == *name), "{name}");
        }
    }

    #[test]
    fn options_are_those_of_sbatch() {
        for (name, becomes) in FIELDS {
            let option = match becomes {
                Becomes::Option(option)
                | Becomes::Flag(option)
                | Becomes::Minutes(option)
                | Becomes::Mebibytes(option)
                | Becomes::Moment(option)
                | Becomes::Count(option) => option,
                Becomes::Own | Becomes::Refused | Becomes::Nothing(_) => continue,
            };
            assert!(table::find(Program::Sbatch, option).is_some(), "{name}: --{option}");
        }
    }
}
