//! What all kinds of owners share, sessions and blobs among them: the index that lists them, the sweep of what has run out,
//! the clock of their scripts, and how a script's answer is read.

pub mod catalog;
pub mod index;
pub mod keys;
pub mod namespace;
pub mod reply;
pub mod request;
pub mod scripts;
pub mod sweeper;
