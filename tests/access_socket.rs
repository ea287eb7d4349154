//! Who may do what on the unix socket: users, tokens, or both.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use bytes::Bytes;
use support::{
    Options, Sidecar,
    access::{TokenFile, all_rpcs, call, is_refused},
    channel, path_str, short_temp_dir,
};
use tonic::Code;

const NOBODY: u32 = 65534;
const SOCKET: &str = "ACCESS_TEST_SOCKET";
const TOKEN: &str = "ACCESS_TEST_TOKEN";
const EXPECT: &str = "ACCESS_TEST_EXPECT";

/// A sidecar whose socket every user can reach, and a file of tokens in its directory.
fn open_to_all() -> (Options, TokenFile) {
    let dir = short_temp_dir();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let options = Options { dir: Some(dir), ..Options::default() }.arg("--socket-mode=0666");
    let tokens = TokenFile::new(&options);
    (options, tokens)
}

/// Runs `as_another_user` below as user 65534, from a copy of this program that it may read.
fn as_nobody(dir: &Path, socket: &Path, token: &str, expect: &str) {
    let copy = dir.join("test-program");
    if !copy.exists() {
        fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
    }
    let output = Command::new(&copy)
        .args(["--exact", "as_another_user", "--ignored", "--nocapture"])
        .env_clear()
        .envs([(SOCKET, path_str(socket)), (TOKEN, token), (EXPECT, expect)])
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "as another user, {expect}:\n{text}");
}

/// What happens in the other process: every RPC is called.
#[tokio::test]
#[ignore = "run by the tests beside it, as another user"]
async fn as_another_user() {
    let Ok(socket) = std::env::var(SOCKET) else { return };
    assert_eq!(rustix::process::geteuid().as_raw(), NOBODY);
    let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
    let expect = std::env::var(EXPECT).unwrap();
    let channel = channel(Path::new(&socket));
    for rpc in all_rpcs() {
        let answer = call(&channel, &rpc.path, token.as_deref(), rpc.request("own")).await;
        let code = answer.as_ref().err().map(tonic::Status::code);
        match expect.as_str() {
            "user refused" => {
                assert_eq!(code, Some(Code::PermissionDenied), "{}: {answer:?}", rpc.path);
                assert!(answer.unwrap_err().message().contains("--allow-uid"), "{}", rpc.path);
            }
            "token missing" => assert_eq!(code, Some(Code::Unauthenticated), "{}: {answer:?}", rpc.path),
            "all but admin" => {
                assert_eq!(is_refused(&answer), rpc.service == "AdminService", "{}: {answer:?}", rpc.path);
            }
            "everything" => assert!(!is_refused(&answer), "{}: {answer:?}", rpc.path),
            other => panic!("{other}"),
        }
    }
}

fn can_be_nobody() -> bool {
    let root = rustix::process::getuid().is_root();
    if !root {
        eprintln!("SKIP: only root can call as another user");
    }
    root
}

#[tokio::test]
async fn another_user_may_call_nothing_until_let_in_and_then_all_but_admin() {
    if !can_be_nobody() {
        return;
    }
    let (options, tokens) = open_to_all();
    let token = tokens.add("all", "all,admin");
    let dir = options.dir.clone().unwrap();
    let mut sidecar = Sidecar::start(options.clone()).await;
    as_nobody(dir.path(), &sidecar.socket, "", "user refused");
    as_nobody(dir.path(), &sidecar.socket, &token, "user refused");
    // Our own user may do everything, and needs no token.
    for rpc in all_rpcs() {
        let answer = call(&sidecar.channel(), &rpc.path, None, rpc.request("own")).await;
        assert!(!is_refused(&answer), "{}: {answer:?}", rpc.path);
    }
    sidecar.stop().await;
    sidecar.options.args.push(format!("--allow-uid={NOBODY}"));
    sidecar.restart().await;
    as_nobody(dir.path(), &sidecar.socket, "", "all but admin");
    as_nobody(dir.path(), &sidecar.socket, &token, "all but admin");
    sidecar.stop().await;
}

#[tokio::test]
async fn by_token_any_user_comes_in_and_nobody_without() {
    let (options, tokens) = open_to_all();
    let (token, narrow) = (tokens.add("all", "namespace:own,all,admin"), tokens.add("narrow", "dedup"));
    let options = options.arg("--socket-auth=token").arg(format!("--token-file={}", tokens.path.display()));
    let dir = options.dir.clone().unwrap();
    let sidecar = Sidecar::start(options).await;
    let channel = sidecar.channel();
    for rpc in all_rpcs() {
        let none = call(&channel, &rpc.path, None, rpc.request("own")).await.unwrap_err();
        assert_eq!(none.code(), Code::Unauthenticated, "{}: our own user too", rpc.path);
        let right = call(&channel, &rpc.path, Some(&token), rpc.request("own")).await;
        assert!(!is_refused(&right), "{}: {right:?}", rpc.path);
        if rpc.is_namespaced() && !rpc.is_pipe() {
            let wrong = call(&channel, &rpc.path, Some(&token), rpc.request("other")).await.unwrap_err();
            assert_eq!(wrong.code(), Code::PermissionDenied, "{}", rpc.path);
        }
    }
    let admin = "/pannier.v1.AdminService/ServerInfo";
    assert_eq!(
        call(&channel, admin, Some(&narrow), Bytes::new()).await.unwrap_err().code(),
        Code::PermissionDenied
    );
    if can_be_nobody() {
        as_nobody(dir.path(), &sidecar.socket, "", "token missing");
        as_nobody(dir.path(), &sidecar.socket, &token, "everything");
    }
}

#[tokio::test]
async fn with_both_neither_user_nor_token_is_enough() {
    let (options, tokens) = open_to_all();
    let token = tokens.add("all", "all,admin");
    let options = options.arg("--socket-auth=both").arg(format!("--token-file={}", tokens.path.display()));
    let dir = options.dir.clone().unwrap();
    let mut sidecar = Sidecar::start(options).await;
    let path = "/pannier.v1.SessionService/GetSession";
    let get = || Bytes::from_static(b"\x12\x01s");
    assert_eq!(call(&sidecar.channel(), path, None, get()).await.unwrap_err().code(), Code::Unauthenticated);
    assert!(call(&sidecar.channel(), path, Some(&token), get()).await.is_ok());
    if can_be_nobody() {
        as_nobody(dir.path(), &sidecar.socket, &token, "user refused");
        sidecar.stop().await;
        sidecar.options.args.push(format!("--allow-uid={NOBODY}"));
        sidecar.restart().await;
        as_nobody(dir.path(), &sidecar.socket, "", "token missing");
        as_nobody(dir.path(), &sidecar.socket, &token, "everything");
    }
}

/// The check of a token is no more than a hash and a look at a list: a call with one takes no longer than the noise.
#[tokio::test]
async fn a_token_costs_a_call_next_to_nothing() {
    let (options, tokens) = open_to_all();
    let token = tokens.add("one", "namespace:own");
    for n in 0..20 {
        tokens.add(&format!("more-{n}"), "all");
    }
    let (by_peer, by_token) = (Sidecar::start(options.clone()).await, {
        let options = Options { dir: Some(short_temp_dir()), ..options.clone() };
        Sidecar::start(
            options.arg("--socket-auth=token").arg(format!("--token-file={}", tokens.path.display())),
        )
        .await
    });
    let message = || Bytes::from_static(b"\x0a\x03own");
    let path = "/pannier.v1.SessionService/GetSession";
    let mut medians = [Vec::new(), Vec::new()];
    let channels = [by_peer.channel(), by_token.channel()];
    for _ in 0..2_000 {
        for (channel, times) in channels.iter().zip(&mut medians) {
            let begin = Instant::now();
            let refused = call(channel, path, Some(&token), message()).await.unwrap_err();
            times.push(begin.elapsed());
            assert_eq!(refused.code(), Code::InvalidArgument);
        }
    }
    let [peer, token] = medians.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    eprintln!("a call by peer {peer:?}, by one of 21 tokens {token:?}");
    assert!(token < peer * 2 + Duration::from_millis(1), "by peer {peer:?}, by token {token:?}");
}
