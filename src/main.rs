//! The `pannier` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    pannier::cli::run(std::env::args_os())
}
