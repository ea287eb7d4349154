//! Who may see what goes on: the admin port, and where traces go.

use super::{ConfigError, host_and_port, places::has_password, reader::Reader};
use crate::telemetry::Traces;

/// What is told, and to whom.
#[derive(Clone, Debug, Default)]
pub struct Observe {
    /// The admin port.
    pub admin: Option<Place>,
    /// Traces.
    pub otlp: Option<Otlp>,
}

/// A TCP port.
#[derive(Clone, Debug)]
pub struct Place {
    /// An address or a name.
    pub host: String,
    /// 0: any that is free.
    pub port: u16,
}

/// A collector of traces.
#[derive(Clone, Debug)]
pub struct Otlp {
    /// Its URL.
    pub endpoint: String,
    /// The share of calls that are traced.
    pub ratio: f64,
}

impl Reader {
    pub(super) fn observe(&self) -> Result<Observe, ConfigError> {
        let admin = self.parse("admin", host_and_port)?.map(|(host, port)| Place { host, port });
        let endpoint = self.parse("otlp-endpoint", endpoint)?;
        self.refuse_idle("otlp-ratio", endpoint.is_some(), "--otlp-endpoint")?;
        let ratio = self.parse("otlp-ratio", ratio)?.unwrap_or(1.0);
        Ok(Observe { admin, otlp: endpoint.map(|endpoint| Otlp { endpoint, ratio }) })
    }
}

fn endpoint(text: &str) -> Result<String, String> {
    if !Traces::AVAILABLE {
        return Err("this build has no traces: build it with the feature `otlp`".to_owned());
    }
    let wanted = "it must look like http://127.0.0.1:4317";
    // Not repeated: it may hold a password.
    let url: http::Uri = text.parse().map_err(|_| format!("it is no URL; {wanted}"))?;
    if has_password(text) || text.contains('@') {
        return Err(
            "it holds a user or a password, which every user of this machine can read: give what the collector asks for in \
             OTEL_EXPORTER_OTLP_HEADERS"
                .to_owned(),
        );
    }
    match (url.scheme_str(), url.host()) {
        (Some("http" | "https"), Some(_)) => Ok(text.to_owned()),
        _ => Err(format!("it is no URL of a collector; {wanted}")),
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio: f64 = text.parse().map_err(|_| "a number from 0 to 1".to_owned())?;
    if (0.0..=1.0).contains(&ratio) { Ok(ratio) } else { Err("a number from 0 to 1".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_without_a_password_and_is_not_repeated() {
        if Traces::AVAILABLE {
            assert_eq!(endpoint("http://127.0.0.1:4317").unwrap(), "http://127.0.0.1:4317");
        }
        for wrong in
            ["127.0.0.1:4317", "grpc://host", "http://u:s3cret@host:4317", "http://s3cret@host", "", "/x"]
        {
            let why = endpoint(wrong).unwrap_err();
            assert!(!why.contains("s3cret"), "{why}");
        }
        assert_eq!(ratio("0.25"), Ok(0.25));
        for wrong in ["-1", "1.5", "NaN", "many"] {
            assert!(ratio(wrong).is_err(), "{wrong}");
        }
    }
}
