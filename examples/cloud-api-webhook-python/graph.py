"""The one call of the Graph API that a bot cannot do without."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field

import pannier

#: Errors that pass: too many calls, too many messages, too many to this user. Meta answers some of them with 400.
PASSING = {4, 80007, 130429, 131056}


@dataclass(frozen=True)
class Graph:
    url: str
    access_token: str = field(repr=False)

    def send(self, phone_number_id: str, to: str, body: str) -> str:
        """Sends a text; gives the id of the message. Raises FailJob when trying again is of no use."""
        message = {"messaging_product": "whatsapp", "recipient_type": "individual", "to": to, "type": "text", "text": {"body": body}}
        request = urllib.request.Request(
            f"{self.url}/{phone_number_id}/messages",
            json.dumps(message).encode(),
            {"Authorization": f"Bearer {self.access_token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=8) as response:
                sent: str = json.load(response)["messages"][0]["id"]
                return sent
        except urllib.error.HTTPError as error:
            told = error.read().decode(errors="replace")
            if error.code == 400 and code_in(told) not in PASSING:
                raise pannier.FailJob(f"Graph API: 400 {told}") from error
            raise RuntimeError(f"Graph API: {error.code} {told}") from error


def code_in(answer: str) -> int:
    try:
        return int(json.loads(answer)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return 0
