//! The known answers of the storage design, on which three implementations agreed.

use super::{counting, hex, keyring, record_keys, root};
use crate::crypto::{
    Context, SharedKeyring, envelope, envelope_revision,
    kdf::Prk,
    root_key::{unwrap, wrap_with, wrapped_kek_id},
};

const RECORD: &str = "50010100000000010000000000000007606162636465666768696a6b6c6d6e6f707172737475767730\
    82722f1b620a775d5e278e24c092617e039d718713af53b5e9c1b94c3f78498e41efe38d1f05e59726c0402a140bf05b9f942805";
const WRAPPED: &str = "500181000000000100000001808182838485868788898a8b8c8d8e8f9091929394959697eba0cfda82a56e\
    d80679a9f74d6734493bc8105c578e7c8e6ff20d8adb659ebbcad41f862cc0192a91b766eb55f2169d1186a025218c7d661181bcc0d2\
    f3aa5dfccbeb29b5bdb2226960ab39b0ed7f81";

fn record_context() -> Context {
    Context::new("session", &[b"default", b"bot-1", b"session", b"15551234567.0"])
}

#[test]
fn owner_tag() {
    let tag = keyring().owner_tag("session", "default", "bot-1");
    assert_eq!(hex(tag.as_bytes()), "e1e5c7867fbb55498b9d784fcb4e8c09");
    assert_eq!(tag.to_string(), "4eXHhn-7VUmLnXhPy06MCQ");
    assert_eq!(tag.bucket(), 0x21);
    assert_eq!(tag.to_string().parse(), Ok(tag));
    assert!("4eXHhn-7VUmLnXhPy06MC".parse::<crate::crypto::OwnerTag>().is_err());
    assert!("4eXHhn-7VUmLnXhPy06MCQAA".parse::<crate::crypto::OwnerTag>().is_err());
    assert_eq!(keyring().owner_tag("blob", "default", "bot-1"), tag, "the session's lease guards the blob");
}

#[test]
fn record_name_and_field() {
    let keys = record_keys();
    assert_eq!(hex(&keys.name("session", "15551234567.0")), "4a8700f6ae7a0ab6fe2a89bccddf8449");
    let field = keys.field("session", "15551234567.0");
    assert_eq!(hex(field.as_bytes()), "034a8700f6ae7a0ab6fe2a89bccddf8449");
}

#[test]
fn record_key() {
    let k_record = Prk::new(root().as_bytes()).derive("pannier/v1/record");
    assert_eq!(hex(&*k_record), "e5ee03dcd90e4e23007943cc0c992f6de5ced8e3feea708b3dc106596fef7d03");
}

#[test]
fn record() {
    let keys = record_keys();
    let sealed = envelope::seal_with(&keys.record, (1, 7, 0), &counting(0x60), &record_context(), b"hello");
    assert_eq!(hex(&sealed), RECORD);
    let opened = keys.open(&record_context(), &sealed).ok().unwrap();
    assert_eq!((opened.epoch, opened.revision, &opened.plaintext[..]), (1, 7, &b"hello"[..]));
    assert_eq!(envelope_revision(&sealed), Some(7));
}

#[test]
fn wrapped_root_key() {
    let context = Context::new("session", &[b"default", b"bot-1"]);
    let wrapped = wrap_with(&keyring(), &root(), 1, &context, &counting(0x80));
    assert_eq!(hex(&wrapped), WRAPPED);
    assert_eq!(wrapped_kek_id(&wrapped), Some(1));
    let (back, epoch) = unwrap(&SharedKeyring::fixed(keyring()), &wrapped, &context).ok().unwrap();
    assert_eq!((back.as_bytes(), epoch), (root().as_bytes(), 1));
}
