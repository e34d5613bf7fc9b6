//! What a request asks for, by field.

use super::{Subject, amount, entries, only_type};
use crate::field::{Field, seconds};
use crate::value::Value;
use cosy_model::api::JobRef;
use cosy_model::job::{
    CountedFeatures, DependencyKind, MailRequest, MemoryRequest, ResourceRequest,
};
use cosy_model::{ArraySpec, CountedResources, Dependency, JobSpec, MiB, OsText, Program};

impl Subject<'_> {
    /// The value of a field.
    pub fn get(&self, field: Field) -> Value {
        use Field as F;
        match field {
            F::Request | F::User | F::Uid | F::Gid | F::Groups | F::Admin => self.requester(field),
            F::Nodes | F::MaxNodes | F::Tasks | F::TasksPerNode | F::CoresPerTask | F::Cores => {
                counts(self.request(), field)
            }
            F::MemoryPerNode | F::MemoryPerCore | F::DiskPerNode => sizes(self.request(), field),
            F::GpusPerNode | F::Gpus | F::GpuType | F::GpuTypes | F::Resources => {
                devices(self.request(), field)
            }
            F::Features | F::AnyFeatures | F::SameFeatures | F::CountedFeatures | F::Sets => {
                places(self.request(), field)
            }
            F::RequireNodes | F::AvoidNodes | F::PreferNodes => places(self.request(), field),
            F::TresPerNode | F::TresPerJob | F::TresPerSocket | F::TresPerTask => {
                written(self.request(), field)
            }
            F::Exclusive => Value::Flag(self.request().exclusive),
            F::Queue => optional(self.queue()),
            F::Queues => Value::List(self.spec.queues.clone()),
            F::TargetQueue => optional(self.queue().or(self.requester.default_queue)),
            F::Array => amount(self.array),
            F::ArrayIndices => optional(self.indices.map(indices).as_deref()),
            F::Component => amount(Some(self.component)),
            F::Components => amount(Some(self.spec.component_count() as u64)),
            F::TimeLimit | F::TimeMin | F::Begin | F::Deadline => times(self.spec, field),
            F::Mail | F::MailTypes | F::MailUser => mail(&self.spec.mail, field),
            F::WorkingDirectory | F::Stdin | F::Stdout | F::Stderr | F::Arguments => {
                program(self.spec, field)
            }
            F::Interactive | F::Script => program(self.spec, field),
            F::Nice | F::Priority | F::SiteFactor | F::Hold | F::Requeue => {
                course(self.spec, field)
            }
            F::Dependencies | F::Dependency => course(self.spec, field),
            F::Name | F::Account | F::Qos | F::Wckey | F::Comment => texts(self.spec, field),
            F::AdminComment | F::Mpi | F::SubmitHost | F::Dialect => texts(self.spec, field),
            F::Reservation => amount(self.spec.reservation.map(|id| id.0)),
            F::Licenses => names(&self.spec.licenses),
        }
    }

    /// The same, with counts where names are counted.
    pub fn in_full(&self, field: Field) -> Value {
        match field {
            Field::Licenses => Value::List(entries(&self.spec.licenses)),
            Field::Resources => Value::List(entries(&self.request().other_per_node)),
            Field::GpuTypes => Value::List(entries(&self.request().gpu_types)),
            field => self.get(field),
        }
    }

    fn requester(&self, field: Field) -> Value {
        let user = self.requester.user;
        match field {
            Field::Request => word(self.requester.request),
            Field::User => word(&user.name),
            Field::Uid => Value::Number(user.uid.0.into()),
            Field::Gid => Value::Number(user.gid.0.into()),
            Field::Groups => Value::List(user.groups.iter().map(|g| g.name.clone()).collect()),
            _ => Value::Flag(self.requester.admin),
        }
    }
}

fn counts(request: &ResourceRequest, field: Field) -> Value {
    match field {
        Field::Nodes => amount(request.nodes),
        Field::MaxNodes => amount(request.max_nodes),
        Field::Tasks => amount(request.tasks),
        Field::TasksPerNode => amount(request.tasks_per_node),
        Field::CoresPerTask => amount(Some(request.cores_per_task)),
        _ => {
            let tasks = u64::from(request.task_count());
            amount(Some(tasks * u64::from(request.cores_per_task)))
        }
    }
}

fn sizes(request: &ResourceRequest, field: Field) -> Value {
    let of = |mib: MiB| Value::Size(i64::try_from(mib.0).unwrap_or(i64::MAX));
    match (field, request.memory) {
        (Field::MemoryPerNode, _) if request.asked.all_memory => Value::Size(0),
        (Field::MemoryPerNode, MemoryRequest::PerNode(mib)) => of(mib),
        (Field::MemoryPerCore, MemoryRequest::PerCore(mib)) => of(mib),
        (Field::DiskPerNode, _) if request.disk_per_node != MiB(0) => of(request.disk_per_node),
        _ => Value::Unset,
    }
}

fn devices(request: &ResourceRequest, field: Field) -> Value {
    match field {
        Field::GpusPerNode => amount(Some(request.gpus_per_node)),
        Field::Gpus => {
            let nodes = request.nodes.or(request.counted_nodes()).unwrap_or(1);
            let all = u64::from(request.gpus_per_node) * u64::from(nodes);
            amount(Some(request.gpus_in_all.map_or(all, u64::from)))
        }
        Field::GpuType => only_type(request).map_or(Value::Unset, Value::Text),
        Field::GpuTypes => names(&request.gpu_types),
        _ => names(&request.other_per_node),
    }
}

/// GPUs and resources in Slurm's words, as they were asked for.
fn written(request: &ResourceRequest, field: Field) -> Value {
    let asked = &request.asked;
    let text = match field {
        Field::TresPerJob => asked.per_job.clone(),
        Field::TresPerSocket => asked.per_socket.clone(),
        Field::TresPerTask => asked.per_task.clone(),
        _ => {
            let gpus = match asked.has_gpus() {
                true => asked.per_node.clone(),
                false => gpus_of_a_node(request),
            };
            let others = request.other_per_node.iter();
            let others = others.map(|(name, count)| format!("gres/{name}:{count}"));
            let all: Vec<String> = std::iter::once(gpus).chain(others).collect();
            let mut all = all.join(",");
            if all.starts_with(',') {
                all.remove(0);
            }
            all
        }
    };
    optional(Some(&*text).filter(|text| !text.is_empty()))
}

fn gpus_of_a_node(request: &ResourceRequest) -> String {
    let typed = request.gpu_types.iter();
    let typed: Vec<String> = typed
        .map(|(kind, n)| format!("gres/gpu:{kind}:{n}"))
        .collect();
    match (typed.is_empty(), request.gpus_per_node) {
        (true, 0) => String::new(),
        (true, gpus) => format!("gres/gpu:{gpus}"),
        (false, _) => typed.join(","),
    }
}

fn places(request: &ResourceRequest, field: Field) -> Value {
    let joined = |groups: &[Vec<String>]| groups.iter().map(|group| group.join("&")).collect();
    Value::List(match field {
        Field::Features => request.features.clone(),
        Field::AnyFeatures => joined(&request.any_features),
        Field::SameFeatures => joined(&request.same_features),
        Field::CountedFeatures => {
            let one = |counted: &CountedFeatures| {
                let any: Vec<String> = joined(&counted.any);
                format!("{}*{}", any.join("|"), counted.nodes)
            };
            request.counted_features.iter().map(one).collect()
        }
        Field::Sets => request.sets.clone(),
        Field::RequireNodes => request.require.clone(),
        Field::AvoidNodes => request.avoid.clone(),
        _ => request.prefer.clone(),
    })
}

fn times(spec: &JobSpec, field: Field) -> Value {
    let point = |time: Option<cosy_model::Time>| match time {
        Some(time) => Value::Number(seconds(time)),
        None => Value::Unset,
    };
    match field {
        Field::TimeLimit => spec.time_limit.map_or(Value::Unset, Value::of_span),
        Field::TimeMin => spec.time_min.map_or(Value::Unset, Value::of_span),
        Field::Begin => point(spec.begin),
        _ => point(spec.deadline),
    }
}

fn mail(mail: &MailRequest, field: Field) -> Value {
    let events = [
        ("begin", mail.begin),
        ("end", mail.end),
        ("fail", mail.fail),
        ("requeue", mail.requeue),
    ];
    let asked = events.into_iter().filter(|(_, yes)| *yes);
    let words = asked.map(|(word, _)| word.to_owned());
    let types = || words.chain(mail.limit_shares.iter().map(u8::to_string));
    match field {
        Field::Mail => Value::Flag(types().next().is_some()),
        Field::MailTypes => Value::List(types().collect()),
        _ => optional(Some(&*mail.to).filter(|to| !to.is_empty())),
    }
}

fn program(spec: &JobSpec, field: Field) -> Value {
    let path = |text: &Option<OsText>| optional(text.as_ref().map(OsText::lossy).as_deref());
    match field {
        Field::WorkingDirectory => Value::Text(spec.workdir.lossy()),
        Field::Stdin => path(&spec.stdin),
        Field::Stdout => path(&spec.stdout),
        Field::Stderr => path(&spec.stderr),
        Field::Arguments => Value::List(match &spec.program {
            Program::Script { name, args } => std::iter::once(name)
                .chain(args)
                .map(OsText::lossy)
                .collect(),
            Program::Command { argv } => argv.iter().map(OsText::lossy).collect(),
            Program::Allocation => Vec::new(),
        }),
        Field::Interactive => Value::Flag(spec.attended || spec.program == Program::Allocation),
        _ => Value::Flag(matches!(spec.program, Program::Script { .. })),
    }
}

fn course(spec: &JobSpec, field: Field) -> Value {
    match field {
        Field::Nice => Value::Number(spec.nice),
        Field::Priority => amount(spec.priority),
        Field::SiteFactor => Value::Number(spec.site_factor),
        Field::Hold => Value::Flag(spec.hold),
        Field::Requeue => Value::Flag(spec.requeue),
        Field::Dependencies => amount(Some(spec.dependencies.len() as u64)),
        _ => {
            let all: Vec<String> = spec.dependencies.iter().map(dependency).collect();
            let between = if spec.any_dependency { "?" } else { "," };
            optional(Some(&*all.join(between)).filter(|text| !text.is_empty()))
        }
    }
}

fn dependency(one: &Dependency) -> String {
    let word = match one.kind {
        DependencyKind::After => "after",
        DependencyKind::AfterAny => "afterany",
        DependencyKind::AfterOk => "afterok",
        DependencyKind::AfterNotOk => "afternotok",
        DependencyKind::AfterCorr => "aftercorr",
        DependencyKind::Singleton => return "singleton".to_owned(),
    };
    let (job, task) = (one.job, one.task);
    let delay = match one.delay.secs() / 60 {
        0 => String::new(),
        minutes => format!("+{minutes}"),
    };
    format!("{word}:{}{delay}", JobRef { job, task })
}

fn texts(spec: &JobSpec, field: Field) -> Value {
    let given = |text| optional(Some(text).filter(|text: &&str| !text.is_empty()));
    match field {
        Field::Name => word(&spec.name),
        Field::Account => optional(spec.account.as_deref()),
        Field::Qos => optional(spec.qos.as_deref()),
        Field::Wckey => optional(spec.wckey.as_deref()),
        Field::Comment => given(&spec.comment),
        Field::AdminComment => given(&spec.admin_comment),
        Field::Mpi => optional(spec.mpi.as_deref()),
        Field::SubmitHost => optional(spec.submit_host.as_deref()),
        _ => word(spec.dialect.word()),
    }
}

/// Indices as they are written: `1-10:2,12%4`.
fn indices(array: &ArraySpec) -> String {
    let range = |&(first, last, step): &(u32, u32, u32)| match (first == last, step) {
        (true, _) => first.to_string(),
        (false, 1) => format!("{first}-{last}"),
        (false, step) => format!("{first}-{last}:{step}"),
    };
    let ranges: Vec<String> = array.ranges.iter().map(range).collect();
    let at_once = array.at_once.map(|n| format!("%{n}")).unwrap_or_default();
    format!("{}{at_once}", ranges.join(","))
}

fn word(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn optional(text: Option<&str>) -> Value {
    text.map_or(Value::Unset, word)
}

fn names(all: &CountedResources) -> Value {
    Value::List(all.iter().map(|(name, _)| name.to_owned()).collect())
}
