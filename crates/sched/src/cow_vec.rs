//! A list of which a copy costs next to nothing: copies share what neither has changed since. What
//! thousands of nodes need when a plan keeps snapshots.
//!
//! Elements lie in pieces of equal length; a change copies the piece that it is in, if somebody else
//! has it too.
//!
//! What always holds: all pieces but the last are full.

use std::ops::Index;
use std::sync::Arc;

const PIECE: usize = 32;

/// A list whose copies share what neither has changed.
#[derive(Clone, Debug)]
pub(crate) struct CowVec<T> {
    pieces: Vec<Arc<Vec<T>>>,
    len: usize,
}

impl<T> Default for CowVec<T> {
    fn default() -> Self {
        Self {
            pieces: Vec::new(),
            len: 0,
        }
    }
}

impl<T: Clone> CowVec<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, at: usize) -> Option<&T> {
        self.pieces.get(at / PIECE)?.get(at % PIECE)
    }

    /// What is there, to be changed.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        Arc::make_mut(self.pieces.get_mut(at / PIECE)?).get_mut(at % PIECE)
    }

    /// Adds an element at the end.
    pub fn push(&mut self, value: T) {
        match self.pieces.last_mut().filter(|piece| piece.len() < PIECE) {
            Some(piece) => Arc::make_mut(piece).push(value),
            None => self.pieces.push(Arc::new(vec![value])),
        }
        self.len += 1;
    }
}

impl<T: Clone> Index<usize> for CowVec<T> {
    type Output = T;

    /// # Panics
    /// When there is none.
    fn index(&self, at: usize) -> &T {
        &self.pieces[at / PIECE][at % PIECE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_left_alone() {
        let mut all = CowVec::default();
        (0..100).for_each(|n| all.push(n));
        let copy = all.clone();
        for at in [0, 31, 32, 99] {
            *all.get_mut(at).unwrap() += 1000;
        }
        all.push(7);
        for at in 0..100 {
            let changed = [0, 31, 32, 99].contains(&at);
            assert_eq!(all[at], at + if changed { 1000 } else { 0 });
            assert_eq!(copy[at], at);
        }
        assert_eq!((all.len(), copy.len()), (101, 100));
        assert_eq!((all.get(100), all.get(101), copy.get(100)), (Some(&7), None, None));
        assert!(all.get_mut(101).is_none());
    }
}
