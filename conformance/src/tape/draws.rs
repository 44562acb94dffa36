//! Pseudo-random choices that follow from a seed: the same tape from the same seed, on every machine.

/// A sequence of choices. SplitMix64: small, and good enough to choose with.
#[derive(Clone, Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
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
