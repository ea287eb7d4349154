//! A rotation by the commands that a person gives, on sidecars that each have a keyring file of their own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
    time::{Duration, Instant},
};

use pannier::proto::v1::{self, KeyState};
use rustix::process::Signal;

use super::{
    Options, Sidecar, Valkey,
    attach::{Attach, Refused, open, put},
    pannier, path_str, short_temp_dir,
};

/// A sidecar on the same Valkey with its own copy of the keyring, as on another machine.
pub async fn elsewhere(first: &Sidecar) -> Sidecar {
    elsewhere_at(first, first.options.valkey_url.clone().unwrap()).await
}

/// The same, with another way to that Valkey.
pub async fn elsewhere_at(first: &Sidecar, valkey_url: String) -> Sidecar {
    let dir = short_temp_dir();
    let options = Options { dir: Some(dir.clone()), valkey_url: Some(valkey_url), ..first.options.clone() };
    copy(&first.keyring(), &private_data(dir.path()).join("keyring.toml"));
    Sidecar::start(options).await
}

pub fn private_data(dir: &Path) -> PathBuf {
    use std::os::unix::fs::DirBuilderExt as _;
    let data = dir.join("data");
    fs::DirBuilder::new().mode(0o700).recursive(true).create(&data).unwrap();
    data
}

/// Replaces a keyring file as a whole, as whoever distributes it does.
pub fn copy(from: &Path, to: &Path) {
    let beside = to.with_extension("new");
    fs::copy(from, &beside).unwrap();
    fs::rename(&beside, to).unwrap();
}

/// `pannier keys …` with this sidecar's keyring and Valkey.
pub fn keys(sidecar: &Sidecar, arguments: &[&str]) -> Output {
    let keyring = path_str(&sidecar.keyring()).to_owned();
    let mut command = [&["keys"], arguments].concat();
    let address = sidecar.address();
    let env = sidecar.options.env.clone().unwrap_or_else(|| "test".into());
    match arguments[0] {
        "rewrap" => command.extend(["--address", &address]),
        "status" => command.extend(["--address", &address, "--keyring", &keyring, "--timeout", "60"]),
        "promote" | "disable" | "remove" => {
            let url = sidecar.options.valkey_url.as_deref().unwrap();
            command.extend(["--keyring", &keyring, "--valkey-url", url, "--env", &env]);
        }
        _ => command.extend(["--keyring", &keyring]),
    }
    pannier(&command)
}

/// It succeeds; what it says.
pub fn done(sidecar: &Sidecar, arguments: &[&str]) -> String {
    let output = keys(sidecar, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

/// It is refused with this code; what it says.
pub fn refused(sidecar: &Sidecar, arguments: &[&str], code: i32) -> String {
    let output = keys(sidecar, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "stdout is data only");
    said
}

/// What it prints with `--json`.
pub fn shown(sidecar: &Sidecar, arguments: &[&str]) -> serde_json::Value {
    let output = keys(sidecar, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// SIGHUP, until the registry says that it uses exactly these keys.
pub async fn reload(sidecar: &Sidecar, wanted: &[(u32, KeyState)]) {
    sidecar.signal(Signal::HUP);
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let own = sidecars(sidecar).await.into_iter().find(|one| one.own);
        let keys: Vec<_> =
            own.iter().flat_map(|own| own.keys.iter().map(|key| (key.id, key.state()))).collect();
        if keys == wanted {
            return;
        }
        assert!(Instant::now() < until, "{keys:?} instead of {wanted:?}\n{}", sidecar.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub async fn sidecars(sidecar: &Sidecar) -> Vec<v1::SidecarInfo> {
    sidecar.admin().list_sidecars(v1::ListSidecarsRequest {}).await.unwrap().into_inner().sidecars
}

/// Waits until that many are alive.
pub async fn alive(sidecar: &Sidecar, wanted: usize) -> Vec<v1::SidecarInfo> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let sidecars = sidecars(sidecar).await;
        if sidecars.len() == wanted {
            return sidecars;
        }
        assert!(Instant::now() < until, "{wanted} sidecars wanted: {sidecars:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What a key wraps, as the sidecar counts it.
pub async fn wraps(sidecar: &Sidecar, id: u32) -> v1::KeyUse {
    let mut request = tonic::Request::new(v1::KeyStatusRequest {});
    request.set_timeout(Duration::from_secs(60));
    let status = sidecar.admin().key_status(request).await.unwrap().into_inner();
    assert_eq!(status.damaged, 0);
    status.keys.into_iter().find(|key| key.id == id).unwrap_or_default()
}

/// A rewrap to its end.
pub async fn rewrap(sidecar: &Sidecar, rate: u32) -> Result<v1::RewrapResponse, Refused> {
    let request = v1::RewrapRequest { owners_per_second: rate };
    let status = |status: tonic::Status| Refused::of_status(&status);
    let mut words = sidecar.admin().rewrap(request).await.map_err(status)?.into_inner();
    let (mut last, mut failures) = (v1::RewrapResponse::default(), Vec::new());
    while let Some(mut word) = words.message().await.map_err(status)? {
        assert!(word.looked_at >= last.looked_at && word.moved >= last.moved, "counts only grow");
        failures.append(&mut word.failures);
        last = word;
    }
    Ok(v1::RewrapResponse { failures, ..last })
}

/// Sessions `<prefix>-<n>` with one record each, many at once.
pub async fn make_sessions(sidecar: &Sidecar, prefix: &str, count: usize) {
    let mut making = tokio::task::JoinSet::new();
    for n in 0..count {
        if making.len() >= 64 {
            making.join_next().await.unwrap().unwrap();
        }
        let (channel, name) = (sidecar.channel(), format!("{prefix}-{n}"));
        making.spawn(async move {
            let mut attach = Attach::open(channel, open(&name, "maker")).await.unwrap();
            attach.commit(1, vec![put("creds", "creds", value(&name))], Vec::new()).await.unwrap();
            attach.close().await;
        });
    }
    while let Some(made) = making.join_next().await {
        made.unwrap();
    }
}

/// What [`make_sessions`] put into one.
pub fn value(name: &str) -> Vec<u8> {
    format!("the credentials of {name}").into_bytes()
}

/// All of them have what was put into them.
pub async fn check_sessions(sidecar: &Sidecar, prefix: &str, count: usize) {
    let mut unary = super::unary::Unary::of(sidecar);
    for n in 0..count {
        let name = format!("{prefix}-{n}");
        assert_eq!(unary.value(&name, "creds", "creds").await, Some(value(&name)), "{name}");
    }
}

/// The keyring's keys alone: an old copy of the file in which only `id` is, as the primary.
pub fn keyring_with_only(file: &Path, id: u32) -> String {
    let table: toml::Table = fs::read_to_string(file).unwrap().parse().unwrap();
    let keys = table["key"].as_array().unwrap();
    let key = keys.iter().find(|key| key["id"].as_integer() == Some(i64::from(id))).unwrap();
    format!(
        "index_key = {}\n\n[[key]]\nid = {id}\nstate = \"primary\"\nsecret = {}\n",
        table["index_key"], key["secret"]
    )
}

/// Puts a text in the place of a keyring file.
pub fn write(file: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let beside = file.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&beside, file).unwrap();
}

/// Two sidecars on one Valkey, each with its own copy of the keyring.
pub async fn two(valkey: &Valkey) -> (Sidecar, Sidecar) {
    let one = Sidecar::start(Options::with(valkey)).await;
    let two = elsewhere(&one).await;
    alive(&one, 2).await;
    (one, two)
}

/// Hands the file of `one` to the other and has both use it.
pub async fn spread(one: &Sidecar, two: &Sidecar, wanted: &[(u32, KeyState)]) {
    copy(&one.keyring(), &two.keyring());
    reload(one, wanted).await;
    reload(two, wanted).await;
}
