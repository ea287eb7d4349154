"""From a message to its reply. A job runs again when its process dies or something fails, so each part can be repeated."""

from collections.abc import Callable
from datetime import timedelta

import pannier

from dialog import following
from graph import Graph
from webhook import Incoming


def answer(client: pannier.Pannier, graph: Graph) -> Callable[[pannier.Job[Incoming]], dict[str, str]]:
    def handle(job: pannier.Job[Incoming]) -> dict[str, str]:
        message = job.payload
        reply = talk(client, message)

        # Meta takes one message per 6 s to the same user, 45 at once on credit. A `send_id` counts once, however often it is tried.
        match client.caps.consume("pair", sender=message["phone_number_id"], recipient=message["sender"], send_id=job.id):
            case pannier.Denied(retry_after=wait):
                # Not now: later, without using up an attempt. The chat's other messages wait behind this one.
                raise pannier.ReleaseJob(wait)
            case leave if not leave.allowed:
                raise pannier.FailJob(f"the cap says {leave.outcome}")

        job.check()  # raises when it was cancelled, or another worker has it
        # A process that dies right here, between Meta's answer and its note, sends it again: the Graph API knows no idempotency key.
        return {"sent": graph.send(message["phone_number_id"], message["sender"], reply)}

    return handle


def talk(client: pannier.Pannier, message: Incoming) -> str:
    """Moves the chat on by one message, and remembers the reply: when it has to be sent again, it is the same."""
    chat = client.conversations.get(message["sender"])
    if chat.fields.get("last_message") == message["id"]:
        return str(chat.fields["last_reply"])
    step, fields, reply = following(chat.step, chat.fields, message["text"])
    advanced = client.conversations.advance(
        message["sender"],
        step,
        {**fields, "last_message": message["id"], "last_reply": reply},
        expected_version=chat.version,
        ttl=timedelta(minutes=30),
    )
    if advanced.outcome != "advanced":
        raise RuntimeError(f"the chat was changed meanwhile: {advanced.outcome}")  # tried again
    return reply
