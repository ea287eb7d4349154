//! `pannier healthcheck`.

use clap::Args;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::{
    connect::Target,
    outcome::{Failed, Outcome, UNAVAILABLE},
};

/// Exits with 0 when the sidecar is ready, else with 69. For containers and scripts.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    target: Target,
    /// One service, such as pannier.v1.SessionService; without it the whole process.
    #[arg(long, default_value = "", hide_default_value = true)]
    service: String,
}

pub async fn run(arguments: Arguments) -> Outcome {
    let mut health = HealthClient::new(arguments.target.channel()?);
    let request = arguments.target.request(HealthCheckRequest { service: arguments.service });
    match health.check(request).await?.into_inner().status() {
        ServingStatus::Serving => Ok(()),
        _ => {
            Err(Failed::new(UNAVAILABLE, "not ready: Valkey is away, or the sidecar is starting or stopping"))
        }
    }
}
