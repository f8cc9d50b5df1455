//! A small source of random numbers whose sequence never changes, so that a seed found today is good tomorrow.

/// SplitMix64.
pub struct Random(u64);

impl Random {
    /// A source that always yields the same sequence for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`, which must not be zero.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
    }

    /// True once in `times`.
    pub fn chance(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of the elements.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Some of the elements, each at most once, in any order.
    pub fn some<T: Copy>(&mut self, from: &[T], at_most: usize) -> Vec<T> {
        let mut left = from.to_vec();
        let count = self.below(at_most.min(from.len()) + 1);
        (0..count).map(|_| left.remove(self.below(left.len()))).collect()
    }
}
