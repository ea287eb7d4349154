//! Who may be anybody: clients that say nothing, little, or vanish, and more of them than there is room for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use bytes::Bytes;
use support::{
    Sidecar,
    access::{Authority, Files, call, on_tcp, plain, secure, tcp_address},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{sleep, timeout},
};

/// What the sidecar gives to a greeting, and the margin of tests.
const GREETING: Duration = Duration::from_secs(10);
const BOUND: Duration = Duration::from_secs(30);

const GET: &str = "/pannier.v1.SessionService/GetSession";

/// Sends one byte after the other; gives how long the sidecar bore with it.
async fn drip(address: SocketAddr, words: &[u8], pause: Duration) -> Duration {
    let begin = Instant::now();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut words = words.iter();
    let mut buffer = [0; 1024];
    let ended = async {
        loop {
            match timeout(pause, stream.read(&mut buffer)).await {
                Ok(Ok(0) | Err(_)) => return begin.elapsed(),
                Ok(Ok(_)) => {}
                Err(_) => {
                    let Some(byte) = words.next() else { continue };
                    if stream.write_all(&[*byte]).await.is_err() {
                        return begin.elapsed();
                    }
                }
            }
        }
    };
    timeout(BOUND, ended).await.expect("the connection stays open")
}

/// Silent, and slower than anybody is: in clear and over TLS, before and in the middle of the greeting. Others are served meanwhile.
#[tokio::test]
async fn who_does_not_greet_in_time_is_closed() {
    let (options, tokens) = on_tcp();
    let token = tokens.add("one", "session");
    let in_clear = Sidecar::start(options).await;
    let (options, tokens) = on_tcp();
    let ca = Authority::new("one");
    let files = Files::new(&options);
    files.write(&ca.server(), &ca.pem());
    let tls_token = tokens.add("one", "session");
    let over_tls = Sidecar::start(support::Options {
        args: [options.args.clone(), files.server_args()].concat(),
        ..options
    })
    .await;

    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on, for longer than anybody waits";
    let (clear, tls) = (tcp_address(&in_clear), tcp_address(&over_tls));
    let pause = Duration::from_secs(1);
    let strangers = async {
        tokio::join!(
            drip(clear, b"", pause),
            drip(clear, preface, pause),
            drip(tls, b"", pause),
            drip(tls, hello, pause),
            drip(clear, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", Duration::from_millis(5)),
        )
    };
    let served = async {
        for _ in 0..20 {
            let get = || Bytes::from_static(b"\x12\x01s");
            assert!(call(&plain(&in_clear), GET, Some(&token), get()).await.is_ok());
            assert!(call(&secure(&over_tls, &ca, None), GET, Some(&tls_token), get()).await.is_ok());
            sleep(Duration::from_millis(100)).await;
        }
    };
    let ((silent, slow, tls_silent, tls_slow, http1), ()) = tokio::join!(strangers, served);
    for (who, lasted) in
        [("silent", silent), ("slow", slow), ("silent TLS", tls_silent), ("slow TLS", tls_slow)]
    {
        assert!((Duration::from_secs(9)..GREETING * 3).contains(&lasted), "{who}: {lasted:?}");
    }
    assert!(http1 < Duration::from_secs(3), "who speaks something else is closed at once: {http1:?}");
}

/// A peer that is gone without a word, behind a proxy that drops everything, does not keep its place.
#[tokio::test]
async fn a_peer_that_vanishes_is_found_out() {
    let (options, tokens) = on_tcp();
    let token = tokens.add("one", "session");
    let sidecar = Sidecar::start(options).await;
    let target = tcp_address(&sidecar);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (vanish, vanished) = watch::channel(false);
    let proxy = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut server = TcpStream::connect(target).await.unwrap();
        let mut gone = vanished.clone();
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut client, &mut server) => panic!("it ended too early"),
            _ = gone.wait_for(|gone| *gone) => {}
        }
        // Nothing is passed on any more; what the sidecar sends is taken, and never answered.
        let begin = Instant::now();
        let mut buffer = [0; 1024];
        while !matches!(server.read(&mut buffer).await, Ok(0) | Err(_)) {}
        drop(client);
        begin.elapsed()
    });
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = endpoint.connect_lazy();
    assert!(call(&channel, GET, Some(&token), Bytes::from_static(b"\x12\x01s")).await.is_ok());
    vanish.send(true).unwrap();
    let found_out = timeout(Duration::from_secs(60), proxy).await.expect("it keeps its place").unwrap();
    assert!(found_out < Duration::from_secs(45), "{found_out:?}");
}

/// Passes one connection on; gives how long it lasts.
async fn passed(listener: &TcpListener, target: SocketAddr) -> tokio::task::JoinHandle<Duration> {
    let (mut client, _) = listener.accept().await.unwrap();
    tokio::spawn(async move {
        let (begin, mut server) = (Instant::now(), TcpStream::connect(target).await.unwrap());
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        begin.elapsed()
    })
}

/// Somebody who asks for nothing but the health is asked to leave after a while; one who has shown a token may be idle.
#[tokio::test]
async fn a_connection_without_anybody_known_ends() {
    let (options, tokens) = on_tcp();
    let token = tokens.add("one", "session");
    let sidecar = Sidecar::start(options).await;
    let target = tcp_address(&sidecar);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let through =
        || tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy();
    let check = || Bytes::new();
    let (stranger, known) = (through(), through());
    let health = "/grpc.health.v1.Health/Check";
    let (answer, of_stranger) =
        tokio::join!(call(&stranger, health, None, check()), passed(&listener, target));
    assert!(answer.is_ok(), "{answer:?}");
    let (answer, of_known) = tokio::join!(
        call(&known, GET, Some(&token), Bytes::from_static(b"\x12\x01s")),
        passed(&listener, target)
    );
    assert!(answer.is_ok(), "{answer:?}");
    let lasted = timeout(Duration::from_secs(60), of_stranger).await.expect("it stays").unwrap();
    assert!(lasted >= Duration::from_secs(25), "{lasted:?}");
    sleep(Duration::from_secs(3)).await;
    assert!(!of_known.is_finished(), "the idle one is left alone");
    assert!(call(&known, GET, Some(&token), Bytes::from_static(b"\x12\x01s")).await.is_ok());
}

/// A thousand strangers do not keep those on the socket out, nor the next who comes by TCP once they are closed.
#[tokio::test]
async fn strangers_fill_their_own_room_only() {
    let (options, tokens) = on_tcp();
    let token = tokens.add("one", "session");
    let sidecar = Sidecar::start(options).await;
    let address = tcp_address(&sidecar);
    let mut strangers = Vec::new();
    for _ in 0..1_100 {
        strangers.push(TcpStream::connect(address).await.unwrap());
    }
    let get = || Bytes::from_static(b"\x12\x01s");
    assert!(call(&sidecar.channel(), GET, None, get()).await.is_ok(), "the socket is served");
    let begin = Instant::now();
    while call(&plain(&sidecar), GET, Some(&token), get()).await.is_err() {
        assert!(begin.elapsed() < BOUND, "no room after {BOUND:?}");
        sleep(Duration::from_millis(200)).await;
    }
    assert!(sidecar.logs().contains("too many connections"));
    drop(strangers);
}

/// SIGTERM does not wait for connections over TCP that say nothing.
#[tokio::test]
async fn the_end_waits_for_no_stranger() {
    let (options, tokens) = on_tcp();
    let token = tokens.add("one", "session");
    let mut sidecar = Sidecar::start(options).await;
    let address = tcp_address(&sidecar);
    let silent = TcpStream::connect(address).await.unwrap();
    let channel = plain(&sidecar);
    assert!(call(&channel, GET, Some(&token), Bytes::from_static(b"\x12\x01s")).await.is_ok());
    let begin = Instant::now();
    assert!(sidecar.stop().await.success());
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    assert!(TcpStream::connect(address).await.is_err(), "the port is closed");
    drop(silent);
}
