//! Features, nodes and node sets that a job asks for. Nobody reads these texts again: they are for
//! people, in the form in which Slurm has them (sbatch(1), `--constraint`).

use cosy_model::job::{CountedFeatures, ResourceRequest};

/// Features as one expression: `a&b`, `a&(b|c&d)`, `[rack1|rack2]`.
pub fn constraint(request: &ResourceRequest) -> String {
    let mut terms = request.features.clone();
    if !request.any_features.is_empty() {
        let groups = either(&request.any_features);
        let alone = terms.is_empty()
            && request.same_features.is_empty()
            && request.counted_features.is_empty();
        terms.push(if alone { groups } else { format!("({groups})") });
    }
    if !request.same_features.is_empty() {
        terms.push(format!("[{}]", either(&request.same_features)));
    }
    terms.extend(counted_features(&request.counted_features));
    terms.join("&")
}

/// What is taken first: nodes, features and node sets with commas.
pub fn preferred(request: &ResourceRequest) -> String {
    let features = Some(either(&request.prefer_features)).filter(|text| !text.is_empty());
    let all = request.prefer.iter().cloned().chain(features);
    let all: Vec<String> = all.chain(request.sets.iter().cloned()).collect();
    all.join(",")
}

fn either(groups: &[Vec<String>]) -> String {
    let each: Vec<String> = groups.iter().map(|group| group.join("&")).collect();
    each.join("|")
}

/// Features with how many nodes must have them: `a*2`, `[(a|b)*2&c*1]`.
fn counted_features(all: &[CountedFeatures]) -> Option<String> {
    let one = |counted: &CountedFeatures| {
        let groups: Vec<String> = counted.any.iter().map(|group| group.join("&")).collect();
        let groups = groups.join("|");
        let single = !groups.contains(['&', '|']);
        let groups = if single {
            groups
        } else {
            format!("({groups})")
        };
        format!("{groups}*{}", counted.nodes)
    };
    match all {
        [] => None,
        [single] => Some(one(single)),
        _ => Some(format!("[{}]", all.iter().map(one).collect::<Vec<_>>().join("&"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints() {
        let check = |all: &[&str], any: &[&[&str]], same: &[&[&str]], want: &str| {
            let texts = |list: &[&str]| list.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
            let groups = |list: &[&[&str]]| list.iter().map(|g| texts(g)).collect::<Vec<_>>();
            let request = ResourceRequest {
                features: texts(all),
                any_features: groups(any),
                same_features: groups(same),
                ..ResourceRequest::default()
            };
            assert_eq!(constraint(&request), want);
        };
        check(&[], &[], &[], "");
        check(&["a", "b"], &[], &[], "a&b");
        check(&[], &[&["a"], &["b", "c"]], &[], "a|b&c");
        check(&["x"], &[&["a"], &["b"]], &[&["r1"], &["r2"]], "x&(a|b)&[r1|r2]");
    }

    #[test]
    fn constraints_with_numbers() {
        let check = |counted: &[(&[&[&str]], u32)], want: &str| {
            let texts = |list: &&[&str]| list.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
            let all = counted.iter().map(|(any, nodes)| CountedFeatures {
                any: any.iter().map(texts).collect(),
                nodes: *nodes,
            });
            let request = ResourceRequest {
                features: vec!["x".to_owned()],
                counted_features: all.collect(),
                ..ResourceRequest::default()
            };
            assert_eq!(constraint(&request), want);
        };
        check(&[(&[&["a"]], 2)], "x&a*2");
        check(&[(&[&["a", "b"]], 2)], "x&(a&b)*2");
        check(&[(&[&["a"], &["b"]], 2), (&[&["c"]], 1)], "x&[(a|b)*2&c*1]");
    }
}
