//! Conversations, and what one is in the mind of its user.

use std::collections::{BTreeMap, HashMap};

use pannier::proto::v1::{
    self, AdvanceRequest, ConversationState, advance_request::Expected, advance_response::Outcome,
};

use super::{
    World, operations,
    support::small::{advance, at_ms, get, ms, reset, touch, wait_ms},
};

#[derive(Clone, Debug, PartialEq)]
struct Chat {
    version: u64,
    started: u64,
    updated: u64,
    expires: u64,
    ceiling: u64,
    step: String,
    fields: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, Debug, Default)]
struct Id {
    chat: Option<Chat>,
    last_version: u64,
    /// Newest first: the request, what it did.
    requests: Vec<(String, &'static str)>,
}

#[derive(PartialEq)]
enum Now {
    Idle,
    Talking,
    Ceiling,
}

impl Id {
    fn now(&self, now: u64) -> Now {
        match &self.chat {
            None => Now::Idle,
            Some(chat) if now >= chat.expires => Now::Idle,
            Some(chat) if chat.ceiling > 0 && now >= chat.ceiling => Now::Ceiling,
            Some(_) => Now::Talking,
        }
    }

    fn shown(&self, now: u64) -> Option<Chat> {
        (self.now(now) == Now::Talking).then(|| self.chat.clone().unwrap())
    }

    fn did(&self, request: &str) -> Option<&'static str> {
        self.requests.iter().find(|(id, _)| id == request).map(|(_, did)| *did)
    }

    fn remember(&mut self, request: &str, did: &'static str) {
        if did == "touch" && self.requests.first().is_some_and(|(_, did)| *did == "touch") {
            self.requests.remove(0);
        }
        self.requests.insert(0, (request.to_owned(), did));
        self.requests.truncate(4);
    }
}

fn shown(state: Option<ConversationState>) -> Option<Chat> {
    let state = state.unwrap();
    if !state.exists {
        assert_eq!(state, ConversationState { step: "idle".into(), ..Default::default() });
        return None;
    }
    Some(Chat {
        version: state.version,
        started: at_ms(state.started_at),
        updated: at_ms(state.updated_at),
        expires: at_ms(state.expires_at),
        ceiling: at_ms(state.ends_at),
        step: state.step,
        fields: state.fields.into_iter().map(|(name, value)| (name, value.to_vec())).collect(),
    })
}

/// Outcome, state, replayed.
fn expected(id: &mut Id, now: u64, ask: &AdvanceRequest) -> (Outcome, Option<Chat>, bool) {
    match id.did(&ask.request_id) {
        Some("ceiling") => return (Outcome::Ceiling, id.shown(now), true),
        Some(_) => return (Outcome::Advanced, id.shown(now), true),
        None => {}
    }
    if id.now(now) == Now::Ceiling {
        id.chat = None;
        id.remember(&ask.request_id, "ceiling");
        return (Outcome::Ceiling, None, false);
    }
    let old = id.shown(now);
    let holds = match &ask.expected {
        None => true,
        Some(Expected::ExpectedVersion(version)) => *version == old.as_ref().map_or(0, |chat| chat.version),
        Some(Expected::ExpectedSteps(steps)) => {
            steps.steps.contains(&old.as_ref().map_or("idle".to_owned(), |chat| chat.step.clone()))
        }
    };
    if !holds {
        return (Outcome::Conflict, old, false);
    }
    let mut next = old.clone().unwrap_or(Chat {
        version: 0,
        started: now,
        updated: now,
        expires: 0,
        ceiling: 0,
        step: "idle".into(),
        fields: BTreeMap::new(),
    });
    next.version = if old.is_some() { next.version + 1 } else { (id.last_version + 1).max(now) };
    next.updated = now;
    next.expires = now + wait_ms(ask.ttl);
    if let Some(age) = ask.max_age {
        next.ceiling = next.started + wait_ms(Some(age));
    }
    if ask.replace {
        next.fields.clear();
    }
    next.fields.retain(|name, _| !ask.unset.contains(name));
    next.fields.extend(ask.set.iter().map(|(name, value)| (name.clone(), value.to_vec())));
    if let Some(step) = &ask.step {
        next.step.clone_from(step);
    }
    id.last_version = next.version;
    id.chat = Some(next.clone());
    id.remember(&ask.request_id, "advance");
    (Outcome::Advanced, Some(next), false)
}

#[tokio::test]
async fn conversations_do_what_their_model_does() {
    let mut world = World::begin().await;
    let mut client = world.sidecar.conversations();
    let mut ids: HashMap<&str, Id> = HashMap::new();
    let mut asked: Vec<(&str, AdvanceRequest)> = Vec::new();
    let mut resets: Vec<(&str, v1::ResetConversationRequest)> = Vec::new();
    let mut seen = [0; 3];
    for step in 0..operations() {
        let name = world.pick(&["a", "b*", "{c}:d"]);
        let now = world.now;
        let again = world.random(6) == 0;
        match world.random(12) {
            0..=5 => {
                let version = ids.get(name).map_or(0, |id| id.last_version);
                let expected_of = match world.random(6) {
                    0 => Some(Expected::ExpectedVersion(version)),
                    1 => Some(Expected::ExpectedVersion(0)),
                    2 => Some(Expected::ExpectedSteps(v1::ExpectedSteps {
                        steps: vec!["s1".into(), "idle".into()],
                    })),
                    _ => None,
                };
                let field = |world: &mut World| format!("f{}", world.random(4));
                let mut request = AdvanceRequest {
                    ttl: ms(1 + world.random(100)),
                    max_age: (world.random(4) == 0).then(|| ms(1 + world.random(150)).unwrap()),
                    step: (world.random(2) == 0).then(|| format!("s{}", world.random(3))),
                    replace: world.random(8) == 0,
                    expected: expected_of,
                    ..advance(name)
                };
                for _ in 0..world.random(3) {
                    let value = vec![b'v'; usize::try_from(world.random(600)).unwrap()];
                    request.set.insert(field(&mut world), value.into());
                }
                let unset = field(&mut world);
                if world.random(3) == 0 && !request.set.contains_key(&unset) {
                    request.unset.push(unset);
                }
                let mut of = name;
                if again && !asked.is_empty() {
                    (of, request) = world.pick(&asked[asked.len().saturating_sub(5)..]);
                }
                let wanted = expected(ids.entry(of).or_default(), now, &request);
                let answer = client.advance(request.clone()).await.unwrap().into_inner();
                let outcome = answer.outcome();
                assert_eq!((outcome, shown(answer.state), answer.replayed), wanted, "{step}");
                seen[outcome as usize - 1] += 1;
                asked.push((of, request));
            }
            6 | 7 => {
                let state = client.get_conversation(get(name)).await.unwrap().into_inner().state;
                assert_eq!(shown(state), ids.entry(name).or_default().shown(now), "{step}");
            }
            8 => {
                let request = v1::TouchConversationRequest { ttl: ms(1 + world.random(100)), ..touch(name) };
                let id = ids.entry(name).or_default();
                if id.now(now) == Now::Talking {
                    id.chat.as_mut().unwrap().expires = now + wait_ms(request.ttl);
                    id.remember(&request.request_id, "touch");
                }
                let answer = client.touch_conversation(request).await.unwrap().into_inner();
                assert_eq!(shown(answer.state), id.shown(now), "{step}");
            }
            9 => {
                let (mut of, mut request) = (name, reset(name));
                if again && !resets.is_empty() {
                    (of, request) = world.pick(&resets[resets.len().saturating_sub(3)..]);
                }
                let id = ids.entry(of).or_default();
                let wanted = match id.did(&request.request_id) {
                    Some(did) => (did == "reset", true),
                    None => {
                        let existed = id.now(now) == Now::Talking;
                        id.chat = None;
                        id.remember(&request.request_id, if existed { "reset" } else { "reset none" });
                        (existed, false)
                    }
                };
                let answer = client.reset_conversation(request.clone()).await.unwrap().into_inner();
                assert_eq!((answer.existed, answer.replayed), wanted, "{step}");
                resets.push((of, request));
            }
            _ => {
                let ms = world.random(50);
                world.advance(ms);
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 20), "every outcome came up: {seen:?}");
    world.assert_ttls();
}

#[tokio::test]
async fn silence_and_ceiling_end_a_conversation_to_the_millisecond() {
    let mut world = World::begin().await;
    let mut client = world.sidecar.conversations();
    let mut exists =
        async |id: &str| client.get_conversation(get(id)).await.unwrap().into_inner().state.unwrap().exists;
    let begin = AdvanceRequest { ttl: ms(2000), max_age: ms(3000), ..advance("chat") };
    world.sidecar.conversations().advance(begin.clone()).await.unwrap();
    world.advance(1999);
    assert!(exists("chat").await);
    world.advance(1);
    assert!(!exists("chat").await);
    let begin = AdvanceRequest { request_id: super::support::small::rid(), ttl: ms(60_000), ..begin };
    world.sidecar.conversations().advance(begin).await.unwrap();
    let on = || AdvanceRequest { ttl: ms(60_000), ..advance("chat") };
    world.advance(2999);
    let answer = world.sidecar.conversations().advance(on()).await.unwrap().into_inner();
    assert_eq!(answer.outcome(), Outcome::Advanced);
    world.advance(1);
    assert!(!exists("chat").await);
    let answer = world.sidecar.conversations().advance(on()).await.unwrap().into_inner();
    assert_eq!(answer.outcome(), Outcome::Ceiling);
    let answer = world.sidecar.conversations().advance(on()).await.unwrap().into_inner();
    assert_eq!((answer.outcome(), at_ms(answer.state.unwrap().started_at)), (Outcome::Advanced, world.now));
    world.assert_ttls();
}
