//! The end under load: what was in flight finishes, streams are told, leases stay.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use pannier::proto::v1::{self, attach_response::Event};
use support::{
    Options, Sidecar, Valkey, ValkeyOptions,
    attach::{Attach, open, put},
};
use tonic::transport::Channel;

const SECOND: Duration = Duration::from_secs(1);

async fn make_session(sidecar: &Sidecar, name: &str) {
    let mut bot = Attach::open(sidecar.channel(), open(name, "setup")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "x")], vec![]).await.unwrap();
    bot.close().await;
}

async fn write(channel: Channel, session: String, op_seq: u64) -> Result<(), tonic::Status> {
    let request = v1::CommitRecordsRequest {
        session,
        writer_id: "w".into(),
        op_seq,
        puts: vec![put("session", "1.0", vec![1; 200])],
        ..Default::default()
    };
    let mut client = v1::session_service_client::SessionServiceClient::new(channel);
    client.commit_records(request).await.map(|_| ())
}

/// linkerd2#10379, kuma#4134 and others: 50 writers at work while the sidecar stops with a drain delay: none fails.
#[tokio::test]
async fn writers_that_leave_within_the_drain_delay_see_no_failure() {
    let mut sidecar = Sidecar::start(Options::default().arg("--drain-delay=2s")).await;
    for n in 0..50 {
        make_session(&sidecar, &format!("bot-{n}")).await;
    }
    // Nobody of these is in a hurry, and nobody is waited for.
    let _silent: Vec<_> =
        (0..5).map(|_| std::os::unix::net::UnixStream::connect(&sidecar.socket).unwrap()).collect();
    let mut idle = support::unary::Unary::of(&sidecar);
    idle.info("bot-0").await;
    let mut watches = Vec::new();
    for _ in 0..5 {
        let request = tonic_health::pb::HealthCheckRequest::default();
        watches.push(sidecar.health().watch(request).await.unwrap().into_inner());
    }
    let channel = sidecar.channel();
    let until = Instant::now() + Duration::from_millis(2500);
    let writers: Vec<_> = (0..50)
        .map(|n| {
            let channel = channel.clone();
            tokio::spawn(async move {
                for op_seq in 1.. {
                    if Instant::now() >= until {
                        return op_seq;
                    }
                    write(channel.clone(), format!("bot-{n}"), op_seq).await.unwrap();
                }
                0
            })
        })
        .collect();
    tokio::time::sleep(SECOND).await;
    sidecar.sigterm();
    let begun = Instant::now();
    for writer in writers {
        assert!(writer.await.unwrap() > 1);
    }
    assert!(sidecar.wait_exit(Duration::from_secs(25)).await.success());
    assert!(begun.elapsed() < Duration::from_secs(10), "took {:?}", begun.elapsed());
    for mut watch in watches {
        while let Ok(Some(_)) = watch.message().await {}
    }
}

#[tokio::test]
async fn calls_in_flight_at_the_end_are_answered() {
    let mut valkey = Valkey::start(ValkeyOptions::default());
    let mut sidecar = Sidecar::start(Options::with(&valkey)).await;
    for n in 0..50 {
        make_session(&sidecar, &format!("bot-{n}")).await;
    }
    let channel = sidecar.channel();
    valkey.sigstop();
    let calls: Vec<_> =
        (0..50).map(|n| tokio::spawn(write(channel.clone(), format!("bot-{n}"), 1))).collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    sidecar.sigterm();
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(sidecar.is_running(), "it waits for them");
    valkey.sigcont();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert!(sidecar.wait_exit(Duration::from_secs(8)).await.success());
    valkey.kill9();
}

#[tokio::test]
async fn an_attached_bot_is_told_and_keeps_its_lease() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    let mut bot = Attach::open(sidecar.channel(), open("bot-1", "me")).await.unwrap();
    bot.commit(1, vec![put("creds", "creds", "x")], vec![]).await.unwrap();
    let begin = Instant::now();
    sidecar.sigterm();
    bot.push(|event| matches!(event, Event::Draining(_))).await;
    assert!(sidecar.wait_exit(Duration::from_secs(12)).await.success());
    assert!(begin.elapsed() < Duration::from_secs(12));

    sidecar.restart().await;
    let refused = Attach::open(sidecar.channel(), open("bot-1", "another")).await.err().unwrap();
    assert_eq!(refused.reason, "SESSION_HELD");
    let resume = v1::Resume { fence: bot.opened.fence, revision: 1 };
    let again = v1::Open { resume: Some(resume), ..open("bot-1", "me") };
    let again = Attach::open(sidecar.channel(), again).await.unwrap();
    assert!(again.opened.resumed);
    assert_eq!(again.opened.revision, 1);
}
