//! Looks into the messages of a request for their namespaces, before anybody else reads them. Only for callers to whom some are
//! closed; all others' requests pass untouched.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tonic::Status;

use super::{
    grant::Grant,
    rules::{Place, Rule},
};
use crate::{
    error::{Error, Reason, Result},
    rpc::MESSAGE_MAX,
};

/// Before each message: a flag for compression, and its length.
const HEAD: usize = 5;

/// Why the request was refused, if it was; the response says so, whatever the handler made of it.
pub type Denial = Arc<OnceLock<Error>>;

/// A request's body that hands on only what may be asked for.
pub struct Checked<B> {
    body: Pin<Box<B>>,
    rule: &'static Rule,
    grant: Grant,
    denial: Denial,
    held: BytesMut,
    first: bool,
    over: bool,
}

impl<B> Checked<B> {
    /// For one call.
    pub fn new(body: B, rule: &'static Rule, grant: Grant, denial: Denial) -> Self {
        Self { body: Box::pin(body), rule, grant, denial, held: BytesMut::new(), first: true, over: false }
    }

    /// The next whole message that was held back.
    fn next(&mut self) -> Result<Option<Bytes>> {
        if self.held.len() < HEAD {
            return Ok(None);
        }
        let length = u32::from_be_bytes([self.held[1], self.held[2], self.held[3], self.held[4]]) as usize;
        if self.held[0] != 0 || length > MESSAGE_MAX {
            // Compressed, or too large: whoever reads this head refuses it, and sees nothing more.
            self.over = true;
            self.held.truncate(HEAD);
            return Ok(Some(std::mem::take(&mut self.held).freeze()));
        }
        if self.held.len() < HEAD + length {
            self.held.reserve(HEAD + length - self.held.len());
            return Ok(None);
        }
        let message = self.held.split_to(HEAD + length).freeze();
        self.check(&message[HEAD..])?;
        Ok(Some(message))
    }

    fn check(&mut self, message: &[u8]) -> Result<()> {
        let mut named = false;
        walk(message, &self.rule.namespace, &mut |namespace| {
            named = true;
            self.grant.may_enter(namespace)
        })?;
        // A call that names none means the default one.
        if std::mem::take(&mut self.first) && !named {
            self.grant.may_enter("")?;
        }
        Ok(())
    }
}

impl<B> HttpBody for Checked<B>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<tonic::codegen::StdError>,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Status>>> {
        loop {
            if self.over {
                return Poll::Ready(None);
            }
            match self.next() {
                Ok(Some(message)) => return Poll::Ready(Some(Ok(Frame::data(message)))),
                Ok(None) => {}
                Err(error) => {
                    self.over = true;
                    let status = error.to_status();
                    let _ = self.denial.set(error);
                    return Poll::Ready(Some(Err(status)));
                }
            }
            match ready!(self.body.as_mut().poll_frame(cx)) {
                None => self.over = true,
                Some(Err(error)) => return Poll::Ready(Some(Err(Status::from_error(error.into())))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.held.extend_from_slice(&data),
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
            }
        }
    }
}

/// Calls `each` for every namespace that a message names; a field that is there twice counts twice.
fn walk(mut message: &[u8], place: &Place, each: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
    let mut named = false;
    while !message.is_empty() {
        let (field, kind) = decode_key(&mut message).map_err(unreadable)?;
        let inside = place.inside.iter().find(|(number, _)| *number == field);
        if place.here != Some(field) && inside.is_none() {
            skip_field(kind, field, &mut message, DecodeContext::default()).map_err(unreadable)?;
            continue;
        }
        let length = decode_varint(&mut message).map_err(unreadable)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= message.len());
        let (WireType::LengthDelimited, Some(length)) = (kind, length) else { return Err(unreadable(())) };
        let value = &message[..length];
        message.advance(length);
        if let Some((_, place)) = inside {
            walk(value, place, each)?;
        } else {
            named = true;
            each(std::str::from_utf8(value).map_err(unreadable)?)?;
        }
    }
    if place.here.is_some() && !named { each("") } else { Ok(()) }
}

fn unreadable<E>(_: E) -> Error {
    Error::new(
        Reason::Protocol,
        "a message could not be decoded: it is not of this API, or a string in it is not UTF-8",
    )
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::{access::rule, proto::v1};

    fn named(path: &str, message: &[u8]) -> std::result::Result<Vec<String>, String> {
        let mut all = Vec::new();
        walk(message, &rule(path).unwrap().namespace, &mut |namespace| {
            all.push(namespace.to_owned());
            Ok(())
        })
        .map_err(|error| error.to_string())?;
        Ok(all)
    }

    #[test]
    fn namespaces_are_found_wherever_a_request_names_one() {
        let get = v1::GetSessionRequest { namespace: "bot-1".into(), session: "s".into() };
        let path = "/pannier.v1.SessionService/GetSession";
        assert_eq!(named(path, &get.encode_to_vec()).unwrap(), ["bot-1"]);
        let none = v1::GetSessionRequest { namespace: String::new(), session: "s".into() };
        assert_eq!(named(path, &none.encode_to_vec()).unwrap(), [""], "the default one is meant");
        // Of a field that is there twice the last counts: neither may be a forbidden one.
        let twice = [get.encode_to_vec(), b"\x0a\x05other".to_vec()].concat();
        assert_eq!(named(path, &twice).unwrap(), ["bot-1", "other"]);

        let open = v1::Open { namespace: "bot-2".into(), ..Default::default() };
        let open = v1::AttachRequest { op: Some(v1::attach_request::Op::Open(open)), ..Default::default() };
        let path = "/pannier.v1.SessionService/Attach";
        assert_eq!(named(path, &open.encode_to_vec()).unwrap(), ["bot-2"]);
        assert!(
            named(path, &v1::AttachRequest { seq: 7, ..Default::default() }.encode_to_vec())
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_not_passed_on() {
        let path = "/pannier.v1.SessionService/GetSession";
        for broken in [
            &b"\x0a"[..],
            b"\x0a\x05bot",
            b"\x08\x01",
            b"\x0a\x02\xff\xfe",
            b"\x0f",
            b"\x12\xff\xff\xff\xff\x0f",
        ] {
            assert!(named(path, broken).unwrap_err().contains("could not be decoded"), "{broken:?}");
        }
    }
}
