//! One table of scenarios, run over every client: the same calls have the same outcomes. Here over the generated code, which says what
//! the wire says. See tests/parity/README.md.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "parity/large.rs"]
mod large;
#[path = "parity/schedule.rs"]
mod schedule;
#[path = "parity/small.rs"]
mod small;
mod support;
#[path = "parity/terms.rs"]
mod terms;

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Map, Value, json};
use support::{Sidecar, attach::Refused};
use terms::Args;

/// What a call gave, as the table has it.
pub type Answer = Result<Value, Refused>;

/// What a scenario's calls are made with.
pub struct World {
    pub sidecar: Sidecar,
    pub namespace: String,
    /// What the steps with a name gave.
    pub results: Map<String, Value>,
}

#[tokio::test]
async fn the_wire_does_as_the_table_says() {
    let (_valkey, sidecar) = support::start().await;
    let table: Value = serde_json::from_str(include_str!("parity/scenarios.json")).unwrap();
    let scenarios = table["scenarios"].as_array().unwrap();
    let mut world = World { sidecar, namespace: String::new(), results: Map::new() };
    let (mut ran, mut steps, mut wrong) = (BTreeSet::new(), 0, Vec::new());
    for (number, scenario) in scenarios.iter().enumerate() {
        let name = scenario["name"].as_str().unwrap();
        assert_eq!(scenario.as_object().unwrap().len(), 2, "{name}: has more than a name and steps");
        world.namespace = format!("scenario {number}");
        world.results.clear();
        let list = scenario["steps"].as_array().unwrap();
        assert!(!list.is_empty(), "{name}");
        for (n, step) in list.iter().enumerate() {
            steps += 1;
            if let Err(why) = play(&mut world, step).await {
                wrong.push(format!("{name}: step {n}: {step}\n  {why}"));
                break;
            }
        }
        assert!(ran.insert(name), "{name} is there twice");
    }
    assert!(wrong.is_empty(), "{} scenarios failed:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(ran.len(), scenarios.len());
    assert!(ran.len() >= 50 && steps >= 400, "{} scenarios, {steps} steps", ran.len());
    println!("{} scenarios, {steps} steps", ran.len());
}

async fn play(world: &mut World, step: &Value) -> Result<(), String> {
    let step = step.as_object().unwrap();
    if let Some(wait) = step.get("wait_ms") {
        assert_eq!(step.len(), 1);
        tokio::time::sleep(Duration::from_millis(wait.as_u64().unwrap())).await;
        return Ok(());
    }
    let known = ["call", "with", "gives", "error", "as", "not_in"];
    assert!(step.keys().all(|key| known.contains(&key.as_str())), "{step:?}");
    assert_ne!(step.contains_key("gives"), step.contains_key("error"), "{step:?}");
    if step.get("not_in").is_some_and(|clients| clients.as_array().unwrap().contains(&json!("rust"))) {
        return Ok(());
    }
    let mut args = Args::of(said(step.get("with").unwrap_or(&json!({})), &world.results));
    let (area, call) = step["call"].as_str().unwrap().split_once('.').unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(30), async {
        match area {
            "dedup" => small::dedup(world, call, &mut args).await,
            "conversations" => small::conversations(world, call, &mut args).await,
            "caps" => small::caps(world, call, &mut args).await,
            "schedule" => schedule::schedule(world, call, &mut args).await,
            "blobs" => large::blobs(world, call, &mut args).await,
            "sessions" => large::sessions(world, call, &mut args).await,
            _ => panic!("unknown call {area}.{call}"),
        }
    });
    let answer = answer.await.expect("an answer");
    args.done();
    match (answer, step.get("error")) {
        (Err(refused), Some(error)) => {
            let mut found = json!({ "reason": refused.reason });
            if let Some(field) = refused.fields.first() {
                found["field"] = json!(field);
            }
            if found == *error { Ok(()) } else { Err(format!("{found}: {}", refused.message)) }
        }
        (Ok(result), None) => {
            let mut wrong = Vec::new();
            differences(&wanted(&step["gives"], &world.results), &result, "", &mut wrong);
            if let Some(name) = step.get("as") {
                world.results.insert(name.as_str().unwrap().to_owned(), result.clone());
            }
            if wrong.is_empty() { Ok(()) } else { Err(format!("{}\n  {result}", wrong.join("; "))) }
        }
        (answer, _) => Err(format!("{answer:?}")),
    }
}

/// An argument of the table. Bytes stay as they are written there.
fn said(value: &Value, results: &Map<String, Value>) -> Value {
    if let Value::Object(object) = value
        && let (Some(text), Some(times)) = (object.get("repeat"), object.get("times"))
    {
        return json!(text.as_str().unwrap().repeat(usize::try_from(times.as_u64().unwrap()).unwrap()));
    }
    mapped(value, results, said)
}

/// An expectation of the table, with what earlier steps gave.
fn wanted(value: &Value, results: &Map<String, Value>) -> Value {
    mapped(value, results, wanted)
}

fn mapped(
    value: &Value,
    results: &Map<String, Value>,
    change: fn(&Value, &Map<String, Value>) -> Value,
) -> Value {
    match value {
        Value::Array(list) => list.iter().map(|one| change(one, results)).collect(),
        Value::Object(object) => match object.get("ref") {
            Some(path) if object.len() == 1 => {
                let mut path = path.as_str().unwrap().split('.');
                path.clone()
                    .skip(1)
                    .fold(results[path.next().unwrap()].clone(), |found, name| found[name].clone())
            }
            _ => object.iter().map(|(name, one)| (name.clone(), change(one, results))).collect(),
        },
        other => other.clone(),
    }
}

/// Where what came is not what the table says. What the table does not name is not compared.
fn differences(want: &Value, have: &Value, path: &str, wrong: &mut Vec<String>) {
    match want {
        Value::Array(list) => match have.as_array() {
            Some(found) if found.len() == list.len() => {
                for (n, (want, have)) in list.iter().zip(found).enumerate() {
                    differences(want, have, &format!("{path}[{n}]"), wrong);
                }
            }
            _ => wrong.push(format!("{path}: {have} has not {} items", list.len())),
        },
        Value::Object(object) => {
            let fits = if let Some(exact) = object.get("exactly") {
                exact == have
            } else if object.contains_key("any") {
                !have.is_null()
            } else if let Some(part) = object.get("contains") {
                have.as_str().is_some_and(|text| text.contains(part.as_str().unwrap()))
            } else if let Some(least) = object.get("least") {
                let most = object.get("most").map_or(f64::INFINITY, |most| most.as_f64().unwrap());
                have.as_f64().is_some_and(|number| number >= least.as_f64().unwrap() && number <= most)
            } else {
                for (name, one) in object {
                    differences(one, &have[name], &format!("{path}.{name}"), wrong);
                }
                have.is_object()
            };
            if !fits {
                wrong.push(format!("{path}: {have}, not {want}"));
            }
        }
        _ if want == have => {}
        _ => wrong.push(format!("{path}: {have}, not {want}")),
    }
}
