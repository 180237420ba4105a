//! A clock that never advances.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    pub const NEVER: Self = Self(u64::MAX);

    pub fn now() -> Self {
        Self(0)
    }

    pub fn plus(self, ns: u64) -> Self {
        Self(self.0 + ns)
    }

    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
