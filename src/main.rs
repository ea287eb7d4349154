//! The `pannier` binary.

fn main() {}
