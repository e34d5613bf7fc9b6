//! The synopses that `--usage` of `sbatch`, `srun` and `salloc` prints: which options there
//! are, in the short form that clients know. A few of them are no options (any more), in the
//! original neither.
//!
//! Source: captures sbatch-usage, srun-usage.

use super::Program;

const SBATCH: [&str; 25] = [
    "[-N nnodes] [-n ntasks]",
    "[-c ncpus] [-r n] [-p partition] [--hold] [--parsable] [-t minutes]",
    "[-D path] [--no-kill] [--overcommit]",
    "[--input file] [--output file] [--error file]",
    "[--time-min=minutes] [--licenses=names] [--clusters=cluster_names]",
    "[--chdir=directory] [--oversubscribe] [-m dist] [-J jobname]",
    "[--verbose] [--gid=group] [--uid=user]",
    "[--contiguous] [--mincpus=n] [--mem=MB] [--tmp=MB] [-C list]",
    "[--account=name] [--dependency=type:jobid[+time]] [--comment=name]",
    "[--mail-type=type] [--mail-user=user] [--nice[=value]] [--wait]",
    "[--requeue] [--no-requeue] [--ntasks-per-node=n] [--propagate]",
    "[--nodefile=file] [--nodelist=hosts] [--exclude=hosts]",
    "[--network=type] [--mem-per-cpu=MB] [--qos=qos] [--gres=list]",
    "[--mem-bind=...] [--reservation=name] [--mcs-label=mcs]",
    "[--cpu-freq=min[-max[:gov]]] [--power=flags] [--gres-flags=opts]",
    "[--switches=max-switches{@max-time-to-wait}] [--reboot]",
    "[--core-spec=cores] [--thread-spec=threads]",
    "[--bb=burst_buffer_spec] [--bbf=burst_buffer_file]",
    "[--array=index_values] [--profile=...] [--ignore-pbs] [--spread-job]",
    "[--export[=names]] [--export-file=file|fd] [--delay-boot=mins]",
    "[--use-min-nodes]",
    "[--cpus-per-gpu=n] [--gpus=n] [--gpu-bind=...] [--gpu-freq=...]",
    "[--gpus-per-node=n] [--gpus-per-socket=n] [--gpus-per-task=n]",
    "[--mem-per-gpu=MB]",
    "executable [args...]",
];

const SRUN: [&str; 32] = [
    "[-N nnodes] [-n ntasks] [-i in] [-o out] [-e err]",
    "[-c ncpus] [-r n] [-p partition] [--hold] [-t minutes]",
    "[-D path] [--immediate[=secs]] [--overcommit] [--overlap] [--no-kill]",
    "[--oversubscribe] [--label] [--unbuffered] [-m dist] [-J jobname]",
    "[--jobid=id] [--verbose] [--slurmd_debug=#] [--gres=list]",
    "[-T threads] [-W sec] [--gres-flags=opts]",
    "[--licenses=names] [--clusters=cluster_names]",
    "[--qos=qos] [--time-min=minutes]",
    "[--contiguous] [--mincpus=n] [--mem=MB] [--tmp=MB] [-C list]",
    "[--mpi=type] [--account=name] [--dependency=type:jobid[+time]]",
    "[--kill-on-bad-exit] [--propagate[=rlimits] [--comment=name]",
    "[--cpu-bind=...] [--mem-bind=...] [--network=type]",
    "[--ntasks-per-node=n] [--ntasks-per-socket=n] [reservation=name]",
    "[--ntasks-per-core=n] [--mem-per-cpu=MB] [--preserve-env]",
    "[--profile=...] [--exact]",
    "[--mail-type=type] [--mail-user=user] [--nice[=value]]",
    "[--prolog=fname] [--epilog=fname]",
    "[--task-prolog=fname] [--task-epilog=fname]",
    "[--ctrl-comm-ifhn=addr] [--multi-prog] [--mcs-label=mcs]",
    "[--cpu-freq=min[-max[:gov]]] [--power=flags] [--spread-job]",
    "[--switches=max-switches{@max-time-to-wait}] [--reboot]",
    "[--core-spec=cores] [--thread-spec=threads]",
    "[--bb=burst_buffer_spec] [--bbf=burst_buffer_file]",
    "[--bcast=<dest_path>] [--bcast-exclude=<NONE|path1,...,pathN>]",
    "[--send-libs[=y|n]] [--compress[=library]]",
    "[--acctg-freq=<datatype>=<interval>] [--delay-boot=mins]",
    "[-w hosts...] [-x hosts...] [--use-min-nodes]",
    "[--mpi-combine=yes|no] [--het-group=value]",
    "[--cpus-per-gpu=n] [--gpus=n] [--gpu-bind=...] [--gpu-freq=...]",
    "[--gpus-per-node=n] [--gpus-per-socket=n] [--gpus-per-task=n]",
    "[--mem-per-gpu=MB]",
    "executable [args...]",
];

const SALLOC: [&str; 23] = [
    "[-N numnodes|[min nodes]-[max nodes]] [-n num-processors]",
    "[-c cpus-per-node] [-r n] [-p partition] [--hold] [-t minutes]",
    "[--immediate[=secs]] [--no-kill] [--overcommit] [-D path]",
    "[--oversubscribe] [-J jobname]",
    "[--verbose] [--gid=group] [--uid=user] [--licenses=names]",
    "[--clusters=cluster_names]",
    "[--contiguous] [--mincpus=n] [--mem=MB] [--tmp=MB] [-C list]",
    "[--account=name] [--dependency=type:jobid[+time]] [--comment=name]",
    "[--mail-type=type] [--mail-user=user] [--nice[=value]]",
    "[--bell] [--no-bell] [--kill-command[=signal]] [--spread-job]",
    "[--nodefile=file] [--nodelist=hosts] [--exclude=hosts]",
    "[--network=type] [--mem-per-cpu=MB] [--qos=qos]",
    "[--mem-bind=...] [--reservation=name] [--mcs-label=mcs]",
    "[--time-min=minutes] [--gres=list] [--gres-flags=opts]",
    "[--cpu-freq=min[-max[:gov]]] [--power=flags] [--profile=...]",
    "[--switches=max-switches[@max-time-to-wait]]",
    "[--core-spec=cores] [--thread-spec=threads] [--reboot]",
    "[--bb=burst_buffer_spec] [--bbf=burst_buffer_file]",
    "[--delay-boot=mins] [--use-min-nodes]",
    "[--cpus-per-gpu=n] [--gpus=n] [--gpu-bind=...] [--gpu-freq=...]",
    "[--gpus-per-node=n] [--gpus-per-socket=n] [--gpus-per-task=n]",
    "[--mem-per-gpu=MB]",
    "[command [args...]]",
];

/// The lines of a program's synopsis, the first of which stands beside its name.
pub fn lines(program: Program) -> &'static [&'static str] {
    match program {
        Program::Sbatch => &SBATCH,
        Program::Srun => &SRUN,
        Program::Salloc => &SALLOC,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submit::table;

    /// Named in the original's, and no option of the program there either.
    const NONE: [&str; 4] = ["-r", "--slurmd_debug", "--ctrl-comm-ifhn", "--mpi-combine"];

    #[test]
    fn names_options_that_there_are() {
        for program in [Program::Sbatch, Program::Srun, Program::Salloc] {
            let options = table::options(program);
            let known = |word: &str| match word.strip_prefix("--") {
                Some(long) => options.iter().any(|o| o.long == long),
                None => options.iter().any(|o| o.short == Some(word.as_bytes()[1])),
            };
            let words = lines(program).iter().flat_map(|l| l.split(" ["));
            for word in words {
                let word = word.trim_start_matches('[');
                let end = word.find(['=', '[', ']', ' ']).unwrap_or(word.len());
                let name = &word[..end];
                if name.starts_with('-') && !NONE.contains(&name) {
                    assert!(known(name), "{program:?} {name}");
                }
            }
        }
    }
}
