//! GPUs of several types and other devices with numbers: what of them a node has, which
//! are given to whom.
//!
//! How types are counted, and why the planner then never books one that is not there, is
//! in [`cosy_model::device`]; here the numbers behind the counts are chosen. Always holds:
//! a job that named a type has as many GPUs of it as it asked for.

use crate::jobs::run::{GivenBack, Numbered, Part};
use crate::machine::nodes::{Node, Numbers};
use cosy_model::device;
use cosy_model::job::ResourceRequest;
use cosy_model::node::NodeSelf;
use cosy_model::{Amounts, JobId, NodeShare, Refusal, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Most types or names that are taken over from a node.
const MOST: usize = 1024;

/// GPUs and devices of a node: what it told, and which are held.
#[derive(Debug, Default)]
pub(crate) struct NodeDevices {
    /// Types of GPUs, by number.
    types: Vec<String>,
    /// The node has told.
    told: bool,
    /// How many there are of which type is known: told, or from the store.
    pub counted: bool,
    gpus: Numbers,
    /// Other resources with numbers.
    others: BTreeMap<String, Numbers>,
    /// How many shards are of which GPU, in the order of their numbers.
    shards: Vec<u32>,
}

impl NodeDevices {
    /// Takes over what a node tells of itself; names that are none are left out.
    pub fn tell(&mut self, from: &NodeSelf) {
        (self.told, self.counted) = (true, true);
        self.types = told_types(from);
        self.shards = from.shards.iter().take(MOST).copied().collect();
        let names = from.devices.iter().take(MOST);
        let names: Vec<&String> = names.filter(|n| device::check_name(n).is_ok()).collect();
        // Those that have gone may still be held.
        self.others
            .retain(|name, held| names.contains(&name) || held.held() > 0);
        for name in names {
            self.others.entry(name.clone()).or_default();
        }
    }

    /// Types of GPUs, by number.
    pub fn types(&self) -> &[String] {
        &self.types
    }

    /// GPUs that are held, by number.
    pub fn gpus_held(&self) -> Vec<u32> {
        self.gpus.numbers()
    }

    /// `amounts` with types counted.
    pub fn counted(&self, amounts: Amounts) -> Amounts {
        counted(amounts, &self.types)
    }

    /// Chooses GPUs for a share: the lowest that are free, of the types it names.
    fn take_gpus(&mut self, amounts: &Amounts) -> Vec<u32> {
        let mut taken = Vec::new();
        for (name, count) in amounts.other.iter() {
            let Some(kind) = device::gpu_type(name) else {
                continue;
            };
            let of_kind = self.types.iter().zip(0..).filter(|(t, _)| *t == kind);
            let numbers = of_kind.map(|(_, n)| n);
            taken.extend(self.gpus.take_of(numbers, count));
        }
        let rest = (amounts.gpus as usize).saturating_sub(taken.len());
        taken.extend(self.gpus.take(u32::try_from(rest).unwrap_or(u32::MAX)));
        taken.sort_unstable();
        taken
    }

    fn take_others(&mut self, amounts: &Amounts) -> BTreeMap<String, Vec<u32>> {
        let wanted = self.others.iter_mut().filter_map(|(name, held)| {
            let count = amounts.other.get(name);
            (count > 0).then(|| {
                let taken = match name == device::SHARD {
                    true => take_shards(held, &self.shards, count),
                    false => held.take(count),
                };
                (name.clone(), taken)
            })
        });
        wanted.collect()
    }

    /// Gives both back.
    pub fn give(&mut self, gpus: &[u32], others: &BTreeMap<String, Vec<u32>>) {
        self.gpus.give(gpus);
        for (name, numbers) in others {
            if let Some(held) = self.others.get_mut(name) {
                held.give(numbers);
            }
        }
    }

    /// A job that runs holds these.
    pub fn mark(&mut self, gpus: &[u32], others: &BTreeMap<String, Vec<u32>>) {
        self.gpus.mark(gpus);
        for (name, numbers) in others {
            self.others.entry(name.clone()).or_default().mark(numbers);
        }
    }

    /// Checks that exactly what `parts` hold is held, none twice, and of the right types.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self, parts: &[&Part]) -> Result<(), String> {
        let held = |numbers: &mut dyn Iterator<Item = u32>, all: &Numbers, what: &str| {
            let mut numbers: Vec<u32> = numbers.collect();
            let count = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            match numbers.len() == count && all.held() == count {
                true => Ok(()),
                false => Err(format!("{what} {numbers:?} are held twice or leak")),
            }
        };
        let mut gpus = parts.iter().flat_map(|p| p.gpus().iter().copied());
        held(&mut gpus, &self.gpus, "GPUs")?;
        for (name, all) in &self.others {
            let of = parts.iter().filter_map(|p| p.devices().get(name));
            held(&mut of.flatten().copied(), all, name)?;
        }
        if !self.told {
            return Ok(());
        }
        parts
            .iter()
            .try_for_each(|part| right_types(&self.types, part))
    }
}

/// Chooses shards: of one GPU if one has as many that are free, and of such GPUs the one that has the
/// fewest, so that others stay whole for larger requests; else of as few GPUs as it takes.
fn take_shards(held: &mut Numbers, per_gpu: &[u32], count: u32) -> Vec<u32> {
    let most = MOST as u32;
    let begins = per_gpu.iter().scan(0u32, |begin, count| {
        let own = *begin..begin.saturating_add((*count).min(most));
        *begin = own.end;
        Some(own)
    });
    let gpus: Vec<_> = begins.collect();
    let mut taken = Vec::new();
    let mut left = count;
    while left > 0 {
        let free = gpus.iter().map(|own| (held.free_of(own.clone()), own));
        let free: Vec<_> = free.filter(|(free, _)| *free > 0).collect();
        let fitting = free.iter().filter(|(free, _)| *free >= left);
        let best = fitting.min_by_key(|(free, own)| (*free, own.start));
        let largest = || {
            free.iter()
                .max_by_key(|(free, own)| (*free, Reverse(own.start)))
        };
        let Some((_, own)) = best.or_else(largest) else {
            // More than the node told.
            taken.extend(held.take(left));
            break;
        };
        let some = held.take_of((*own).clone(), left);
        left -= u32::try_from(some.len()).unwrap_or(left);
        taken.extend(some);
    }
    taken.sort_unstable();
    taken
}

/// The types of GPUs that a node tells, by number; names that are none are empty.
pub(crate) fn told_types(from: &NodeSelf) -> Vec<String> {
    let good = |t: &String| device::check_name(t).map_or_else(|_| String::new(), |()| t.clone());
    from.gpu_types.iter().take(MOST).map(good).collect()
}

/// `amounts` with GPUs of these types counted, and of no others.
fn counted(mut amounts: Amounts, types: &[String]) -> Amounts {
    let keys: Vec<String> = amounts.other.iter().map(|(n, _)| n.to_owned()).collect();
    for key in keys.iter().filter(|k| device::is_of_gpus(k)) {
        amounts.other.set(key, 0);
    }
    device::count_types(&mut amounts, types);
    amounts
}

/// Whether the GPUs of a part are of the types that it asked for.
fn right_types(types: &[String], part: &Part) -> Result<(), String> {
    for (name, count) in part.amounts().other.iter() {
        let Some(kind) = device::gpu_type(name) else {
            continue;
        };
        let is = |n: &&u32| types.get(**n as usize).is_some_and(|t| t == kind);
        let has = part.gpus().iter().filter(is).count();
        if has < count as usize {
            return Err(format!("{count} {name} are booked, {has} are given"));
        }
    }
    Ok(())
}

/// Whether a node with these amounts and types of GPUs has what jobs hold there in these parts.
pub(crate) fn has_room_for(amounts: &Amounts, types: &[String], parts: &[&Part]) -> bool {
    let mut held = Amounts::default();
    for part in parts {
        held.give(part.held());
    }
    held.fits(&counted(amounts.clone(), types))
        && parts.iter().all(|part| right_types(types, part).is_ok())
}

impl Node {
    /// A job gets a share of the node: the lowest cores, GPUs and devices that are free, cores
    /// that suspended jobs will want again (`lent`) last.
    pub fn gives_share(&mut self, id: JobId, share: NodeShare, lent: &BTreeSet<u32>) -> Part {
        self.jobs.insert(id);
        let numbered = Numbered {
            cores: self.take_cores(share.amounts.cores, lent),
            gpus: self.devices.take_gpus(&share.amounts),
            devices: self.devices.take_others(&share.amounts),
        };
        Part::new(share, numbered, self.boot_id.clone())
    }

    /// A job has given its share back.
    pub fn has_back(&mut self, id: JobId, share: &GivenBack, now: Time) {
        self.cores.give(&share.cores);
        self.devices.give(&share.gpus, &share.devices);
        self.jobs.remove(&id);
        self.idle_since = now;
    }

    /// A job of an earlier controller has these there.
    pub fn holds_devices(&mut self, id: JobId, gpus: &[u32], devices: &BTreeMap<String, Vec<u32>>) {
        self.devices.mark(gpus, devices);
        self.jobs.insert(id);
    }

    /// A job has these cores.
    pub fn holds_cores(&mut self, cores: &[u32]) {
        self.cores.mark(cores);
    }

    /// A suspended job lends these cores.
    pub fn frees_cores(&mut self, cores: &[u32]) {
        self.cores.give(cores);
    }

    fn take_cores(&mut self, count: u32, lent: &BTreeSet<u32>) -> Vec<u32> {
        if lent.is_empty() {
            return self.cores.take(count);
        }
        let others = (0..self.amounts.cores).filter(|n| !lent.contains(n));
        let mut taken = self.cores.take_of(others, count);
        let rest = count.saturating_sub(taken.len() as u32);
        taken.extend(self.cores.take(rest));
        taken.sort_unstable();
        taken
    }

    /// What is stored of it tells the types of its GPUs until it tells them itself.
    pub fn keep_types(&mut self, stored: &Amounts) {
        if stored.gpus != self.amounts.gpus {
            return;
        }
        self.devices.counted = true;
        self.amounts.other.set(device::ANY_GPU, 0);
        for (name, count) in stored.other.iter() {
            if device::is_of_gpus(name) {
                self.amounts.other.set(name, count);
            }
        }
    }

    /// What jobs inside of a reservation find of its share. Where all GPUs of a node are
    /// alike it does not matter whether the type was named, outside or inside.
    pub fn inside(&self, share: &Amounts) -> Amounts {
        let mut inside = share.clone();
        let all = &self.amounts.other;
        if all.get(device::ANY_GPU) == 0 {
            return inside;
        }
        for (name, _) in all.iter().filter(|(name, _)| device::is_of_gpus(name)) {
            inside.other.set(name, share.gpus);
        }
        inside
    }
}

/// Checks what a request says of GPUs and devices, and counts the types.
///
/// # Errors
/// Names that are none, or numbers that contradict each other.
pub(crate) fn count(request: &ResourceRequest, per_node: &mut Amounts) -> Result<(), Refusal> {
    let names = request
        .gpu_types
        .iter()
        .chain(request.other_per_node.iter());
    for (name, _) in names {
        device::check_name(name).map_err(Refusal::invalid)?;
    }
    let typed: u64 = request.gpu_types.iter().map(|(_, n)| u64::from(n)).sum();
    if typed > 0 && typed != u64::from(request.gpus_per_node) {
        return Err(Refusal::invalid(format!(
            "{} GPUs per node are asked for, but {typed} by their types: name the type of all or of none",
            request.gpus_per_node
        )));
    }
    device::count_request(per_node, &request.gpu_types);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_of_one_gpu_where_that_can_be() {
        let mut held = Numbers::default();
        let mut take = |count: u32, want: &[u32]| {
            assert_eq!(take_shards(&mut held, &[4, 4, 2], count), want);
        };
        // The smallest GPU that has enough.
        take(1, &[8]);
        take(2, &[0, 1]);
        take(1, &[9]);
        take(3, &[4, 5, 6]);
        // The one that is left of the second, not one of the two of the first.
        take(1, &[7]);
        take(2, &[2, 3]);
        // More than there are: the planner does not give them, and nothing breaks.
        take(2, &[10, 11]);
    }

    #[test]
    fn shards_of_several_gpus() {
        let mut held = Numbers::default();
        held.mark(&[0, 1, 2, 4, 5]);
        assert_eq!(take_shards(&mut held, &[4, 4, 2], 3), [3, 6, 7]);
        assert_eq!(take_shards(&mut held, &[], 1), [8]);
        assert_eq!(take_shards(&mut held, &[u32::MAX, u32::MAX], 1), [9]);
        assert!(take_shards(&mut held, &[4], 0).is_empty());
    }
}
