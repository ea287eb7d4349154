//! Tokens, certificates and calls of any RPC, for the tests of who may do what.

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use bytes::{Buf as _, BufMut as _, Bytes};
use pannier::proto::FILE_DESCRIPTOR_SET;
use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorSet};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

use super::{Options, Sidecar, pannier, path_str, short_temp_dir};

/// One RPC, with a request in which only the namespace stands.
pub struct Rpc {
    pub path: String,
    pub service: String,
    /// Either way.
    pub streams: bool,
    /// Fields on the way to the namespace; None: it names none.
    place: Option<Vec<u32>>,
}

impl Rpc {
    /// A request in this namespace.
    pub fn request(&self, namespace: &str) -> Bytes {
        let mut message = Vec::new();
        for (n, field) in self.place.iter().flatten().rev().enumerate() {
            let value = if n == 0 { namespace.as_bytes().to_vec() } else { message };
            message = Vec::new();
            prost::encoding::bytes::encode(*field, &value, &mut message);
        }
        message.into()
    }

    /// As the service calls it.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap()
    }

    pub fn is_namespaced(&self) -> bool {
        self.place.is_some()
    }

    pub fn is_pipe(&self) -> bool {
        self.service == "PipeService"
    }
}

/// Every RPC that the protos have, with a request for each; that of the pipe is a claim.
pub fn all_rpcs() -> Vec<Rpc> {
    let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap().file;
    let messages: Vec<(String, DescriptorProto)> = files
        .iter()
        .flat_map(|file| {
            file.message_type.iter().map(|m| (format!(".{}.{}", file.package(), m.name()), m.clone()))
        })
        .collect();
    let mut rpcs = Vec::new();
    for file in files.iter().filter(|file| file.package().starts_with("pannier")) {
        for service in &file.service {
            for method in &service.method {
                rpcs.push(Rpc {
                    path: format!("/{}.{}/{}", file.package(), service.name(), method.name()),
                    service: service.name().to_owned(),
                    streams: method.client_streaming() || method.server_streaming(),
                    place: place(method.input_type(), &messages, 1),
                });
            }
        }
    }
    assert!(rpcs.len() >= 50, "{} RPCs", rpcs.len());
    rpcs
}

fn place(message: &str, all: &[(String, DescriptorProto)], depth: u32) -> Option<Vec<u32>> {
    let message = &all.iter().find(|(name, _)| name == message)?.1;
    let number = |of: &prost_types::FieldDescriptorProto| u32::try_from(of.number()).unwrap();
    if let Some(field) = message.field.iter().find(|field| field.name() == "namespace") {
        return Some(vec![number(field)]);
    }
    (depth > 0).then_some(())?;
    message
        .field
        .iter()
        .find_map(|field| Some([vec![number(field)], place(field.type_name(), all, depth - 1)?].concat()))
}

/// Bytes as they are.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;
    fn encoder(&mut self) -> Self {
        Self
    }
    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;
    fn encode(&mut self, item: Bytes, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buf.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;
    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buf.copy_to_bytes(buf.remaining())))
    }
}

/// Calls any RPC with one message and gives the first that comes back; none is an empty one. Ends after 5 s.
pub async fn call(
    channel: &Channel,
    path: &str,
    token: Option<&str>,
    message: Bytes,
) -> Result<Bytes, Status> {
    let mut request = Request::new(tokio_stream::iter([message]));
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let mut grpc = Grpc::new(channel.clone());
    let calling = async {
        grpc.ready().await.map_err(|error| Status::unavailable(format!("{error:?}")))?;
        let mut answers = grpc.streaming(request, path.parse().unwrap(), Raw).await?.into_inner();
        Ok(answers.message().await?.unwrap_or_default())
    };
    tokio::time::timeout(Duration::from_secs(5), calling)
        .await
        .unwrap_or_else(|_| Err(Status::deadline_exceeded("the test's")))
}

/// Whether it was kept out, and not for another reason.
pub fn is_refused(answer: &Result<Bytes, Status>) -> bool {
    matches!(answer, Err(status) if matches!(status.code(), Code::Unauthenticated | Code::PermissionDenied))
}

/// `ErrorInfo.metadata.scope`.
pub fn missing_scope(status: &Status) -> String {
    let info = tonic_types::StatusExt::get_details_error_info(status).expect("no ErrorInfo");
    info.metadata.get("scope").cloned().unwrap_or_default()
}

/// A file of tokens.
pub struct TokenFile {
    pub path: PathBuf,
}

impl TokenFile {
    pub fn new(options: &Options) -> Self {
        Self { path: options.dir.as_ref().unwrap().path().join("tokens.toml") }
    }

    /// Makes a token.
    pub fn add(&self, name: &str, scopes: &str) -> String {
        self.add_until(name, scopes, "1h")
    }

    pub fn add_until(&self, name: &str, scopes: &str, expires: &str) -> String {
        let file = path_str(&self.path);
        let made =
            pannier(&["tokens", "add", name, "--scope", scopes, "--expires", expires, "--token-file", file]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    }

    pub fn remove(&self, name: &str) {
        let removed = pannier(&["tokens", "remove", name, "--token-file", path_str(&self.path)]);
        assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    }
}

/// Options with a directory and a TCP port of its own.
pub fn on_tcp() -> (Options, TokenFile) {
    let options = Options { dir: Some(short_temp_dir()), ..Options::default() };
    let tokens = TokenFile::new(&options);
    let options = options.arg("--listen=127.0.0.1:0").arg(format!("--token-file={}", tokens.path.display()));
    (options, tokens)
}

/// Where it listens on TCP.
pub fn tcp_address(sidecar: &Sidecar) -> SocketAddr {
    let logs = sidecar.logs();
    let line =
        logs.lines().rfind(|line| line.contains("listening on TCP")).expect("no TCP listener in the log");
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    line["address"].as_str().unwrap().parse().unwrap()
}

/// A channel over TCP, in clear.
pub fn plain(sidecar: &Sidecar) -> Channel {
    Endpoint::from_shared(format!("http://{}", tcp_address(sidecar))).unwrap().connect_lazy()
}

/// A channel over TLS.
pub fn secure(sidecar: &Sidecar, ca: &Authority, identity: Option<&Leaf>) -> Channel {
    let mut tls =
        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca.pem())).domain_name("pannier.test");
    if let Some(leaf) = identity {
        tls = tls.identity(Identity::from_pem(&leaf.cert, &leaf.key));
    }
    Endpoint::from_shared(format!("https://{}", tcp_address(sidecar)))
        .unwrap()
        .tls_config(tls)
        .unwrap()
        .connect_lazy()
}

/// Signs certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, PEM.
pub struct Leaf {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// For `pannier.test`.
    pub fn server(&self) -> Leaf {
        self.leaf(ExtendedKeyUsagePurpose::ServerAuth, false)
    }

    pub fn client(&self) -> Leaf {
        self.leaf(ExtendedKeyUsagePurpose::ClientAuth, false)
    }

    pub fn expired_client(&self) -> Leaf {
        self.leaf(ExtendedKeyUsagePurpose::ClientAuth, true)
    }

    fn leaf(&self, usage: ExtendedKeyUsagePurpose, expired: bool) -> Leaf {
        let mut params = CertificateParams::new(vec!["pannier.test".into(), "127.0.0.1".into()]).unwrap();
        params.extended_key_usages = vec![usage];
        if expired {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        Leaf { cert: cert.pem(), key: key.serialize_pem() }
    }
}

/// Files of certificates in the sidecar's directory, and the options that name them.
pub struct Files {
    pub cert: PathBuf,
    pub key: PathBuf,
    pub client_ca: PathBuf,
}

impl Files {
    pub fn new(options: &Options) -> Self {
        let dir = options.dir.as_ref().unwrap().path();
        Self { cert: dir.join("cert.pem"), key: dir.join("key.pem"), client_ca: dir.join("ca.pem") }
    }

    pub fn write(&self, leaf: &Leaf, client_ca: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        fs::write(&self.cert, &leaf.cert).unwrap();
        fs::write(&self.key, &leaf.key).unwrap();
        fs::set_permissions(&self.key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&self.client_ca, client_ca).unwrap();
    }

    pub fn server_args(&self) -> Vec<String> {
        vec![format!("--tls-cert={}", self.cert.display()), format!("--tls-key={}", self.key.display())]
    }

    pub fn client_ca_arg(&self) -> String {
        format!("--tls-client-ca={}", self.client_ca.display())
    }
}
