//! Names of all variables of ours: those in which jobs, steps and programs are told of themselves,
//! and those by which users and administrators say something to our programs; and the form of
//! lists in them.

use crate::limits;

/// `no`: commands say nothing of what the last job of the same name used.
pub const HINTS: &str = "COSY_HINTS";
/// Name of the cluster.
pub const CLUSTER: &str = "COSY_CLUSTER";
/// In which words a job is spoken to, where these are not Cosy's own.
pub const DIALECT: &str = "COSY_DIALECT";
/// Id of the job; of a task of an array its own.
pub const JOB_ID: &str = "COSY_JOB_ID";
/// Name of the job.
pub const JOB_NAME: &str = "COSY_JOB_NAME";
/// Number of this attempt, from 1.
pub const JOB_ATTEMPT: &str = "COSY_JOB_ATTEMPT";
/// Login name of the job's owner.
pub const JOB_USER: &str = "COSY_JOB_USER";
/// Number of the owner.
pub const JOB_UID: &str = "COSY_JOB_UID";
/// Primary group of the owner, by number.
pub const JOB_GID: &str = "COSY_JOB_GID";
/// Queue that the job runs in.
pub const QUEUE: &str = "COSY_QUEUE";
/// Account that the job charges.
pub const ACCOUNT: &str = "COSY_ACCOUNT";
/// Quality of service that the job named.
pub const QOS: &str = "COSY_QOS";
/// Reservation that the job runs in.
pub const RESERVATION: &str = "COSY_RESERVATION";
/// Nodes as a host list, in the order of the job.
pub const NODES: &str = "COSY_NODES";
/// Number of nodes.
pub const NODE_COUNT: &str = "COSY_NODE_COUNT";
/// Number of nodes beside these that take the place of lost ones; only where there are some.
pub const SPARES: &str = "COSY_SPARES";
/// Switches of the network that each node hangs on, from the top down: `top.leaf1(x2),top.leaf2`;
/// only where some are configured. See [`write_runs`].
pub const SWITCHES_BY_NODE: &str = "COSY_SWITCHES_BY_NODE";
/// Number of tasks on all nodes together.
pub const TASKS: &str = "COSY_TASKS";
/// Number of tasks on each node: see [`write_counts`].
pub const TASKS_BY_NODE: &str = "COSY_TASKS_BY_NODE";
/// Cores on each node: see [`write_counts`].
pub const CORES_BY_NODE: &str = "COSY_CORES_BY_NODE";
/// Cores of each task, as asked for.
pub const CORES_PER_TASK: &str = "COSY_CORES_PER_TASK";
/// Memory on the first node in MiB.
pub const MEMORY: &str = "COSY_MEMORY_MIB";
/// Memory for each core in MiB, where that was asked for.
pub const MEMORY_PER_CORE: &str = "COSY_MEMORY_PER_CORE_MIB";
/// Of a job of several components: how many.
pub const COMPONENTS: &str = "COSY_BUNDLES";
/// Of a job of several components: that of each node, see [`write_counts`].
pub const COMPONENT_BY_NODE: &str = "COSY_BUNDLE_BY_NODE";
/// First id of the array.
pub const ARRAY_ID: &str = "COSY_ARRAY_ID";
/// Index of this task in the array.
pub const ARRAY_TASK: &str = "COSY_ARRAY_TASK";
/// Number of the array's tasks.
pub const ARRAY_COUNT: &str = "COSY_ARRAY_COUNT";
/// Lowest index of the array.
pub const ARRAY_MIN: &str = "COSY_ARRAY_MIN";
/// Highest index of the array.
pub const ARRAY_MAX: &str = "COSY_ARRAY_MAX";
/// From one index of the array to the next.
pub const ARRAY_STEP: &str = "COSY_ARRAY_STEP";
/// Cores on the first node.
pub const CORES: &str = "COSY_CORES";
/// Where the job's program starts.
pub const WORKDIR: &str = "COSY_WORKDIR";
/// Time limit of this attempt in whole seconds, where it has one.
pub const TIME_LIMIT: &str = "COSY_TIME_LIMIT_SECONDS";
/// Id of the workflow that the job is in.
pub const FLOW: &str = "COSY_FLOW";
/// Name of the workflow that the job is in.
pub const FLOW_NAME: &str = "COSY_FLOW_NAME";
/// Name of the job among the tasks of its workflow.
pub const FLOW_TASK: &str = "COSY_FLOW_TASK";
/// Id of the trigger whose program runs.
pub const TRIGGER_ID: &str = "COSY_TRIGGER_ID";

// Of a node, and of what it runs.

/// Name of the node.
pub const NODENAME: &str = "COSY_NODENAME";
/// Path of the socket of the node's daemon.
pub const STEP_SOCKET: &str = "COSY_STEP_SOCKET";
/// In what runs in an allocation with `--x11`: `JOB:NODES`, so that its steps have a display too.
pub const X11: &str = "COSY_X11";
/// Where the node reaches the controller, `HOST:PORT`.
pub const CONTROLLER: &str = "COSY_CONTROLLER";
/// `1` where nodes share a machine whose cores they do not keep apart.
pub const MACHINE_SHARED: &str = "COSY_MACHINE_SHARED";
/// What the node's daemon knows a process of a job by: `INSTANCE/NODE/...`.
pub const NODE_MARK: &str = "COSY_NODE_MARK";
/// Which of the administrator's programs runs: `prolog`, `epilog`, `health_check`.
pub const HOOK: &str = "COSY_HOOK";
/// Number of the step within its job.
pub const STEP_ID: &str = "COSY_STEP_ID";
/// Name of the step.
pub const STEP_NAME: &str = "COSY_STEP_NAME";
/// Nodes on which the step has tasks, as a host list.
pub const STEP_NODES: &str = "COSY_STEP_NODES";
/// Number of nodes on which the step has tasks.
pub const STEP_NODE_COUNT: &str = "COSY_STEP_NODE_COUNT";
/// Number of tasks of the step.
pub const STEP_TASKS: &str = "COSY_STEP_TASKS";
/// Tasks on each node of the step, equal neighbours together: `2(x3),1`.
pub const STEP_TASKS_BY_NODE: &str = "COSY_STEP_TASKS_BY_NODE";
/// Place of the node among those of the step, from 0.
pub const NODE_RANK: &str = "COSY_NODE_RANK";
/// Number of the task within the step, from 0.
pub const TASK_RANK: &str = "COSY_TASK_RANK";
/// Number of the task among those of its node, from 0.
pub const TASK_LOCAL_RANK: &str = "COSY_TASK_LOCAL_RANK";

// Of tasks of `cosy each`.

/// Number of the task among the inputs, from 1.
pub const EACH_TASK: &str = "COSY_EACH_TASK";
/// Which attempt of the task this is, from 1.
pub const EACH_ATTEMPT: &str = "COSY_EACH_ATTEMPT";
/// Which of the places of its node the task runs in, from 1; no other runs there at the same time.
pub const EACH_SLOT: &str = "COSY_EACH_SLOT";

// Of MPI plugins.

/// MPI plugin that the job or its queue chose.
pub const MPI: &str = "COSY_MPI";
/// Folders of MPI plugins, separated by `:`.
pub const PLUGIN_PATH: &str = "COSY_PLUGIN_PATH";
/// Name of the plugin whose script runs.
pub const PLUGIN: &str = "COSY_PLUGIN";
/// Folder of the plugin whose script runs.
pub const PLUGIN_HOME: &str = "COSY_PLUGIN_HOME";
/// Folder that the plugin may write to.
pub const PLUGIN_FILES: &str = "COSY_PLUGIN_FILES";
/// File with a line `NODE TASKS CORES` for each node.
pub const HOSTS_FILE: &str = "COSY_HOSTS_FILE";
/// Program that starts another on a node, in place of ssh.
pub const REMOTE_SHELL: &str = "COSY_REMOTE_SHELL";
/// Program that is to be started, for scripts of plugins that look into it.
pub const COMMAND: &str = "COSY_COMMAND";
/// Of a step: PMIx library to load in place of the usual one, a name or a path.
pub const PMIX_LIBRARY: &str = "COSY_PMIX_LIBRARY";

// Of containers: what their plugins' scripts are told.

/// Image that was asked for.
pub const CONTAINER_IMAGE: &str = "COSY_CONTAINER_IMAGE";
/// OCI bundle that was asked for.
pub const CONTAINER_BUNDLE: &str = "COSY_CONTAINER_BUNDLE";
/// What of the node is seen inside: lines `SOURCE:TARGET:FLAG+FLAG`.
pub const CONTAINER_MOUNTS: &str = "COSY_CONTAINER_MOUNTS";
/// Working directory inside.
pub const CONTAINER_WORKDIR: &str = "COSY_CONTAINER_WORKDIR";
/// Name under which the container's files are kept.
pub const CONTAINER_NAME: &str = "COSY_CONTAINER_NAME";
/// File to which the container is written at the end.
pub const CONTAINER_SAVE: &str = "COSY_CONTAINER_SAVE";
/// Names of variables whose values go over those of the image, with `,` between.
pub const CONTAINER_ENV: &str = "COSY_CONTAINER_ENV";
/// `1` or `0`: whether the home directory is seen inside; as the plugin has it without.
pub const CONTAINER_MOUNT_HOME: &str = "COSY_CONTAINER_MOUNT_HOME";
/// `1` or `0`: whether the user is root inside; as the plugin has it without.
pub const CONTAINER_REMAP_ROOT: &str = "COSY_CONTAINER_REMAP_ROOT";
/// `1` or `0`: whether the image's entry point starts the program.
pub const CONTAINER_ENTRYPOINT: &str = "COSY_CONTAINER_ENTRYPOINT";
/// `1` or `0`: whether the root file system can be written to.
pub const CONTAINER_WRITABLE: &str = "COSY_CONTAINER_WRITABLE";
/// Plugin that the node's configuration names; the first whose tool is there without.
pub const CONTAINER_TOOL: &str = "COSY_CONTAINER_TOOL";
/// Folder of the job on this node that the plugin may write to.
pub const CONTAINER_FILES: &str = "COSY_CONTAINER_FILES";
/// What begins the names of all variables about a container.
pub const CONTAINER_PREFIX: &str = "COSY_CONTAINER_";

// Of commands and of what they start.

/// Path of the controller's socket, or of several that are tried in turn, with `:` between them.
pub const SOCKET: &str = "COSY_SOCKET";
/// Path of the socket of the program of the web page.
pub const WEB_SOCKET: &str = "COSY_WEB_SOCKET";
/// Set to anything but nothing and `0`: what is asked has no administrator's rights, so that an
/// administrator sees what users see. `cosy dev --as-user` sets it.
pub const AS_USER: &str = "COSY_AS_USER";
/// Set to anything but nothing and `0`: where no controller leads, one that stands by may answer what
/// is only asked, as of when it last read what the leader wrote.
pub const STALE_OK: &str = "COSY_STALE_OK";
/// File with the clusters that a command may ask.
pub const CLUSTERS: &str = "COSY_CLUSTERS";
/// Folder of the private cluster of `cosy dev`.
pub const DEV_DIR: &str = "COSY_DEV_DIR";
/// On nodes that are made up: seconds that a job takes.
pub const VIRTUAL_SECONDS: &str = "COSY_VIRTUAL_SECONDS";
/// On nodes that are made up: code with which a job ends.
pub const VIRTUAL_EXIT: &str = "COSY_VIRTUAL_EXIT";

/// What begins the names of all of Cosy's variables.
pub const PREFIX: &str = "COSY_";

/// The variable that tells `what` of one component, counted from 0: `COSY_BUNDLE_1_NODES`.
pub fn of_component(component: usize, what: &str) -> String {
    format!("COSY_BUNDLE_{component}_{what}")
}

/// The variable that lists what a job holds of a kind of device: `COSY_DEVICES_FPGA`.
pub fn of_devices(kind: &str) -> String {
    format!("COSY_DEVICES_{kind}")
}

/// The value, when this `NAME=value` has that name.
pub fn value_of<'a>(variable: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let rest = variable.strip_prefix(name.as_bytes())?;
    rest.strip_prefix(b"=")
}

/// The value that the first variable of that name has in a block (`NAME=value` separated by NUL).
pub fn find<'a>(block: &'a [u8], name: &str) -> Option<&'a [u8]> {
    block.split(|b| *b == 0).find_map(|v| value_of(v, name))
}

/// A number for each node, in the order of the nodes: `3,1`.
pub fn write_counts(counts: impl IntoIterator<Item = u32>) -> String {
    let each: Vec<String> = counts.into_iter().map(|n| n.to_string()).collect();
    each.join(",")
}

/// Words without commas and brackets, or numbers; those after each other that are the same as one:
/// `a(x2),b`.
pub fn write_runs<T: PartialEq + std::fmt::Display>(words: impl Iterator<Item = T>) -> String {
    let mut runs: Vec<(T, u32)> = Vec::new();
    for word in words {
        match runs.last_mut() {
            Some((last, times)) if *last == word => *times += 1,
            _ => runs.push((word, 1)),
        }
    }
    let one = |(word, times): &(T, u32)| match times {
        1 => word.to_string(),
        times => format!("{word}(x{times})"),
    };
    runs.iter().map(one).collect::<Vec<_>>().join(",")
}

/// The numbers again; `None` when the text has something else in it, or more numbers than a job
/// can have nodes.
pub fn read_counts(text: &str) -> Option<Vec<u32>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let mut counts = Vec::new();
    for word in text.split(',') {
        if counts.len() >= limits::NODES {
            return None;
        }
        counts.push(word.parse().ok()?);
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_of_a_name_is_found() {
        let block = b"COSY_TASKS_BY_NODE=2,1\0COSY_TASKS=3\0COSY_TASKS=4\0COSY_QOS=";
        let check = |name, want: Option<&[u8]>| assert_eq!(find(block, name), want, "{name}");
        check(TASKS, Some(b"3"));
        check(QOS, Some(b""));
        check(NODES, None);
        check("", None);
        assert_eq!(find(b"", TASKS), None);
    }

    #[test]
    fn what_is_no_list_of_counts_is_none() {
        for text in ["x", "1,", ",1", "1,,2", "1, 2", "-1", "4294967296", "4(x2)"] {
            assert_eq!(read_counts(text), None, "{text}");
        }
        let many = write_counts(std::iter::repeat_n(1, limits::NODES + 1));
        assert_eq!(read_counts(&many), None);
    }

    proptest! {
        #[test]
        fn counts_are_read_again(counts in prop::collection::vec(any::<u32>(), 0..20)) {
            let text = write_counts(counts.iter().copied());
            prop_assert_eq!(read_counts(&text), Some(counts));
        }
    }
}
