//! Pseudo-random choices that follow from a seed: the same tape from the same seed, on every machine.

use crate::disk::Dice;

/// A sequence of choices for tapes.
#[derive(Clone, Debug)]
pub(crate) struct Draws(Dice);

impl Draws {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(Dice::new(seed))
    }

    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next()
    }

    /// A number below `most`, or 0 when there is none.
    pub(crate) fn below(&mut self, most: usize) -> usize {
        let bits = self.bits() >> 11;
        usize::try_from(bits % (most.max(1) as u64)).unwrap_or(0)
    }

    /// `true` in so many of a hundred cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub(crate) fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// The place of one of several, by weight.
    pub(crate) fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (at, weight) in weights.iter().enumerate() {
            if left < *weight {
                return at;
            }
            left -= weight;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence_and_weights_are_kept() {
        let (mut one, mut two) = (Draws::new(7), Draws::new(7));
        assert!((0..100).all(|_| one.bits() == two.bits()));
        let mut seen = [0; 3];
        for _ in 0..1_000 {
            seen[one.weighted(&[1, 0, 9])] += 1;
        }
        assert!(seen[0] > 50 && seen[1] == 0 && seen[2] > 800, "{seen:?}");
    }
}
