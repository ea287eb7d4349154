//! The end, in order: NOT_SERVING while calls are still served, then no new ones, the last answers, the streams told, the
//! embedded Valkey stopped, the socket removed. Every wait has a bound, and so has their sum.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{STOP_WITHIN, accept::Steps, health::Readiness, socket::SocketFile};
use crate::{
    blob::Blobs, pipe::Pipes, rotation::Rotation, schedule::Schedules, session::Sessions, valkey::Link,
};

/// Calls in progress get this long after the drain delay: more than the deadline of a unary call, and of a commit all but
/// a little.
const FINISH_WITHIN: Duration = Duration::from_secs(9);
/// What the embedded Valkey needs at least to write its last bytes.
const KEEP_FOR_VALKEY: Duration = Duration::from_secs(6);

/// Everything that must end.
pub struct Drain {
    pub readiness: Readiness,
    pub steps: Steps,
    pub connections: TaskTracker,
    pub accepting: JoinHandle<()>,
    pub sessions: Arc<Sessions>,
    pub blobs: Arc<Blobs>,
    pub pipes: Arc<Pipes>,
    pub schedules: Arc<Schedules>,
    pub rotation: Arc<Rotation>,
    pub link: Link,
    pub link_stop: CancellationToken,
    pub file: SocketFile,
}

impl Drain {
    /// Ends it all.
    pub async fn run(self, delay: Duration) {
        let begin = Instant::now();
        let file = self.file.clone();
        // The last margin is for the runtime and the exit itself.
        if timeout_at(begin + STOP_WITHIN - Duration::from_millis(500), self.in_order(begin, delay))
            .await
            .is_err()
        {
            tracing::error!("not everything ended in time; what is left is cut off");
        }
        file.unlink();
        tracing::info!(after_ms = %begin.elapsed().as_millis(), "stopped");
    }

    async fn in_order(self, begin: Instant, delay: Duration) {
        self.readiness.stop();
        tracing::info!(drain_delay_ms = %delay.as_millis(), "stopping");
        sleep(delay).await;

        self.readiness.end_watches();
        self.steps.finish.cancel();
        let _ = self.accepting.await;
        self.connections.close();
        let until = (Instant::now() + FINISH_WITHIN).min(begin + STOP_WITHIN - KEEP_FOR_VALKEY);
        let finished = timeout_at(until, async {
            tokio::join!(
                self.sessions.drain(),
                self.blobs.drain(),
                self.pipes.drain(),
                self.schedules.drain()
            );
            self.connections.wait().await;
        });
        if finished.await.is_err() {
            tracing::warn!(
                connections = self.connections.len(),
                "calls did not finish in time; they are cut off"
            );
            self.steps.cut.cancel();
            let _ = timeout(Duration::from_secs(1), self.connections.wait()).await;
        }
        self.rotation.leave().await;
        self.link_stop.cancel();
        self.link.closed().await;
    }
}
