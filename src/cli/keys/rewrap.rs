//! `pannier keys rewrap`: has the running sidecar wrap everything under the primary key, and shows how far it is.

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Serialize;

use crate::{
    cli::{
        Format,
        connect::Target,
        outcome::{Failed, NO, Outcome, UNAVAILABLE},
        output::{self, json, shown},
    },
    proto::v1::{self, admin_service_client::AdminServiceClient},
};

/// Wraps every root key under the primary key: sessions and their archives, blobs, namespaces.
///
/// Calls go on meanwhile. It can be broken off and run again, also twice at once: what is done is skipped. Fails with 1 when
/// a root key could not be wrapped anew; those stay as they are, under their key.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  pannier keys rewrap
  pannier keys rewrap --rate 200 --json            gently, for a busy database")]
pub struct Rewrap {
    /// Owners a second, at most.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    format: Format,
}

#[derive(Serialize)]
struct Ended {
    key: u32,
    owners: u64,
    moved: u64,
    skipped: u64,
    failed: u64,
    seconds: f64,
    failures: Vec<Failure>,
}

#[derive(Serialize)]
struct Failure {
    kind: String,
    namespace: String,
    name: String,
    reason: String,
    message: String,
}

impl Rewrap {
    pub async fn run(self) -> Outcome {
        let mut client = AdminServiceClient::new(self.target.channel()?);
        let request = v1::RewrapRequest { owners_per_second: self.rate };
        // Without a deadline: it takes what it takes, and the bar shows that it goes on.
        let mut words = client.rewrap(request).await?.into_inner();
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let (mut last, mut failures) = (v1::RewrapResponse::default(), Vec::new());
        let ended = loop {
            match words.message().await {
                Ok(Some(mut word)) => {
                    bar.set_length(word.total.max(word.looked_at));
                    bar.set_position(word.looked_at);
                    failures.append(&mut word.failures);
                    last = word;
                }
                Ok(None) => break Ok(()),
                Err(status) => break Err(Failed::from(status)),
            }
        };
        bar.finish_and_clear();
        if let Err(failed) = ended {
            output::note(&format!("{} root keys were moved before it ended; they stay so", last.moved));
            return Err(failed);
        }
        if !last.done {
            return Err(Failed::new(UNAVAILABLE, "the sidecar ended before it was done: run it again"));
        }
        for failure in &failures {
            output::note(&format!(
                "{} {} of {}: {} ({})",
                failure.kind,
                shown(&failure.name),
                shown(&failure.namespace),
                failure.message,
                failure.reason
            ));
        }
        self.say(&last, failures)?;
        if last.failed > 0 {
            return Err(Failed::new(
                NO,
                format!(
                    "{} root keys stay under their old key: keep it, and see the reasons above",
                    last.failed
                ),
            ));
        }
        Ok(())
    }

    fn say(&self, last: &v1::RewrapResponse, failures: Vec<v1::RewrapFailure>) -> Outcome {
        let took = last.elapsed.and_then(|took| std::time::Duration::try_from(took).ok()).unwrap_or_default();
        if self.format.json {
            let failures = failures.into_iter().map(|failure| Failure {
                kind: failure.kind,
                namespace: failure.namespace,
                name: failure.name,
                reason: failure.reason,
                message: failure.message,
            });
            return json(&Ended {
                key: last.key_id,
                owners: last.looked_at,
                moved: last.moved,
                skipped: last.skipped,
                failed: last.failed,
                seconds: took.as_secs_f64(),
                failures: failures.collect(),
            });
        }
        output::note(&format!(
            "{} root keys came under key {}, {} were there already, {} failed ({} owners in {:.1} s)",
            last.moved,
            last.key_id,
            last.skipped,
            last.failed,
            last.looked_at,
            took.as_secs_f64()
        ));
        Ok(())
    }
}
