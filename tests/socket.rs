//! The unix socket: its mode and directory, what may be in its place, and who may come in.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::panic)]

mod support;

use std::{
    fs,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown, symlink},
        net::UnixListener,
        process::CommandExt as _,
    },
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use pannier::proto::v1::ServerInfoRequest;
use support::{BINARY, Options, Sidecar, pannier, path_str, short_temp_dir};
use tonic::Code;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Starts a sidecar that is expected to give up.
fn serve(dir: &Path, socket: &Path, more: &[&str]) -> Output {
    let data = dir.join("data");
    let arguments = ["serve", "--socket", path_str(socket), "--data-dir", path_str(&data)];
    pannier(&[&arguments[..], more].concat())
}

fn refusal(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78), "{text}");
    text
}

/// websocketd#474: the socket's mode is what was asked for, whatever the umask.
#[tokio::test]
async fn the_socket_is_private_whatever_the_umask() {
    let dir = short_temp_dir();
    let socket = dir.path().join("run/pannier.sock");
    let serve = format!(
        "umask 000; exec {BINARY} serve --socket {} --data-dir {}",
        socket.display(),
        dir.path().join("data").display()
    );
    let mut child =
        Command::new("sh").args(["-c", &serve]).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..500 {
        if pannier(&["healthcheck", "--address", path_str(&socket)]).status.success() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(mode(&socket), 0o600);
    assert_eq!(mode(socket.parent().unwrap()), 0o700);
    assert_eq!(mode(&dir.path().join("data")), 0o700);
    assert_eq!(mode(&dir.path().join("data/keyring.toml")), 0o600);
    let others =
        walk(&dir.path().join("data")).into_iter().filter(|path| mode(path) & 0o077 != 0).collect::<Vec<_>>();
    assert!(others.is_empty(), "others may read {others:?}");
    assert!(pannier(&["stop", "--address", path_str(&socket)]).status.success());
    assert!(child.wait().unwrap().success());
    assert!(!socket.exists(), "the socket is removed at the end");
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn a_live_socket_is_refused_and_a_dead_one_replaced() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    let other = short_temp_dir();
    let why = refusal(&serve(other.path(), &sidecar.socket, &[]));
    assert!(why.contains("listening on") && why.contains("pannier stop"), "{why}");
    assert!(sidecar.serving("").await.is_some(), "the live one goes on");

    sidecar.kill9();
    assert!(sidecar.socket.exists(), "kill -9 leaves the file");
    sidecar.restart().await;
    sidecar.stop().await;
    assert!(!sidecar.socket.exists());
}

#[test]
fn another_kind_of_file_in_its_place_is_left_alone() {
    let dir = short_temp_dir();
    let socket = dir.path().join("pannier.sock");
    fs::write(&socket, "mine").unwrap();
    let why = refusal(&serve(dir.path(), &socket, &[]));
    assert!(why.contains("is not a socket"), "{why}");
    assert_eq!(fs::read_to_string(&socket).unwrap(), "mine");

    fs::remove_file(&socket).unwrap();
    let target = dir.path().join("target");
    fs::write(&target, "mine").unwrap();
    symlink(&target, &socket).unwrap();
    refusal(&serve(dir.path(), &socket, &[]));
    assert!(fs::symlink_metadata(&socket).unwrap().is_symlink());
}

#[test]
fn a_directory_that_others_control_is_refused() {
    let dir = short_temp_dir();
    let run = dir.path().join("run");
    let socket = run.join("pannier.sock");

    fs::create_dir(&run).unwrap();
    for (unsafe_mode, hint) in
        [(0o777, "others may write"), (0o1777, "others may write"), (0o755, "others may enter")]
    {
        set_mode(&run, unsafe_mode);
        let why = refusal(&serve(dir.path(), &socket, &[]));
        assert!(why.contains(hint), "{unsafe_mode:o}: {why}");
    }
    set_mode(&run, 0o700);
    if rustix::process::getuid().is_root() {
        chown(&run, Some(65534), None).unwrap();
        let why = refusal(&serve(dir.path(), &socket, &[]));
        assert!(why.contains("belongs to user 65534"), "{why}");
    }

    fs::remove_dir(&run).unwrap();
    let real = dir.path().join("real");
    fs::create_dir(&real).unwrap();
    set_mode(&real, 0o700);
    symlink(&real, &run).unwrap();
    let why = refusal(&serve(dir.path(), &socket, &[]));
    assert!(why.contains("is a link"), "{why}");
}

#[tokio::test]
async fn a_shared_socket_is_open_to_its_group_and_so_is_a_directory_made_for_it() {
    const GROUP: u32 = 65534;
    if !rustix::process::getuid().is_root() {
        eprintln!("SKIP a_shared_socket_is_open_to_its_group: only root can give files to any group");
        return;
    }
    let dir = short_temp_dir();
    let options = Options {
        dir: Some(dir.clone()),
        socket_name: Some("run/pannier.sock".into()),
        ..Options::default()
    };
    let options = options.arg("--socket-mode=0660").arg("--socket-group=65534");
    let mut sidecar = Sidecar::start(Options { no_wait: true, ..options }).await;
    sidecar.wait_serving(Duration::from_secs(20)).await;
    let group = |path: &Path| fs::symlink_metadata(path).unwrap().gid();
    assert_eq!((mode(&sidecar.socket), group(&sidecar.socket)), (0o660, GROUP));
    let run = dir.path().join("run");
    assert_eq!((mode(&run), group(&run)), (0o750, GROUP));
    // The embedded Valkey beside it stays ours alone.
    let valkey =
        fs::read_dir(&run).unwrap().map(|e| e.unwrap().path()).find(|path| path != &sidecar.socket).unwrap();
    assert_eq!(mode(&valkey) & 0o077, 0, "{}", valkey.display());
    sidecar.stop().await;
}

/// Two at once on a dead socket: one wins, and its socket is not removed by the loser.
#[tokio::test]
async fn of_two_that_start_at_once_one_wins() {
    let dir = short_temp_dir();
    let socket = dir.path().join("pannier.sock");
    drop(UnixListener::bind(&socket).unwrap());
    assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
    let start = |data: &str| {
        Command::new(BINARY)
            .args(["serve", "--socket", path_str(&socket), "--data-dir", path_str(&dir.path().join(data))])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut both = [start("a"), start("b")];
    for _ in 0..500 {
        if both.iter_mut().any(|child| child.try_wait().unwrap().is_some())
            && pannier(&["healthcheck", "--address", path_str(&socket)]).status.success()
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(pannier(&["stop", "--address", path_str(&socket)]).status.success());
    let mut codes = both.each_mut().map(|child| child.wait().unwrap().code());
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(78)]);
}

/// MAS#5572: another user gets PERMISSION_DENIED, however open the socket is, until it is let in.
#[tokio::test]
async fn another_user_needs_to_be_let_in() {
    const NOBODY: u32 = 65534;
    if !rustix::process::getuid().is_root() {
        eprintln!("SKIP another_user_needs_to_be_let_in: only root can call as another user");
        return;
    }
    let dir = short_temp_dir();
    set_mode(dir.path(), 0o755);
    let tool = dir.path().join("pannier");
    fs::copy(BINARY, &tool).unwrap();
    let as_nobody = |socket: &Path, arguments: &[&str]| {
        let output = Command::new(&tool)
            .args(arguments)
            .args(["--address", path_str(socket)])
            .current_dir("/")
            .uid(NOBODY)
            .gid(NOBODY)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };

    let options = Options { dir: Some(dir.clone()), ..Options::default() };
    let mut sidecar = Sidecar::start(options.clone().arg("--socket-mode").arg("0666")).await;
    assert_eq!(mode(&sidecar.socket), 0o666);
    let (code, text) = as_nobody(&sidecar.socket, &["healthcheck"]);
    assert_eq!(code, Some(76), "{text}");
    assert!(text.contains("PERMISSION_DENIED") && text.contains("--allow-uid"), "{text}");
    sidecar.stop().await;
    drop(sidecar);

    let options = options.arg("--socket-mode").arg("0666").arg("--allow-uid").arg("65534");
    let mut sidecar = Sidecar::start(options).await;
    let (code, text) = as_nobody(&sidecar.socket, &["healthcheck"]);
    assert_eq!(code, Some(0), "{text}");
    // The admin calls stay with the sidecar's own user.
    sidecar.admin().server_info(ServerInfoRequest {}).await.unwrap();
    sidecar.stop().await;
}

#[tokio::test]
async fn server_info_tells_what_runs() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    let info = sidecar.admin().server_info(ServerInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
    assert_eq!((info.topology.as_str(), info.env.as_str()), ("embedded", "dev"));
    assert!(["valkey", "redis"].contains(&info.engine.as_str()));
    assert_eq!(info.durability(), pannier::proto::v1::Durability::Fsync);
    assert_eq!((info.primary_key_id, info.key_ids.as_slice()), (1, &[1][..]));
    assert!(!info.store_id.is_empty() && info.connections > 0);
    sidecar.stop().await;
}

/// grpc#38142: clients on a unix socket send all kinds of authority.
#[tokio::test]
async fn any_authority_is_served() {
    let sidecar = Sidecar::start(Options::default()).await;
    for authority in
        ["http://localhost", "http://unix:0", "http://%2Ftmp%2Fpannier.sock", "http://[::1]:50051"]
    {
        let endpoint =
            tonic::transport::Endpoint::from_shared(format!("unix:{}", sidecar.socket.display())).unwrap();
        let Ok(origin) = authority.parse() else { continue };
        let channel = endpoint.origin(origin).connect_lazy();
        let mut health = tonic_health::pb::health_client::HealthClient::new(channel);
        let answer = health.check(tonic_health::pb::HealthCheckRequest::default()).await;
        assert!(answer.is_ok(), "{authority}: {answer:?}");
    }
    let mut health = sidecar.health();
    let unknown = tonic_health::pb::HealthCheckRequest { service: "pannier.v1.NoSuchService".into() };
    assert_eq!(health.check(unknown).await.unwrap_err().code(), Code::NotFound);
}
