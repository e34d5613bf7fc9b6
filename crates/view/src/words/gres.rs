//! GPUs and other countable resources that a job asks for on each node: `gpu:a100:2,fpga:1`.

use super::counted;
use cosy_model::job::ResourceRequest;

/// What GPUs are called among other resources.
const GPU: &str = "gpu";

/// The text of what is asked for.
pub fn write(request: &ResourceRequest) -> String {
    let mut all: Vec<String> = Vec::new();
    for (name, amount) in request.gpu_types.iter() {
        all.push(format!("{GPU}:{name}:{amount}"));
    }
    if request.gpus_per_node > 0 && all.is_empty() {
        all.push(format!("{GPU}:{}", request.gpus_per_node));
    }
    if !request.other_per_node.is_empty() {
        all.push(counted::write(&request.other_per_node));
    }
    all.join(",")
}

/// Each of them: `gpu:a100:2`, `fpga:1`.
pub fn each(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|one| !one.is_empty())
}

/// The type of GPUs, where one was asked for and nothing else.
pub fn only_gpu_type(text: &str) -> Option<&str> {
    let mut all = counted::read(text);
    let (name, _) = all.next()?;
    let (word, kind) = name.split_once(':')?;
    (word == GPU && all.next().is_none()).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_again() {
        let check = |types: &[(&str, u32)], gpus, other: &[(&str, u32)], text: &str, kind| {
            let mut request = ResourceRequest {
                gpus_per_node: gpus,
                ..ResourceRequest::default()
            };
            types
                .iter()
                .for_each(|(name, n)| request.gpu_types.set(name, *n));
            other
                .iter()
                .for_each(|(name, n)| request.other_per_node.set(name, *n));
            assert_eq!(write(&request), text);
            assert_eq!(only_gpu_type(text), kind, "{text}");
            let asked = types.len() + other.len() + usize::from(gpus > 0 && types.is_empty());
            assert_eq!(each(text).count(), asked);
        };
        check(&[], 0, &[], "", None);
        check(&[("a100", 2)], 2, &[], "gpu:a100:2", Some("a100"));
        check(&[], 2, &[], "gpu:2", None);
        check(&[("a100", 2)], 2, &[("fpga", 1)], "gpu:a100:2,fpga:1", None);
        check(&[("a", 1), ("b", 1)], 2, &[], "gpu:a:1,gpu:b:1", None);
    }
}
