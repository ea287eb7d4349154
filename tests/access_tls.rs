//! TLS and client certificates: every RPC with every kind of wrong certificate, and files that are wrong or change.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use std::{fs, path::Path, time::Duration};

use bytes::Bytes;
use rustix::process::Signal;
use support::{
    Options, Sidecar,
    access::{Authority, Files, Leaf, TokenFile, all_rpcs, call, is_refused, plain, secure},
    pannier, path_str, short_temp_dir,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tonic::Code;

const GET: &str = "/pannier.v1.SessionService/GetSession";

fn get() -> Bytes {
    Bytes::from_static(b"\x12\x01s")
}

/// A sidecar with TLS: its options, and its files with a certificate of this authority.
fn over_tls(ca: &Authority, client_ca: Option<&Authority>) -> (Options, Files) {
    let options = Options { dir: Some(short_temp_dir()), ..Options::default() };
    let files = Files::new(&options);
    files.write(&ca.server(), &client_ca.unwrap_or(ca).pem());
    let mut options = options.arg("--listen=127.0.0.1:0");
    options.args.extend(files.server_args());
    if client_ca.is_some() {
        options = options.arg(files.client_ca_arg());
    }
    (options, files)
}

/// What a client makes of a connection that is closed; in TLS 1.3 it learns only afterwards that its certificate was refused.
fn is_cut_off(answer: &Result<Bytes, tonic::Status>) -> bool {
    let code = answer.as_ref().err().filter(|status| status.details().is_empty()).map(tonic::Status::code);
    // An alert read as HTTP/2 is a protocol error.
    matches!(code, Some(Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal))
}

/// Every RPC fails before anything of it is read.
async fn nothing_gets_through(channel: &tonic::transport::Channel, what: &str) {
    for rpc in all_rpcs() {
        let answer = call(channel, &rpc.path, None, rpc.request("")).await;
        assert!(is_cut_off(&answer), "{} {what}: {answer:?}", rpc.path);
    }
}

#[tokio::test]
async fn only_clients_with_a_valid_certificate_of_the_right_authority_get_in() {
    let (ca, clients, strangers) =
        (Authority::new("server"), Authority::new("clients"), Authority::new("strangers"));
    let (options, _) = over_tls(&ca, Some(&clients));
    let sidecar = Sidecar::start(options).await;
    let with = |leaf: Option<&Leaf>| secure(&sidecar, &ca, leaf);
    nothing_gets_through(&with(None), "without a certificate").await;
    nothing_gets_through(&with(Some(&clients.expired_client())), "with an expired one").await;
    nothing_gets_through(&with(Some(&strangers.client())), "of an unknown authority").await;
    nothing_gets_through(&with(Some(&clients.server())), "with one for servers").await;
    nothing_gets_through(&plain(&sidecar), "without TLS").await;
    nothing_gets_through(
        &secure(&sidecar, &strangers, Some(&clients.client())),
        "by a client that trusts another",
    )
    .await;

    let known = with(Some(&clients.client()));
    for rpc in all_rpcs() {
        let answer = call(&known, &rpc.path, None, rpc.request("any")).await;
        assert_eq!(is_refused(&answer), rpc.service == "AdminService", "{}: {answer:?}", rpc.path);
    }
    let admin = call(&known, "/pannier.v1.AdminService/ServerInfo", None, Bytes::new()).await.unwrap_err();
    assert!(admin.message().contains("`admin`"), "{admin:?}");
}

/// With both, the certificate opens the connection and the token says what may be done.
#[tokio::test]
async fn a_certificate_does_not_stand_for_a_token() {
    let ca = Authority::new("one");
    let (options, _) = over_tls(&ca, Some(&ca));
    let tokens = TokenFile::new(&options);
    let token = tokens.add("one", "session");
    let sidecar = Sidecar::start(options.arg(format!("--token-file={}", tokens.path.display()))).await;
    let known = secure(&sidecar, &ca, Some(&ca.client()));
    assert_eq!(call(&known, GET, None, get()).await.unwrap_err().code(), Code::Unauthenticated);
    assert!(call(&known, GET, Some(&token), get()).await.is_ok());
    let unknown = secure(&sidecar, &ca, None);
    assert!(is_cut_off(&call(&unknown, GET, Some(&token), get()).await));
}

/// Whoever speaks plaintext to the TLS port gets no HTTP, and the connection is closed at once.
#[tokio::test]
async fn plaintext_to_the_tls_port_is_closed() {
    let ca = Authority::new("one");
    let (options, _) = over_tls(&ca, None);
    let tokens = TokenFile::new(&options);
    tokens.add("one", "session");
    let sidecar = Sidecar::start(options.arg(format!("--token-file={}", tokens.path.display()))).await;
    let mut stream = TcpStream::connect(support::access::tcp_address(&sidecar)).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(Duration::from_secs(3), stream.read_to_end(&mut answer)).await.expect("it is closed");
    assert!(answer.len() < 16, "at most an alert: {answer:?}");
}

/// SIGHUP shows new connections the new certificate; open ones go on; a broken file changes nothing and is named.
#[tokio::test]
async fn certificates_are_read_again_at_sighup() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (options, files) = over_tls(&old, None);
    let tokens = TokenFile::new(&options);
    let token = tokens.add("one", "session");
    let sidecar = Sidecar::start(options.arg(format!("--token-file={}", tokens.path.display()))).await;
    let open = secure(&sidecar, &old, None);
    assert!(call(&open, GET, Some(&token), get()).await.is_ok());

    files.write(&Leaf { cert: "nonsense".into(), ..new.server() }, &new.pem());
    sidecar.signal(Signal::HUP);
    logged(&sidecar, "the certificates were not taken").await;
    assert!(sidecar.logs().contains(path_str(&files.cert)), "the file is named");
    assert!(call(&secure(&sidecar, &old, None), GET, Some(&token), get()).await.is_ok());

    files.write(&new.server(), &new.pem());
    sidecar.signal(Signal::HUP);
    logged(&sidecar, "the certificates were read again").await;
    assert!(call(&secure(&sidecar, &new, None), GET, Some(&token), get()).await.is_ok());
    assert!(call(&secure(&sidecar, &old, None), GET, Some(&token), get()).await.is_err());
    assert!(call(&open, GET, Some(&token), get()).await.is_ok(), "the open connection goes on");
}

async fn logged(sidecar: &Sidecar, what: &str) {
    for _ in 0..200 {
        if sidecar.logs().contains(what) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not in the log: {what}\n{}", sidecar.logs());
}

#[tokio::test]
async fn a_private_key_that_others_may_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt as _;
    let ca = Authority::new("one");
    let (options, files) = over_tls(&ca, Some(&ca));
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o644)).unwrap();
    let sidecar = Sidecar::start(options).await;
    assert!(sidecar.logs().contains("others may read the private key of TLS: chmod 600"));
}

/// What `serve` says to these arguments; it ends with 78 before anything is bound.
fn refusal(dir: &Path, arguments: &[&str]) -> String {
    let (socket, data) = (dir.join("pannier.sock"), dir.join("data"));
    let all = ["serve", "--check-config", "--socket", path_str(&socket), "--data-dir", path_str(&data)];
    let output = pannier(&[&all, arguments].concat());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78), "{arguments:?}: {text}");
    text
}

#[test]
fn what_would_open_the_port_too_wide_is_refused_and_says_what_to_do() {
    let ca = Authority::new("one");
    let (options, files) = over_tls(&ca, Some(&ca));
    let dir = options.dir.clone().unwrap();
    let tokens = TokenFile::new(&options);
    tokens.add("one", "all");
    let token_file = format!("--token-file={}", tokens.path.display());
    let tls = files.server_args();
    let (cert, key, client_ca) = (tls[0].as_str(), tls[1].as_str(), files.client_ca_arg());
    let (inside, outside) = ("--listen=127.0.0.1:7600", "--listen=0.0.0.0:7600");
    let broken = dir.path().join("broken.pem");
    fs::write(&broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let other_key = dir.path().join("other-key.pem");
    fs::write(&other_key, ca.client().key).unwrap();
    let (broken_cert, other_key) =
        (format!("--tls-cert={}", broken.display()), format!("--tls-key={}", other_key.display()));
    let swapped = format!("--tls-key={}", files.cert.display());
    for (arguments, say) in [
        (&[inside][..], "pannier tokens add"),
        (&[inside, cert, key], "pannier tokens add"),
        (&[outside, &token_file], "--tls-cert and --tls-key"),
        (&["--listen=[::]:7600", &token_file], "--tls-cert and --tls-key"),
        (&["--listen=bot.example:7600", &token_file], "--tls-cert and --tls-key"),
        (&["--listen=7600", &token_file], "HOST:PORT"),
        (&[inside, &token_file, cert], "--tls-key"),
        (&[inside, &token_file, key], "--tls-cert"),
        (&[inside, &token_file, &client_ca], "--tls-cert"),
        (&[inside, &token_file, &broken_cert, key], "broken.pem"),
        (&[inside, &token_file, cert, &other_key], "is not the key of"),
        (&[inside, &token_file, cert, &swapped], "no private key in it"),
        (&[inside, &token_file, "--tls-cert=/nowhere.pem", key], "/nowhere.pem: No such file"),
        (&[inside, "--token-file=/nowhere.toml"], "pannier tokens add"),
        (&[&token_file], "has no effect without --listen"),
        (&[cert, key], "has no effect without --listen"),
        (&["--socket-auth=token"], "pannier tokens add"),
        (&["--socket-auth=tokens"], "peer, token, both"),
        (&["--socket-auth=token", &token_file, "--socket-mode=0666", "--allow-uid=1"], "`both`"),
    ] {
        let why = refusal(dir.path(), arguments);
        assert!(why.contains(say), "{arguments:?}: {why}");
    }
    for arguments in [
        &[inside, &token_file][..],
        &["--listen=[::1]:7600", &token_file],
        &["--listen=localhost:7600", &token_file],
        &[outside, &token_file, cert, key],
        &[outside, cert, key, &client_ca],
        &["--socket-auth=both", &token_file],
    ] {
        let (socket, data) = (dir.path().join("pannier.sock"), dir.path().join("data"));
        let all = ["serve", "--check-config", "--socket", path_str(&socket), "--data-dir", path_str(&data)];
        let output = pannier(&[&all, arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
