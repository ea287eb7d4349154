"""What Meta sends, and how to know that it was Meta."""

import hashlib
import hmac
from typing import Any, TypedDict


class Incoming(TypedDict):
    """A text message, as far as the bot needs it: this is what is stored, encrypted, until it is answered."""

    id: str
    sender: str
    text: str
    phone_number_id: str


def same(given: str, expected: str) -> bool:
    """Takes as long whatever differs: how long a check took must not tell how much of a guess was right."""
    return hmac.compare_digest(given.encode(errors="surrogateescape"), expected.encode())


def is_signed(body: bytes, header: str, app_secret: str) -> bool:
    """`X-Hub-Signature-256` is made of the bytes of the body, as they came: check before parsing."""
    return same(header, "sha256=" + hmac.new(app_secret.encode(), body, hashlib.sha256).hexdigest())


def challenge(query: dict[str, str], verify_token: str) -> str | None:
    """What to answer when Meta asks whether this is the right place; None: it is not Meta."""
    if query.get("hub.mode") != "subscribe" or not same(query.get("hub.verify_token", ""), verify_token):
        return None
    return query.get("hub.challenge", "")


def texts_in(notification: dict[str, Any]) -> list[Incoming]:
    """The text messages of a notification. Statuses (sent, delivered, read) come the same way; this bot does not look at them."""
    values = [change.get("value", {}) for entry in notification.get("entry", []) for change in entry.get("changes", [])]
    return [
        Incoming(id=m["id"], sender=m["from"], text=m["text"]["body"], phone_number_id=value["metadata"]["phone_number_id"])
        for value in values
        for m in value.get("messages", [])
        if m.get("type") == "text"
    ]
