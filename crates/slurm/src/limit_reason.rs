//! Slurm's reason for a job that waits for a limit. The words follow no rule: they are listed.
//! Sources: recordings of 22.05.8 (`tests/recordings/reasons.txt`); squeue(1), "JOB REASON CODES".

use cosy_model::policy::{LimitHit, LimitKey, LimitKind, LimitPlace, Tres};

/// The words for a kind of limit, by resource: cores, memory, nodes, billing, devices, licences.
type ByTres = [&'static str; 6];

/// The reason that `squeue -o %r` shows for a job that waits for this limit.
///
/// Slurm 22.05 has no word for the remaining minutes of a user's or an account's running jobs: it
/// tells the words of the later releases' list then. Limits that keep no job waiting (on the age,
/// on the guaranteed start) are told as `Priority`.
pub fn reason(hit: &LimitHit) -> &'static str {
    let LimitKey { kind, tres } = &hit.key;
    match tres {
        Some(tres) => {
            let [cores, memory, nodes, billing, devices, licences] = by_tres(hit.place, *kind);
            match tres {
                Tres::Cpu => cores,
                Tres::Memory => memory,
                Tres::Node => nodes,
                Tres::Billing => billing,
                Tres::Gres { .. } => devices,
                Tres::License(_) => licences,
            }
        }
        None => plain(hit.place, *kind),
    }
}

const fn plain(place: LimitPlace, kind: LimitKind) -> &'static str {
    let association = matches!(place, LimitPlace::Association);
    match kind {
        LimitKind::GrpJobs if association => "AssocGrpJobsLimit",
        LimitKind::GrpJobs => "QOSGrpJobsLimit",
        LimitKind::GrpSubmitJobs if association => "AssocGrpSubmitJobsLimit",
        LimitKind::GrpSubmitJobs => "QOSGrpSubmitJobsLimit",
        LimitKind::GrpWall if association => "AssocGrpWallLimit",
        LimitKind::GrpWall => "QOSGrpWallLimit",
        LimitKind::MaxWall if association => "AssocMaxWallDurationPerJobLimit",
        LimitKind::MaxWall => "QOSMaxWallDurationPerJobLimit",
        LimitKind::MaxJobs => "AssocMaxJobsLimit",
        LimitKind::MaxSubmitJobs => "AssocMaxSubmitJobLimit",
        LimitKind::MaxJobsPerUser => "QOSMaxJobsPerUserLimit",
        LimitKind::MaxJobsPerAccount => "MaxJobsPerAccount",
        LimitKind::MaxSubmitJobsPerUser => "QOSMaxSubmitJobPerUserLimit",
        LimitKind::MaxSubmitJobsPerAccount => "MaxSubmitJobsPerAccount",
        LimitKind::GrpJobsAccrue
        | LimitKind::MaxJobsAccrue
        | LimitKind::MaxJobsAccruePerUser
        | LimitKind::MaxJobsAccruePerAccount
        | LimitKind::MinPrioThreshold => "Priority",
        // Limits by resource that name none: no such key can be made.
        LimitKind::GrpTres
        | LimitKind::GrpTresMins
        | LimitKind::GrpTresRunMins
        | LimitKind::MaxTresPerJob
        | LimitKind::MaxTresPerNode
        | LimitKind::MaxTresMinsPerJob
        | LimitKind::MinTresPerJob
        | LimitKind::MaxTresPerUser
        | LimitKind::MaxTresPerAccount
        | LimitKind::MaxTresRunMinsPerUser
        | LimitKind::MaxTresRunMinsPerAccount => "AccountingPolicy",
    }
}

const fn by_tres(place: LimitPlace, kind: LimitKind) -> ByTres {
    match place {
        LimitPlace::Association => association(kind),
        LimitPlace::Qos => qos(kind),
    }
}

const NONE: ByTres = ["AccountingPolicy"; 6];

#[rustfmt::skip]
const fn association(kind: LimitKind) -> ByTres {
    match kind {
        LimitKind::GrpTres => [
            "AssocGrpCpuLimit", "AssocGrpMemLimit", "AssocGrpNodeLimit",
            "AssocGrpBilling", "AssocGrpGRES", "AssocGrpLicense",
        ],
        LimitKind::GrpTresMins => [
            "AssocGrpCPUMinutesLimit", "AssocGrpMemMinutes", "AssocGrpNodeMinutes",
            "AssocGrpBillingMinutes", "AssocGrpGRESMinutes", "AssocGrpLicenseMinutes",
        ],
        LimitKind::GrpTresRunMins => [
            "AssocGrpCPURunMinutesLimit", "AssocGrpMemRunMinutes", "AssocGrpNodeRunMinutes",
            "AssocGrpBillingRunMinutes", "AssocGrpGRESRunMinutes", "AssocGrpLicenseRunMinutes",
        ],
        LimitKind::MaxTresPerJob => [
            "AssocMaxCpuPerJobLimit", "AssocMaxMemPerJob", "AssocMaxNodePerJobLimit",
            "AssocMaxBillingPerJob", "AssocMaxGRESPerJob", "AssocMaxLicensePerJob",
        ],
        LimitKind::MaxTresPerNode => [
            "AssocMaxCpuPerNode", "AssocMaxMemPerNode", "AssocMaxUnknownPerNode",
            "AssocMaxBillingPerNode", "AssocMaxGRESPerNode", "AssocMaxUnknownPerNode",
        ],
        LimitKind::MaxTresMinsPerJob => [
            "AssocMaxCpuMinutesPerJobLimit", "AssocMaxMemMinutesPerJob",
            "AssocMaxNodeMinutesPerJob", "AssocMaxBillingMinutesPerJob",
            "AssocMaxGRESMinutesPerJob", "AssocMaxLicenseMinutesPerJob",
        ],
        _ => NONE,
    }
}

#[rustfmt::skip]
const fn qos(kind: LimitKind) -> ByTres {
    match kind {
        LimitKind::GrpTres => [
            "QOSGrpCpuLimit", "QOSGrpMemLimit", "QOSGrpNodeLimit",
            "QOSGrpBilling", "QOSGrpGRES", "QOSGrpLicense",
        ],
        LimitKind::GrpTresMins => [
            "QOSGrpCPUMinutesLimit", "QOSGrpMemoryMinutes", "QOSGrpNodeMinutes",
            "QOSGrpBillingMinutes", "QOSGrpGRESMinutes", "QOSGrpLicenseMinutes",
        ],
        LimitKind::GrpTresRunMins => [
            "QOSGrpCPURunMinutesLimit", "QOSGrpMemoryRunMinutes", "QOSGrpNodeRunMinutes",
            "QOSGrpBillingRunMinutes", "QOSGrpGRESRunMinutes", "QOSGrpLicenseRunMinutes",
        ],
        LimitKind::MaxTresPerJob => [
            "QOSMaxCpuPerJobLimit", "QOSMaxMemoryPerJob", "QOSMaxNodePerJobLimit",
            "QOSMaxBillingPerJob", "QOSMaxGRESPerJob", "QOSMaxLicensePerJob",
        ],
        LimitKind::MaxTresPerNode => [
            "QOSMaxCpuPerNode", "QOSMaxMemoryPerNode", "QOSMaxUnknownPerNode",
            "QOSMaxBillingPerNode", "QOSMaxGRESPerNode", "QOSMaxUnknownPerNode",
        ],
        LimitKind::MaxTresMinsPerJob => [
            "QOSMaxCpuMinutesPerJobLimit", "QOSMaxMemoryMinutesPerJob",
            "QOSMaxNodeMinutesPerJob", "QOSMaxBillingMinutesPerJob",
            "QOSMaxGRESMinutesPerJob", "QOSMaxLicenseMinutesPerJob",
        ],
        LimitKind::MinTresPerJob => [
            "QOSMinCpuNotSatisfied", "QOSMinMemory", "QOSMinNode",
            "QOSMinBilling", "QOSMinGRES", "QOSMinLicense",
        ],
        LimitKind::MaxTresPerUser => [
            "QOSMaxCpuPerUserLimit", "QOSMaxMemoryPerUser", "QOSMaxNodePerUserLimit",
            "QOSMaxBillingPerUser", "QOSMaxGRESPerUser", "QOSMaxLicensePerUser",
        ],
        LimitKind::MaxTresPerAccount => [
            "MaxCpuPerAccount", "MaxMemoryPerAccount", "MaxNodePerAccount",
            "MaxBillingPerAccount", "MaxGRESPerAccount", "MaxLicensePerAccount",
        ],
        LimitKind::MaxTresRunMinsPerUser => [
            "MaxCpuRunMinsPerUser", "MaxMemoryRunMinsPerUser", "MaxNodeRunMinsPerUser",
            "MaxBillingRunMinsPerUser", "MaxGRESRunMinsPerUser", "MaxLicenseRunMinsPerUser",
        ],
        LimitKind::MaxTresRunMinsPerAccount => [
            "MaxCpuRunMinsPerAccount", "MaxMemoryRunMinsPerAccount", "MaxNodeRunMinsPerAccount",
            "MaxBillingRunMinsPerAccount", "MaxGRESRunMinsPerAccount",
            "MaxLicenseRunMinsPerAccount",
        ],
        _ => NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sacctmgr::settings;

    /// What real Slurm said of each limit: see the head of the file.
    const RECORDED: &str = include_str!("../recordings/reasons.txt");

    #[test]
    fn reasons_as_recorded() {
        let mut seen = 0;
        for line in RECORDED.lines().filter(|l| !l.starts_with('#')) {
            let cells: Vec<&str> = line.split(" | ").collect();
            let [place, limit, .., why] = cells.as_slice() else {
                panic!("{line}");
            };
            let Some((_, want)) = why.split_once(' ') else {
                continue; // it ran
            };
            let place = match *place {
                "qos" => LimitPlace::Qos,
                _ => LimitPlace::Association,
            };
            let set = settings::limit(place, limit).unwrap();
            let (key, _) = set.into_iter().next().unwrap();
            assert_eq!(reason(&LimitHit { place, key }), want, "{line}");
            seen += 1;
        }
        assert_eq!(seen, 109, "all lines but those of jobs that ran");
    }

    #[test]
    fn every_limit_has_a_word() {
        let resources = ["cpu", "mem", "node", "billing", "gres/gpu", "license/x"];
        for kind in LimitKind::ALL {
            for place in [LimitPlace::Association, LimitPlace::Qos] {
                let fits = match place {
                    LimitPlace::Association => kind.of_associations(),
                    LimitPlace::Qos => kind.of_qos(),
                };
                let keys: Vec<LimitKey> = match kind.measure().by_tres() {
                    true => resources
                        .iter()
                        .map(|r| LimitKey::of(*kind, r.parse().unwrap()))
                        .collect(),
                    false => vec![LimitKey::plain(*kind)],
                };
                for key in keys.into_iter().filter(|_| fits) {
                    let hit = LimitHit { place, key };
                    assert_ne!(reason(&hit), "AccountingPolicy", "{}", hit.word());
                }
            }
        }
    }
}
