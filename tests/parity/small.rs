//! Claims, conversations and caps.

use pannier::proto::v1::{self, cap_policy::Algorithm};
use serde_json::{Value, json};

use super::{
    Answer, World,
    terms::{Args, at, decode, decode_present, encode, ms, some, word},
};
use crate::support::small::{answered, rid};

pub async fn dedup(world: &World, call: &str, args: &mut Args) -> Answer {
    let (namespace, request_id) = (world.namespace.clone(), rid());
    let mut client = world.sidecar.dedup();
    let claimed = |args: &mut Args| {
        let name = args.text("claim");
        let number = |field: &str| world.results[&name][field].clone();
        (number("key").as_str().unwrap().to_owned(), number("fence").as_u64().unwrap())
    };
    match call {
        "claim" | "claim_once" => {
            let once = call == "claim_once";
            let request = v1::ClaimRequest {
                namespace,
                request_id,
                key: args.text("key"),
                fingerprint: args.bytes("fingerprint").into(),
                in_progress_ttl: args.duration("in_progress_ttl"),
                retention: args.duration(if once { "ttl" } else { "retention" }),
                complete: once,
            };
            let key = request.key.clone();
            let answer = answered(client.claim(request).await)?;
            let new = answer.outcome() == v1::claim_response::Outcome::New;
            Ok(if once { json!({ "claimed": new }) } else { claim(&key, &answer) })
        }
        "claim_batch" => {
            let items = args.list("items", |item| v1::ClaimItem {
                key: item.text("key"),
                fingerprint: item.bytes("fingerprint").into(),
            });
            let (in_progress_ttl, retention) = (args.duration("in_progress_ttl"), args.duration("retention"));
            let keys: Vec<_> = items.iter().map(|item| item.key.clone()).collect();
            let request = v1::ClaimBatchRequest {
                namespace,
                request_id,
                items,
                in_progress_ttl,
                retention,
                complete: false,
            };
            let answer = answered(client.claim_batch(request).await)?;
            let items: Vec<_> = keys.iter().zip(&answer.items).map(|(key, one)| claim(key, one)).collect();
            Ok(json!({ "items": items }))
        }
        "complete" => {
            let (key, fence) = claimed(args);
            let (result, retention) = (args.value("result").into(), args.duration("retention"));
            let request = v1::CompleteClaimRequest { namespace, request_id, key, fence, result, retention };
            let answer = answered(client.complete_claim(request).await)?;
            Ok(json!({ "outcome": word(answer.outcome().as_str_name(), "OUTCOME_") }))
        }
        "extend" => {
            let (key, fence) = claimed(args);
            let in_progress_ttl = args.duration("in_progress_ttl");
            let request = v1::ExtendClaimRequest { namespace, request_id, key, fence, in_progress_ttl };
            let answer = answered(client.extend_claim(request).await)?;
            Ok(json!({ "outcome": word(answer.outcome().as_str_name(), "OUTCOME_") }))
        }
        "release" => {
            let (key, fence) = claimed(args);
            let request = v1::ReleaseClaimRequest { namespace, request_id, key, fence };
            let answer = answered(client.release_claim(request).await)?;
            Ok(json!({ "outcome": word(answer.outcome().as_str_name(), "OUTCOME_") }))
        }
        _ => panic!("unknown call dedup.{call}"),
    }
}

fn claim(key: &str, answer: &v1::ClaimResponse) -> Value {
    json!({
        "key": key,
        "outcome": word(answer.outcome().as_str_name(), "OUTCOME_"),
        "fence": if answer.fence == 0 { Value::Null } else { json!(answer.fence) },
        "retry_after_ms": ms(answer.retry_after.as_ref()),
        "result": decode_present(&answer.result),
        "expires_at": at(answer.expires_at.as_ref()),
    })
}

pub async fn conversations(world: &World, call: &str, args: &mut Args) -> Answer {
    let (namespace, request_id) = (world.namespace.clone(), rid());
    let mut client = world.sidecar.conversations();
    match call {
        "get" => {
            let request = v1::GetConversationRequest { namespace, id: args.text("id") };
            Ok(state(answered(client.get_conversation(request).await)?.state))
        }
        "advance" => {
            use v1::advance_request::Expected;
            let steps = args.take("expected_steps").map(|steps| {
                let steps =
                    steps.as_array().unwrap().iter().map(|step| step.as_str().unwrap().to_owned()).collect();
                Expected::ExpectedSteps(v1::ExpectedSteps { steps })
            });
            let version = args.number("expected_version").map(Expected::ExpectedVersion);
            let set = args.object("fields");
            let request = v1::AdvanceRequest {
                namespace,
                request_id,
                id: args.text("id"),
                step: args.optional_text("step"),
                set: set.iter().map(|(name, value)| (name.clone(), encode(value).into())).collect(),
                unset: args.texts("unset"),
                replace: args.flag("replace"),
                ttl: args.duration("ttl"),
                max_age: args.duration("max_age"),
                expected: steps.or(version),
            };
            let answer = answered(client.advance(request).await)?;
            let outcome = word(answer.outcome().as_str_name(), "OUTCOME_");
            Ok(json!({ "outcome": outcome, "replayed": answer.replayed, "state": state(answer.state) }))
        }
        "touch" => {
            let (id, ttl) = (args.text("id"), args.duration("ttl"));
            let request = v1::TouchConversationRequest { namespace, request_id, id, ttl };
            Ok(state(answered(client.touch_conversation(request).await)?.state))
        }
        "reset" => {
            let request = v1::ResetConversationRequest { namespace, request_id, id: args.text("id") };
            Ok(json!({ "existed": answered(client.reset_conversation(request).await)?.existed }))
        }
        "list" => {
            let (mut found, mut cursor) = (Vec::new(), String::new());
            loop {
                let request = v1::ListConversationsRequest { namespace: namespace.clone(), cursor, limit: 0 };
                let page = answered(client.list_conversations(request).await)?;
                found.extend(page.conversations);
                cursor = page.cursor;
                if cursor.is_empty() {
                    break;
                }
            }
            found.sort_by(|a, b| a.id.cmp(&b.id));
            let found: Vec<_> = found
                .iter()
                .map(|one| json!({ "id": one.id, "step": one.step, "version": one.version, "fields": one.fields, "bytes": one.bytes }))
                .collect();
            Ok(json!({ "conversations": found }))
        }
        _ => panic!("unknown call conversations.{call}"),
    }
}

fn state(state: Option<v1::ConversationState>) -> Value {
    let state = state.expect("a state");
    let fields: serde_json::Map<_, _> =
        state.fields.iter().map(|(name, value)| (name.clone(), decode(value))).collect();
    json!({
        "exists": state.exists, "step": state.step, "version": state.version, "fields": fields,
        "started_at": at(state.started_at.as_ref()), "updated_at": at(state.updated_at.as_ref()),
        "expires_at": at(state.expires_at.as_ref()), "ends_at": at(state.ends_at.as_ref()),
    })
}

/// What stands for no limit.
const UNLIMITED: i64 = (1 << 53) - 1;

pub async fn caps(world: &World, call: &str, args: &mut Args) -> Answer {
    let (namespace, request_id) = (world.namespace.clone(), rid());
    let mut client = world.sidecar.caps();
    match call {
        "set_policy" => {
            let policy = Some(read_policy(args));
            let answer =
                answered(client.set_policy(v1::SetPolicyRequest { namespace, request_id, policy }).await)?;
            Ok(policy_of(&answer.policy.unwrap()))
        }
        "get_policy" => {
            let request = v1::GetPolicyRequest { namespace, name: args.text("name") };
            Ok(policy_of(&answered(client.get_policy(request).await)?.policy.unwrap()))
        }
        "list_policies" => {
            let answer = answered(client.list_policies(v1::ListPoliciesRequest { namespace }).await)?;
            Ok(json!({ "policies": answer.policies.iter().map(policy_of).collect::<Vec<_>>() }))
        }
        "delete_policy" => {
            let (name, revision) = (args.text("name"), args.number("revision").unwrap_or_default());
            let request = v1::DeletePolicyRequest { namespace, name, revision };
            Ok(json!({ "deleted": answered(client.delete_policy(request).await)?.deleted }))
        }
        "consume" => {
            let reserve_ttl = args.duration("reserve");
            let reserve = args.flag("reserve") || reserve_ttl.is_some();
            let mode = if reserve { v1::consume_request::Mode::Reserve.into() } else { 0 };
            let request = v1::ConsumeRequest {
                namespace,
                send_id: args.text("send_id"),
                policies: args.texts("policies"),
                recipient: args.text("recipient"),
                sender: args.text("sender"),
                n: args.number("n"),
                mode,
                reserve_ttl,
            };
            let answer = answered(client.consume(request).await)?;
            let counted: Vec<_> = answer.usage.iter().map(usage).collect();
            Ok(json!({
                "outcome": word(answer.outcome().as_str_name(), "OUTCOME_"),
                "usage": if counted.is_empty() { Value::Null } else { json!(counted) },
                "denied_by": some(&answer.denied_by),
                "retry_after_ms": ms(answer.retry_after.as_ref()),
                "state": word(answer.state().as_str_name(), "SEND_STATE_"),
                "reserved_until": at(answer.reserved_until.as_ref()),
                "failed_open": answer.failed_open,
            }))
        }
        "confirm" => {
            let request = v1::ConfirmRequest { namespace, request_id, send_id: args.text("send_id") };
            let answer = answered(client.confirm(request).await)?;
            Ok(json!({ "outcome": word(answer.outcome().as_str_name(), "OUTCOME_") }))
        }
        "refund" => {
            let request = v1::RefundRequest { namespace, request_id, send_id: args.text("send_id") };
            let answer = answered(client.refund(request).await)?;
            Ok(json!({ "outcome": word(answer.outcome().as_str_name(), "OUTCOME_") }))
        }
        "peek" => {
            let request = v1::PeekRequest {
                namespace,
                policies: args.texts("policies"),
                recipient: args.text("recipient"),
                sender: args.text("sender"),
                n: args.number("n"),
                unit: args.number("unit").unwrap_or_default(),
            };
            let answer = answered(client.peek(request).await)?;
            let policies: Vec<_> = answer.policies.iter().map(peeked).collect();
            Ok(
                json!({ "policies": policies, "service_window_until": at(answer.service_window_until.as_ref()) }),
            )
        }
        "note_inbound" => {
            let (recipient, sender) = (args.text("recipient"), args.text("sender"));
            let request = v1::NoteInboundRequest { namespace, request_id, recipient, sender };
            Ok(json!({ "open_until": at(answered(client.note_inbound(request).await)?.open_until.as_ref()) }))
        }
        _ => panic!("unknown call caps.{call}"),
    }
}

fn read_policy(args: &mut Args) -> v1::CapPolicy {
    let limit = |args: &mut Args| args.number("limit").unwrap_or_default();
    let algorithm = match args.text("algorithm").as_str() {
        "" => Algorithm::Preset(
            args.word("preset", "CAP_PRESET_", |name| Some(v1::CapPreset::from_str_name(name)?.into())),
        ),
        "fixed" => Algorithm::Fixed(v1::FixedWindow {
            limit: limit(args),
            window: args.duration("window"),
            time_zone: args.text("time_zone"),
        }),
        "rolling" => {
            Algorithm::Rolling(v1::RollingWindow { limit: limit(args), window: args.duration("window") })
        }
        "gcra" => Algorithm::Gcra(v1::Gcra {
            period: args.duration("period"),
            burst: args.number("burst").unwrap_or_default(),
        }),
        "unique" => Algorithm::Unique(v1::UniqueRecipients {
            limit: limit(args),
            window: args.duration("window"),
            unlimited: args.flag("unlimited"),
        }),
        other => panic!("unknown algorithm {other}"),
    };
    v1::CapPolicy {
        name: args.text("name"),
        scope: args.word("scope", "CAP_SCOPE_", |name| Some(v1::CapScope::from_str_name(name)?.into())),
        algorithm: Some(algorithm),
        fail_open: args.flag("fail_open"),
        ..Default::default()
    }
}

fn policy_of(policy: &v1::CapPolicy) -> Value {
    let mut made = json!({
        "name": policy.name, "scope": word(policy.scope().as_str_name(), "CAP_SCOPE_"), "fail_open": policy.fail_open,
        "revision": policy.revision, "updated_at": at(policy.updated_at.as_ref()), "from_config": policy.from_config,
    });
    let rule = match policy.algorithm.as_ref().unwrap() {
        Algorithm::Fixed(one) => {
            let zone = if one.window.is_some() {
                Value::Null
            } else {
                json!(if one.time_zone.is_empty() { "UTC" } else { one.time_zone.as_str() })
            };
            json!({ "algorithm": "fixed", "limit": one.limit, "window_ms": ms(one.window.as_ref()), "time_zone": zone })
        }
        Algorithm::Rolling(one) => {
            json!({ "algorithm": "rolling", "limit": one.limit, "window_ms": ms(one.window.as_ref()) })
        }
        Algorithm::Gcra(one) => {
            json!({ "algorithm": "gcra", "burst": one.burst, "period_ms": ms(one.period.as_ref()) })
        }
        Algorithm::Unique(one) => {
            let limit = if one.unlimited { Value::Null } else { json!(one.limit) };
            json!({ "algorithm": "unique", "limit": limit, "window_ms": ms(one.window.as_ref()) })
        }
        Algorithm::Preset(_) => panic!("a reply spells presets out"),
    };
    made.as_object_mut().unwrap().extend(rule.as_object().unwrap().clone());
    made
}

fn usage(usage: &v1::CapUsage) -> Value {
    json!({
        "policy": usage.policy,
        "limit": if usage.limit == 0 { Value::Null } else { json!(usage.limit) },
        "used": usage.used,
        "remaining": if usage.remaining == UNLIMITED { Value::Null } else { json!(usage.remaining) },
        "reset_at": at(usage.reset_at.as_ref()),
    })
}

fn peeked(peek: &v1::CapPeek) -> Value {
    let mut made = usage(peek.usage.as_ref().unwrap());
    made["never"] = json!(peek.never);
    made["retry_after_ms"] = ms(Some(&peek.retry_after.unwrap_or_default()));
    made["unit_after_ms"] = ms(peek.unit_after.as_ref());
    made
}
