//! What a person needs to know at a start: where everything is, what to back up, and the line for the bot.

use std::{
    io::{self, IsTerminal as _, Write as _},
    net::SocketAddr,
};

use crate::{
    config::{Config, Valkey, default_sockets, process_environment},
    telemetry::log,
};

/// Says it: for eyes on a terminal, else as one log line.
pub fn print(config: &Config, tcp: Option<SocketAddr>) {
    let socket = config.socket.path.display();
    let address = format!("unix:{socket}");
    let embedded = matches!(config.valkey, Valkey::Embedded { .. });
    if !(log::is_pretty(config.log) && io::stderr().is_terminal()) {
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            address,
            env = config.env,
            embedded,
            data_dir = %config.data_dir.display(),
            keyring = %config.keyring.display(),
            "listening; back up the keyring: without it nothing that is stored can be read"
        );
        return;
    }
    let data = if embedded {
        format!("{} (embedded Valkey, environment {})", config.data_dir.display(), config.env)
    } else {
        format!("your Valkey, environment {}", config.env)
    };
    let keyring = config.keyring.display();
    let tcp = tcp.map_or_else(String::new, |address| format!("tcp         {address}\n  "));
    let found = default_sockets(&process_environment).contains(&config.socket.path);
    let export =
        if found { String::new() } else { format!("\n              export PANNIER_ADDRESS={address}") };
    let text = format!(
        "\n  pannier {version}\n\n  \
         socket      {socket}\n  {tcp}\
         data        {data}\n  \
         keyring     {keyring}\n              \
         back this file up: without it nothing that is stored can be read\n\n  \
         in the bot  const pannier = await connect(){export}\n\n",
        version = env!("CARGO_PKG_VERSION"),
    );
    // A terminal that is gone is no reason to fail.
    let _ = io::stderr().write_all(text.as_bytes());
}
