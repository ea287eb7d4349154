//! Somebody who watches a queue as the API says, and what happens in it meanwhile.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use pannier::proto::v1::{self, JobState, SettleOutcome, watch_queue_response::Event};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use super::support::{
    attach::Refused,
    bad_network::check_refusal,
    chaos::Fault,
    schedule::{Queue, job},
};

/// What somebody who watches knows of the jobs, and how.
#[derive(Default)]
pub struct Known {
    pub jobs: BTreeMap<String, JobState>,
    /// Events of jobs, first messages and resyncs so far.
    pub told: usize,
    pub watching: usize,
    pub resyncs: usize,
    pub ended: Vec<Refused>,
    /// The last job that an event told of.
    pub last: String,
}

impl Known {
    /// Read again: a job never goes back here.
    fn read(&mut self, id: &str, state: JobState) {
        let known = self.jobs.entry(id.to_owned()).or_insert(JobState::Ready);
        let step = |state: JobState| {
            [JobState::Ready, JobState::Leased, JobState::Done].iter().position(|one| *one == state).unwrap()
        };
        if step(state) > step(*known) {
            *known = state;
        }
    }
}

impl std::fmt::Display for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { told, watching, resyncs, ended, last, .. } = self;
        let ended: Vec<_> = ended.iter().map(|refused| &refused.reason).collect();
        write!(f, "{told} events, the last of {last}, {watching} watches, {resyncs} resyncs, ended {ended:?}")
    }
}

/// Watches over the bad network, and reads what it must read again over a whole one.
pub struct Watcher {
    pub watched: Queue,
    pub read: Queue,
    pub known: Arc<Mutex<Known>>,
}

impl Watcher {
    pub async fn run(self, fault: Fault) {
        loop {
            let ended = match self.open().await {
                Ok(events) => self.follow(events).await,
                Err(refused) => refused,
            };
            check_refusal(fault, "the watch", &ended);
            self.known.lock().unwrap().ended.push(ended);
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn open(&self) -> Result<Streaming<v1::WatchQueueResponse>, Refused> {
        let request = v1::WatchQueueRequest { queue: self.watched.name.clone(), ..Default::default() };
        let answer = self.watched.client.clone().watch_queue(request).await;
        Ok(answer.map_err(|status| Refused::of_status(&status))?.into_inner())
    }

    /// Until it ends, which is never in peace.
    async fn follow(&self, mut events: Streaming<v1::WatchQueueResponse>) -> Refused {
        loop {
            let message = match events.message().await {
                Ok(message) => message.expect("it ended without a word"),
                Err(status) => return Refused::of_status(&status),
            };
            let state = match message.event() {
                event @ (Event::Watching | Event::Resync) => {
                    self.read_again().await;
                    let mut known = self.known.lock().unwrap();
                    known.resyncs += usize::from(event == Event::Resync);
                    known.watching += usize::from(event == Event::Watching);
                    continue;
                }
                Event::Created => JobState::Ready,
                Event::Leased => JobState::Leased,
                Event::Done => JobState::Done,
                other => panic!("{other:?}"),
            };
            let mut known = self.known.lock().unwrap();
            known.read(&message.id, state);
            known.told += 1;
            known.last = message.id;
        }
    }

    async fn read_again(&self) {
        for state in [JobState::Ready, JobState::Leased, JobState::Done] {
            let mut cursor = String::new();
            loop {
                let request = v1::ListJobsRequest {
                    queue: self.read.name.clone(),
                    state: state.into(),
                    cursor,
                    limit: 500,
                    ..Default::default()
                };
                let page = self.read.client.clone().list_jobs(request).await.unwrap().into_inner();
                let mut known = self.known.lock().unwrap();
                for job in &page.jobs {
                    known.read(&job.id, job.state());
                }
                cursor = page.cursor;
                if cursor.is_empty() {
                    break;
                }
            }
        }
    }
}

/// Adds, leases and settles one job after the other, over a whole network, until it is told to end.
pub struct Changes {
    /// The ids so far of those that are done.
    ids: Arc<Mutex<Vec<String>>>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Changes {
    pub fn start(queue: Queue) -> Self {
        let (ids, stop) = (Arc::new(Mutex::new(Vec::new())), CancellationToken::new());
        let (done, stopped) = (Arc::clone(&ids), stop.clone());
        let task = tokio::spawn(async move {
            for n in 0.. {
                if stopped.is_cancelled() {
                    return;
                }
                let id = name(n);
                queue.add(job(&id)).await;
                let taken = queue.take(1).await;
                assert_eq!(queue.ack(&taken[0]).await, SettleOutcome::Ok);
                done.lock().unwrap().push(id);
                sleep(Duration::from_millis(25)).await;
            }
        });
        Self { ids, stop, task }
    }

    /// The job that is on its way.
    pub fn current(&self) -> String {
        name(self.ids.lock().unwrap().len())
    }

    pub async fn end(self) -> Vec<String> {
        self.stop.cancel();
        self.task.await.unwrap();
        self.ids.lock().unwrap().clone()
    }
}

fn name(n: usize) -> String {
    format!("job-{n:05}")
}
