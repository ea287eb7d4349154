//! Caps: policies and sends in one line each.

use pannier::proto::v1::{
    self, CapPolicy, ConsumeRequest, ConsumeResponse, cap_policy::Algorithm, consume_request::Mode,
};

use super::{
    Sidecar,
    small::{ms, rid},
};

pub use super::start;

/// ms
pub const DAY: u64 = 24 * 3600 * 1000;

pub fn fixed(limit: i32, window: u64) -> Algorithm {
    Algorithm::Fixed(v1::FixedWindow { limit, window: ms(window), time_zone: String::new() })
}

pub fn daily(limit: i32) -> Algorithm {
    Algorithm::Fixed(v1::FixedWindow { limit, window: None, time_zone: "America/Mexico_City".into() })
}

pub fn rolling(limit: i32, window: u64) -> Algorithm {
    Algorithm::Rolling(v1::RollingWindow { limit, window: ms(window) })
}

pub fn gcra(burst: i32, period: u64) -> Algorithm {
    Algorithm::Gcra(v1::Gcra { period: ms(period), burst })
}

pub fn unique(limit: i32, window: u64) -> Algorithm {
    Algorithm::Unique(v1::UniqueRecipients { limit, window: ms(window), unlimited: false })
}

pub fn policy(name: &str, algorithm: Algorithm) -> CapPolicy {
    CapPolicy { name: name.into(), algorithm: Some(algorithm), ..Default::default() }
}

pub fn set(policy: CapPolicy) -> v1::SetPolicyRequest {
    v1::SetPolicyRequest { request_id: rid(), policy: Some(policy), ..Default::default() }
}

pub async fn make(sidecar: &Sidecar, policy: CapPolicy) -> CapPolicy {
    sidecar.caps().set_policy(set(policy)).await.unwrap().into_inner().policy.unwrap()
}

pub async fn ask(sidecar: &Sidecar, request: ConsumeRequest) -> ConsumeResponse {
    sidecar.caps().consume(request).await.unwrap().into_inner()
}

pub async fn peek(sidecar: &Sidecar, policies: &[&str]) -> v1::PeekResponse {
    let policies = policies.iter().map(|name| (*name).to_owned()).collect();
    let request =
        v1::PeekRequest { policies, recipient: "someone".into(), sender: "me".into(), ..Default::default() };
    sidecar.caps().peek(request).await.unwrap().into_inner()
}

pub async fn used(sidecar: &Sidecar, policy: &str) -> i64 {
    peek(sidecar, &[policy]).await.policies[0].usage.as_ref().unwrap().used
}

pub fn confirm(send_id: &str) -> v1::ConfirmRequest {
    v1::ConfirmRequest { send_id: send_id.into(), request_id: rid(), ..Default::default() }
}

pub fn refund(send_id: &str) -> v1::RefundRequest {
    v1::RefundRequest { send_id: send_id.into(), request_id: rid(), ..Default::default() }
}

pub fn to(request: ConsumeRequest, recipient: &str) -> ConsumeRequest {
    ConsumeRequest { recipient: recipient.into(), ..request }
}

pub fn reserve(request: ConsumeRequest, ttl: u64) -> ConsumeRequest {
    ConsumeRequest { mode: Mode::Reserve.into(), reserve_ttl: ms(ttl), ..request }
}

/// Which kind of key it is: the byte behind the tag.
pub fn kind(key: &[u8]) -> u8 {
    let tag = key.iter().position(|byte| *byte == b'}').unwrap();
    key[tag + 2]
}
