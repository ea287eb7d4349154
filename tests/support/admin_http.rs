//! The admin port as a scraper and a prober see it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::Sidecar;

/// Where a sidecar's admin port is, as its log says; the last start counts.
pub fn address(sidecar: &Sidecar) -> String {
    let logs = sidecar.logs();
    let line =
        logs.lines().rfind(|line| line.contains("metrics, /livez and /readyz")).expect("no admin port");
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    line["address"].as_str().unwrap().to_owned()
}

/// One answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// Sends `request` as it is and reads all there is; None when the connection is refused or broken.
pub async fn raw(address: &str, request: &str) -> Option<Answer> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text).await.ok()?;
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Answer { status, head: head.to_lowercase(), body: body.to_owned() })
    };
    timeout(Duration::from_secs(12), exchange).await.expect("an answer within the admin port's own bound")
}

pub async fn get(address: &str, path: &str) -> Answer {
    raw(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")).await.expect("no answer")
}

/// Waits until /readyz answers so; gives how long that took and what it said.
pub async fn wait_ready(address: &str, status: u16, within: Duration) -> (Duration, String) {
    let begin = Instant::now();
    loop {
        let answer = get(address, "/readyz").await;
        if answer.status == status {
            return (begin.elapsed(), answer.body);
        }
        assert!(begin.elapsed() < within, "/readyz says {answer:?} after {within:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What /metrics said.
pub struct Metrics {
    pub text: String,
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

pub async fn metrics(address: &str) -> Metrics {
    let answer = get(address, "/metrics").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    Metrics::parse(answer.body)
}

impl Metrics {
    fn parse(text: String) -> Self {
        let samples =
            text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(sample).collect();
        Self { text, samples }
    }

    /// The sum of a metric over all its series that have these labels; None when there is no such series.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let fits = |having: &BTreeMap<String, String>| {
            labels.iter().all(|(label, value)| having.get(*label).is_some_and(|has| has == value))
        };
        self.samples
            .iter()
            .filter(|(its, having, _)| its == name && fits(having))
            .map(|(.., value)| *value)
            .reduce(|a, b| a + b)
    }

    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.sum(name, labels).unwrap_or_else(|| panic!("no {name} with {labels:?} in\n{}", self.text))
    }

    /// The names, as queries use them.
    pub fn names(&self) -> std::collections::BTreeSet<&str> {
        self.samples.iter().map(|(name, ..)| name.as_str()).collect()
    }

    /// How many series there are.
    pub fn series(&self) -> usize {
        self.samples.len()
    }

    /// The values that a label has.
    pub fn values_of(&self, label: &str) -> std::collections::BTreeSet<&str> {
        self.samples.iter().filter_map(|(_, labels, _)| labels.get(label).map(String::as_str)).collect()
    }
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    let (name, labels) = series.split_once('{').map_or((series, ""), |(name, labels)| {
        (name, labels.strip_suffix('}').unwrap_or_else(|| panic!("no labels: {line}")))
    });
    let labels = labels.split("\",").filter(|label| !label.is_empty()).map(|label| {
        let (name, value) = label.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
        (name.to_owned(), value.trim_end_matches('"').to_owned())
    });
    (name.to_owned(), labels.collect(), value)
}
