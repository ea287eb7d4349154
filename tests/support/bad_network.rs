//! What every stream is put under: the same faults between a sidecar and its Valkey, and what is asked of whatever ends under them.

use std::time::{Duration, Instant};

use pannier::proto::v1;
use tonic::Code;

use super::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::Refused,
    chaos::{Fault, Network},
    keys,
    link::allowed,
};

const BACK_WITHIN: Duration = Duration::from_secs(5);

/// The faults, for the streams of this RPC. `tests/chaos.rs` looks for a call with the name of each RPC that streams.
pub fn faults_for(_rpc: &str) -> [Fault; 8] {
    [
        Fault::Delay(Duration::from_millis(100)),
        Fault::Silent,
        Fault::HalfOpen,
        Fault::NoReplies,
        Fault::Reset,
        Fault::CutAfter(300),
        Fault::Drip(50),
        Fault::CloseOld,
    ]
}

/// A sidecar behind a network that is whole so far.
pub async fn start() -> (Valkey, Network, Sidecar) {
    let valkey = Valkey::start(ValkeyOptions { tcp: true, ..ValkeyOptions::default() });
    let network = Network::start(valkey.port, 0).await;
    let options = Options { valkey_url: Some(network.url()), ..Options::with(&valkey) };
    (valkey, network, Sidecar::start(options).await)
}

/// Another sidecar on the same database, behind a network of its own.
pub async fn behind(valkey: &Valkey, first: &Sidecar) -> (Network, Sidecar) {
    let network = Network::start(valkey.port, 0).await;
    let sidecar = keys::elsewhere_at(first, network.url()).await;
    (network, sidecar)
}

/// Waits until a call reaches Valkey again.
pub async fn healed(sidecar: &Sidecar, fault: Fault) {
    let begun = Instant::now();
    loop {
        let mut request =
            tonic::Request::new(v1::GetSessionRequest { session: "x".into(), ..Default::default() });
        request.set_timeout(Duration::from_millis(500));
        if sidecar.sessions().get_session(request).await.is_ok() {
            eprintln!("{fault:?}: back after {:?}", begun.elapsed());
            return;
        }
        assert!(begun.elapsed() < allowed(BACK_WITHIN), "{fault:?}: not back");
    }
}

/// What ends for the network's sake says so, and that it is to be tried again.
pub fn check_refusal(fault: Fault, what: &str, refused: &Refused) {
    let known = [Code::Unavailable, Code::DeadlineExceeded, Code::Aborted];
    assert!(known.contains(&refused.code) && !refused.reason.is_empty(), "{fault:?}: {what}: {refused:?}");
}
