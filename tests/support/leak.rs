//! Looks for what must not show: in key names, in what Valkey was told, in its files, in the sidecar's log.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};

use super::{Sidecar, Valkey};

/// The forms in which a canary might show: as it is, in hex, in base64 at each of the three offsets.
pub fn forms(canary: &[u8]) -> Vec<Vec<u8>> {
    let hex = canary.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let mut forms = vec![canary.to_vec(), hex.clone().into_bytes(), hex.to_uppercase().into_bytes()];
    for offset in 0..3 {
        let padded = [&vec![0; offset], canary].concat();
        let encoded = STANDARD_NO_PAD.encode(padded);
        // The characters that mix with what stands before and after are left out.
        let from = [0, 2, 3][offset];
        let form = &encoded[from..encoded.len() - 2];
        forms.push(form.as_bytes().to_vec());
        forms.push(form.replace('+', "-").replace('/', "_").into_bytes());
    }
    forms
}

/// MONITOR's transcript, with its escapes undone.
pub fn monitor(valkey: &Valkey) -> Arc<Mutex<Vec<u8>>> {
    let transcript = Arc::new(Mutex::new(Vec::new()));
    let mut socket = UnixStream::connect(valkey.socket()).unwrap();
    socket.write_all(b"MONITOR\r\n").unwrap();
    std::thread::spawn({
        let transcript = transcript.clone();
        move || {
            let mut lines = BufReader::new(socket);
            let mut line = Vec::new();
            while matches!(lines.read_until(b'\n', &mut line), Ok(1..)) {
                transcript.lock().unwrap().extend(unescape(&line));
                line.clear();
            }
        }
    });
    transcript
}

pub fn unescape(line: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, rest.split_first()) {
            (b'\\', Some((b'x', after))) => {
                let hex = std::str::from_utf8(&after[..2]).unwrap();
                out.push(u8::from_str_radix(hex, 16).unwrap());
                rest = &after[2..];
            }
            // A quote, a backslash, or a control character, of which the canaries have none.
            (b'\\', Some((escaped, after))) => {
                out.push(*escaped);
                rest = after;
            }
            _ => out.push(byte),
        }
    }
    out
}

pub fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(walk(&path));
        } else if path.is_file() {
            found.push(path);
        }
    }
    found
}

/// What MONITOR has seen since, for [`Watch::assert_nowhere`].
pub struct Watch {
    transcript: Arc<Mutex<Vec<u8>>>,
}

impl Watch {
    pub fn begin(valkey: &Valkey) -> Self {
        Self { transcript: monitor(valkey) }
    }

    /// None of the canaries is in MONITOR's transcript, Valkey's files, its key names or the sidecar's log, in any form; and the
    /// search finds what is there.
    pub fn assert_nowhere(&self, valkey: &Valkey, sidecar: &Sidecar, canaries: &[&str]) {
        let _: String = valkey.command(&["SAVE"]);
        let names: Vec<Vec<u8>> = valkey.command(&["KEYS", "*"]);
        let mut places = vec![("key names".to_owned(), names.concat())];
        for file in walk(valkey.dir.path()) {
            places.push((file.display().to_string(), std::fs::read(&file).unwrap()));
        }
        std::thread::sleep(std::time::Duration::from_millis(300));
        let transcript = self.transcript.lock().unwrap().clone();
        assert!(String::from_utf8_lossy(&transcript).contains("EVALSHA"), "MONITOR saw nothing");
        places.push(("MONITOR".to_owned(), transcript));
        places.push(("the log".to_owned(), sidecar.logs().into_bytes()));
        for canary in canaries {
            for (n, form) in forms(canary.as_bytes()).into_iter().enumerate() {
                for (place, bytes) in &places {
                    assert!(!contains(bytes, &form), "{canary} is in {place} (form {n})");
                }
            }
        }
        assert!(contains(&places.last().unwrap().1, b"DEBUG"), "the log has it all");
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}
