//! `docs/configuration.md`, made from the table.

use std::fmt::Write as _;

use super::table::{From, SETTINGS, With};

/// The text of `docs/configuration.md`.
pub fn reference() -> String {
    let mut out = String::from(
        "# Configuration\n\n\
         Made from the table in `src/config/table.rs` by `make docs`; a test fails when it is not current.\n\n\
         A setting is taken from the first place that has it: **flag**, **environment**, **TOML file** (`--config`), \
         default. In the file its name is that of the flag, such as `drain-delay = \"2s\"`. An unknown flag or key is an \
         error. Of the environment only the names below are read, and an empty variable counts as not set. A flag or \
         key that has no effect with the Valkey in use is refused; a variable is passed over, and `config show` says so.\n\n\
         `pannier config show`, with the flags of `serve`, prints each value and where it came from, without secrets; \
         `pannier serve --check-config` does the same and checks everything that can be checked without starting.\n\n\
         Sizes: `64KiB`, `128MiB`, `2GiB` (`KB`, `MB`, `GB` and `K`, `M`, `G` mean the same), or bytes. Durations: \
         `500ms`, `2s`, `1m`.\n\n\
         | flag of `serve` | environment | default | what it does |\n| --- | --- | --- | --- |\n",
    );
    for setting in SETTINGS {
        let flag = if setting.is_switch() {
            format!("`--{}`", setting.name)
        } else {
            format!("`--{} {}`", setting.name, setting.value.replace('|', "\\|"))
        };
        let env = setting.env().map_or_else(|| "–".to_owned(), |env| format!("`{env}`"));
        let only = match (setting.with, setting.from) {
            (With::Embedded, _) => " Embedded Valkey only.",
            (With::Url, From::FlagOnly) => " With a URL only; as a flag only.",
            (With::Url, _) => " With a URL only.",
            (With::Any, From::NotFile) => " Not in the file.",
            (With::Any, _) => "",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| {flag} | {env} | {} | {}{only} |",
            setting.default.replace('|', "\\|"),
            setting.help.replace('|', "\\|")
        );
    }
    out.push_str(
        "\nSwitches (`--init`, `--allow-eviction`) are `true` or `false` in the environment and the file.\n\n\
         ## What clients read\n\n\
         | environment | meaning |\n| --- | --- |\n\
         | `PANNIER_ADDRESS` | `unix:/path` or `host:port` of the sidecar. Without it the two default sockets are tried in their order. |\n\
         | `PANNIER_TOKEN_FILE` | A file that holds the token to show, as `pannier tokens add` printed it. (For `serve` it names the file of \
         hashes: see [access](access.md).) |\n\
         | `PANNIER_TLS_CA` | For `host:port`: use TLS, and trust what these certificates (PEM) have signed. |\n\
         | `PANNIER_TLS_CLIENT_CERT`, `PANNIER_TLS_CLIENT_KEY` | A client certificate and its key (PEM), where the sidecar asks for one. |\n\
         | `PANNIER_IMPORT_URL` | Of `pannier import redis`: the URL of the source, password and all. |\n\n\
         The commands that talk to a running sidecar (`sessions`, `import`, `export`, `blobs`, `queue`, `crons`, \
         `conversations`, `caps`, `healthcheck`, `stop`, `doctor --live`) take `--address`, then `PANNIER_ADDRESS`, then `PANNIER_SOCKET`, \
         then the default sockets.\n\n\
         ## Exit codes\n\n\
         | code | meaning |\n| --- | --- |\n\
         | 0 | done; for `serve`: stopped as asked |\n\
         | 1 | the answer is no: nothing of that name, a question answered with no |\n\
         | 64 | wrong usage: unknown flag, missing argument |\n\
         | 69 | unavailable: no sidecar there, or it is not ready |\n\
         | 70 | a fault of Pannier |\n\
         | 76 | the sidecar refused or does not understand |\n\
         | 78 | configuration, keys or the database must be put right by a person; stderr says how |\n",
    );
    out
}
