//! The process management interface, versions 1 and 2: tasks of two nodes say what they
//! like, nodes exchange what came of it or something else.
//!
//! The first byte of a piece: which task (low two bits), and what happens to it.

use cosy_model::{OsText, limits};
use noded::pmi::{Pmi, PmiAct, PmiJob};

fn server(node: u32) -> Pmi {
    Pmi::new(PmiJob {
        name: "cosy-12.0".to_owned(),
        tasks: 4,
        node,
        ranks: vec![vec![0, 1], vec![2, 3]],
    })
}

/// Feeds one input of the fuzzer to the PMI servers of two nodes.
pub fn run(bytes: &[u8]) {
    let mut nodes = [server(0), server(1)];
    let mut shares: Vec<Option<Vec<u8>>> = vec![None, None];
    for rank in 0..4 {
        assert!(nodes[rank as usize / 2].variables(rank).len() < 10);
    }
    for piece in crate::pieces(bytes) {
        let Some((how, said)) = piece.split_first() else {
            continue;
        };
        let rank = u32::from(how & 3);
        let at = rank as usize / 2;
        let acts = match how >> 4 {
            0 => nodes[at].closed(rank),
            1 => {
                let parts = [(0, OsText(said.to_vec())), (1, OsText(Vec::new()))];
                nodes[at].spread(&parts)
            }
            _ => nodes[at].heard(rank, said),
        };
        took(at, acts, &mut shares);
        if shares.iter().all(Option::is_some) {
            let parts: Vec<(u32, OsText)> = (0..)
                .zip(&mut shares)
                .filter_map(|(node, share)| Some((node, OsText(share.take()?))))
                .collect();
            for (at, node) in nodes.iter_mut().enumerate() {
                took(at, node.spread(&parts), &mut shares);
            }
        }
        let _ = (nodes[at].is_unfinished(rank), nodes[at].takes_part());
    }
}

fn took(at: usize, acts: Vec<PmiAct>, shares: &mut [Option<Vec<u8>>]) {
    for act in acts {
        match act {
            PmiAct::Contribute(bytes) => {
                assert!(bytes.len() <= limits::EXCHANGE_BYTES);
                shares[at] = Some(bytes);
            }
            PmiAct::Answer { bytes, .. } => assert!(bytes.len() <= limits::PMI_MESSAGE),
            PmiAct::Abort { reason, .. } | PmiAct::Broken { reason, .. } => {
                assert!(!reason.contains('\n'), "{reason:?} is not one line");
            }
        }
    }
}
