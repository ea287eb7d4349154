//! Counters that differ in one label, each looked up by name once.

use std::sync::OnceLock;

use metrics::Counter;

/// One counter for each value of a label. The values are a fixed list: there can be no more series than that.
pub struct Family<const N: usize> {
    name: &'static str,
    label: &'static str,
    values: [&'static str; N],
    each: [OnceLock<Counter>; N],
}

impl<const N: usize> Family<N> {
    /// `values` in the order in which [`Family::add`] is given them.
    pub const fn new(name: &'static str, label: &'static str, values: [&'static str; N]) -> Self {
        Self { name, label, values, each: [const { OnceLock::new() }; N] }
    }

    /// Adds to the counter at this place of the list; nothing when there is none.
    pub fn add(&self, at: usize, count: u64) {
        if let Some(counter) = self.at(at) {
            counter.increment(count);
        }
    }

    /// Makes all of them known, at zero: what is not there cannot be seen to rise.
    pub fn register(&self) {
        for at in 0..N {
            self.at(at);
        }
    }

    fn at(&self, at: usize) -> Option<&Counter> {
        let (slot, value) = (self.each.get(at)?, *self.values.get(at)?);
        Some(slot.get_or_init(|| metrics::counter!(self.name, self.label => value)))
    }
}
