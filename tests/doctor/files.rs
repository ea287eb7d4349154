//! What lies on this machine: the keyring, the socket, tokens and certificates, the data directory.

use std::{fs, os::unix::net::UnixListener};

use rcgen::{CertificateParams, KeyPair};

use super::{
    in_use, mode,
    support::{self, Options, Sidecar, ValkeyOptions, doctor::Home, pannier, path_str},
};

#[tokio::test]
async fn a_keyring_that_is_missing_open_to_others_or_wrong_is_named() {
    let (valkey, home) = in_use(ValkeyOptions::default()).await;
    let keyring = home.keyring();
    for (bits, why) in [(0o644, "open to every user"), (0o620, "writable by its group")] {
        mode(&keyring, bits);
        let told = home.doctor(&[]);
        assert_eq!(told.exit, 78);
        told.says("keyring", "file", "fail", why, "");
        assert!(told.text.contains("chmod 600"), "{}", told.text);
        told.says("valkey", "database", "ok", "store", "");
    }
    mode(&keyring, 0o600);
    let text = fs::read_to_string(&keyring).unwrap();
    fs::write(&keyring, text.replace("primary", "decrypt_only")).unwrap();
    let told = home.doctor(&[]);
    told.says("keyring", "file", "fail", "no key is the primary", "");
    assert_eq!(told.exit, 78);
    fs::remove_file(&keyring).unwrap();
    let told = home.doctor(&[]);
    told.says("keyring", "file", "fail", "there is no", "pannier keys init");
    assert!(pannier(&["keys", "init", "--keyring", path_str(&keyring)]).status.success());
    let told = home.doctor(&[]);
    assert_eq!(told.exit, 78);
    told.says("valkey", "keyring", "fail", "index_key is not the one", "");
    let secret = text.lines().find(|line| line.contains("secret")).unwrap().split('"').nth(1).unwrap();
    assert!(secret.len() > 30 && !told.text.contains(secret));
    // Embedded: data, and its keyring is gone.
    let mut sidecar = Sidecar::start(Options::default()).await;
    assert!(sidecar.stop().await.success());
    fs::remove_file(sidecar.keyring()).unwrap();
    let told = Home::bare(&[]).doctor(&["--data-dir", path_str(&sidecar.data_dir())]);
    assert_eq!(told.exit, 78);
    told.says("keyring", "file", "fail", "is gone", "restore keyring.toml");
    drop(valkey);
}

#[tokio::test]
async fn the_sockets_place_is_looked_at_and_left_alone() {
    let home = Home::bare(&[]);
    let run = home.path("run");
    let socket = run.join("pannier.sock");
    fs::create_dir(&run).unwrap();
    for (bits, why) in [(0o777, "others may write"), (0o755, "others may enter")] {
        mode(&run, bits);
        let told = home.doctor(&[]);
        assert_eq!(told.exit, 78);
        told.says("socket", "directory", "fail", why, "");
    }
    mode(&run, 0o700);
    fs::write(&socket, "a file").unwrap();
    let told = home.doctor(&[]);
    assert_eq!(told.exit, 78);
    told.says("socket", "place", "fail", "not a socket", "--socket");
    fs::remove_file(&socket).unwrap();
    drop(UnixListener::bind(&socket).unwrap());
    let told = home.doctor(&[]);
    assert_eq!(told.exit, 0, "{}", told.text);
    told.says("socket", "place", "ok", "a dead socket", "");
    let _listening = {
        fs::remove_file(&socket).unwrap();
        UnixListener::bind(&socket).unwrap()
    };
    home.doctor(&[]).says("socket", "place", "ok", "a sidecar listens", "");
    let link = home.path("link");
    std::os::unix::fs::symlink(&run, &link).unwrap();
    let told = home.doctor(&["--socket", path_str(&link.join("pannier.sock"))]);
    told.says("socket", "directory", "fail", "is a link", "");
}

/// A certificate that ends in so many days, and its key.
fn certificate(home: &Home, days: i64) -> Vec<String> {
    let mut params = CertificateParams::new(vec!["pannier.test".into()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    let end = jiff::Zoned::now().date() + jiff::Span::new().days(days);
    let (month, day) = (u8::try_from(end.month()).unwrap(), u8::try_from(end.day()).unwrap());
    params.not_after = rcgen::date_time_ymd(i32::from(end.year()), month, day);
    let key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&key).unwrap();
    fs::write(home.path("cert.pem"), cert.pem()).unwrap();
    fs::write(home.path("key.pem"), key.serialize_pem()).unwrap();
    mode(&home.path("key.pem"), 0o600);
    ["cert", "key"].map(|name| format!("--tls-{name}={}", home.path(&format!("{name}.pem")).display())).into()
}

#[tokio::test]
async fn tokens_certificates_and_ports_are_looked_at() {
    let home = Home::bare(&[]);
    let tokens = home.path("tokens.toml");
    let make = |name: &str, expires: &str| {
        let made = [
            "tokens",
            "add",
            name,
            "--scope",
            "all",
            "--expires",
            expires,
            "--token-file",
            path_str(&tokens),
        ];
        let made = pannier(&made);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    };
    let shown = make("long", "400d");
    let port = support::valkey::free_port();
    let listen = format!("--listen=127.0.0.1:{port}");
    let file = format!("--token-file={}", tokens.display());
    let with = |days: i64, more: &[&str]| {
        let tls = certificate(&home, days);
        let mut words = vec![listen.as_str(), file.as_str()];
        words.extend(tls.iter().map(String::as_str));
        words.extend(more);
        home.doctor(&words)
    };
    let told = with(200, &["--admin=127.0.0.1:0"]);
    assert_eq!((told.exit, told.count("warn")), (0, 0), "{}", told.text);
    told.says("access", "tokens", "ok", "1 valid", "");
    told.says("access", "certificate", "ok", "valid until 20", "");
    told.says("access", "private key", "ok", "mode 0600", "");
    told.says("access", "port", "ok", "is free", "");
    told.says("access", "admin port", "ok", "is free", "");
    assert!(!told.text.contains(&shown), "a token is not told");

    let told = with(5, &[]);
    assert_eq!(told.exit, 0, "{}", told.text);
    told.says("access", "certificate", "warn", "expires in", "SIGHUP");
    let told = with(-2, &[]);
    assert_eq!(told.exit, 78);
    told.says("access", "certificate", "fail", "has expired", "SIGHUP");

    make("short", "3d");
    let old =
        "\n[[token]]\nname = 'old'\nsha256 = 'aa'\nscopes = ['all']\nexpires = '2020-01-01T00:00:00Z'\n"
            .replace("'aa'", &format!("'{}'", "a".repeat(64)));
    fs::write(&tokens, fs::read_to_string(&tokens).unwrap() + &old).unwrap();
    mode(&tokens, 0o644);
    let occupied = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let told = with(200, &[]);
    assert_eq!(told.exit, 78);
    told.says("access", "port", "fail", "in use", "--listen");
    told.says("access", "token file", "warn", "others may read", "chmod 600");
    let warned: Vec<String> = told
        .lines("access", "tokens")
        .into_iter()
        .filter(|line| line.0 == "warn")
        .map(|line| line.1)
        .collect();
    assert!(warned.iter().any(|found| found == "expired: old"), "{warned:?}");
    assert!(warned.iter().any(|found| found.ends_with("days: short")), "{warned:?}");
    drop(occupied);
    fs::write(&tokens, "not = 'tokens'").unwrap();
    let told = with(200, &[]);
    assert_eq!(told.exit, 78);
    told.says("configuration", "settings", "fail", "token file", "");
}

#[tokio::test]
async fn a_data_directory_that_does_not_fit_is_named() {
    let mut sidecar = Sidecar::start(Options::default()).await;
    assert!(sidecar.stop().await.success());
    let data = sidecar.data_dir();
    let home = Home::bare(&[]);
    let doctor = |more: &[&str]| home.doctor(&[&["--data-dir", path_str(&data)], more].concat());
    let told = doctor(&[]);
    assert_eq!((told.exit, told.count("fail")), (0, 0), "{}", told.text);
    mode(&data, 0o755);
    let told = doctor(&[]);
    told.says("data directory", "directory", "warn", "others may enter", "chmod 700");
    mode(&data, 0o700);
    let engine = data.join("engine.toml");
    let text = fs::read_to_string(&engine).unwrap();
    let newer: Vec<String> = text
        .lines()
        .map(|line| if line.starts_with("version") { "version = \"99.0.0\"".into() } else { line.to_owned() })
        .collect();
    fs::write(&engine, newer.join("\n")).unwrap();
    let told = doctor(&[]);
    assert_eq!(told.exit, 78);
    told.says("data directory", "server", "fail", "99.0.0", "");
    fs::write(&engine, text).unwrap();
    let told = doctor(&["--valkey-server", "/bin/sh"]);
    assert_eq!(told.exit, 78);
    told.says("data directory", "server", "fail", "not a server", "");
}
