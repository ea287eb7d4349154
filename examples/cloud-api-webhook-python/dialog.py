"""What the bot says: no network, no store, so it can be read and tested by itself."""

from collections.abc import Mapping
from typing import Any


def following(step: str, fields: Mapping[str, Any], text: str) -> tuple[str, dict[str, Any], str]:
    """The chat's next step, what to remember, and the reply."""
    said = text.strip().lower()
    match step:
        case "awaiting_amount":
            try:
                amount = float(said)
            except ValueError:
                amount = 0.0
            if not 0 < amount < float("inf"):
                return step, {}, "A number, please."
            return "confirm", {"amount": amount}, f"Pay {amount:g}? yes or no"
        case "confirm":
            if said in ("yes", "no"):
                return "idle", {}, f"Paid {fields['amount']:g}." if said == "yes" else "Nothing was paid."
            return step, {}, "yes or no?"
        case _:
            if said == "pay":
                return "awaiting_amount", {}, "How much?"
            return "idle", {}, f"You said: {text}"
