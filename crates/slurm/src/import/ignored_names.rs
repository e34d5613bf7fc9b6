//! Names of `slurm.conf` that nothing here depends on, whole names in small letters: how Slurm
//! itself is built up, where it writes, who talks to whom. What could change who may do what,
//! or how a job ends, is not here. Source: slurm.conf(5).

/// Parameters without a meaning here.
const MEANINGLESS: &[&str] = &[
    "accountingstoragebackuphost",
    "accountingstorageexternalhost",
    "accountingstoragehost",
    "accountingstorageloc",
    "accountingstorageparameters",
    "accountingstoragepass",
    "accountingstorageport",
    "accountingstoragetres",
    "accountingstoragetype",
    "accountingstorageuser",
    "accountingstoreflags",
    "accountingstorejobcomment",
    "acctgatherenergytype",
    "acctgatherfilesystemtype",
    "acctgatherinfinibandtype",
    "acctgatherinterconnecttype",
    "acctgathernodefreq",
    "acctgatherprofiletype",
    "authaltparameters",
    "authalttypes",
    "authinfo",
    "authtype",
    "backupaddr",
    "backupcontroller",
    "batchstarttimeout",
    "cachegroups",
    "certmgrparameters",
    "certmgrtype",
    "communicationparameters",
    "controladdr",
    "controlmachine",
    "corespecplugin",
    "credtype",
    "cryptotype",
    "debugflags",
    "eiotimeout",
    "epilogmsgtime",
    "extsensorsfreq",
    "extsensorstype",
    "fastschedule",
    "getenvtimeout",
    "grestypes",
    "groupupdateforce",
    "groupupdatetime",
    "hashplugin",
    "inactivelimit",
    "jobacctgatherfrequency",
    "jobacctgatherparams",
    "jobacctgathertype",
    "jobcomphost",
    "jobcomploc",
    "jobcompparams",
    "jobcomppass",
    "jobcompport",
    "jobcomptype",
    "jobcompuser",
    "jobcredentialprivatekey",
    "jobcredentialpubliccertificate",
    "keepalivetime",
    "launchtype",
    "logtimeformat",
    "maxdbdmsgs",
    "maxjobcount",
    "maxjobid",
    "maxnodecount",
    "messagetimeout",
    "plugindir",
    "proctracktype",
    "propagateresourcelimits",
    "returntoservice",
    "routeplugin",
    "schedulerauth",
    "schedulerport",
    "schedulerrootfilter",
    "selecttypeparameters",
    "slurmctldaddr",
    "slurmctlddebug",
    "slurmctldhost",
    "slurmctldlogfile",
    "slurmctldparameters",
    "slurmctldpidfile",
    "slurmctldplugstack",
    "slurmctldport",
    "slurmctldsyslogdebug",
    "slurmctldtimeout",
    "slurmddebug",
    "slurmdlogfile",
    "slurmdparameters",
    "slurmdpidfile",
    "slurmdport",
    "slurmdspooldir",
    "slurmdsyslogdebug",
    "slurmduser",
    "slurmschedlogfile",
    "slurmschedloglevel",
    "slurmuser",
    "srunportrange",
    "statesavelocation",
    "switchparameters",
    "switchtype",
    "taskplugin",
    "taskpluginparam",
    "tcptimeout",
    "treewidth",
    "waittime",
    "x11parameters",
];

/// True for a parameter without a meaning here, in letters of any case.
pub(super) fn means_nothing(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    MEANINGLESS.binary_search(&lower.as_str()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_in_order() {
        assert!(MEANINGLESS.is_sorted(), "they are searched by halving");
        assert!(means_nothing("SlurmctldPort"));
        // What decides who may do what is told, whatever words it is made of.
        for told in [
            "JobSubmitPlugins",
            "PreemptType",
            "AccountingStorageEnforce",
            "CliFilterPlugins",
            "PriorityType",
            "SelectType",
            "MCSPlugin",
        ] {
            assert!(!means_nothing(told), "{told}");
        }
    }
}
