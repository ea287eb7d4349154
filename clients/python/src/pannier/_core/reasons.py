"""What each reason means to a program and to a person. Kept apart from the exceptions, which need it."""

RETRYABLE = frozenset(
    {
        "BUSY",
        "TOO_MANY_IN_FLIGHT",
        "VALKEY_UNREACHABLE",
        "STARTING",
        "DRAINING",
        "DEADLINE_EXCEEDED",
        "SIDECAR_UNREACHABLE",
        "VALKEY_OUT_OF_MEMORY",
        "VALKEY_REFUSES_WRITES",
        "STORE_CHANGED",
        "SESSION_HELD",
    }
)

# After these the same unary call may succeed within its own deadline.
CALL_AGAIN = frozenset(
    {
        "SIDECAR_UNREACHABLE",
        "VALKEY_UNREACHABLE",
        "STARTING",
        "DRAINING",
        "BUSY",
        "STORE_CHANGED",
        "VALKEY_REFUSES_WRITES",
    }
)
# After these what was sent over a stream is sent again.
STREAM_AGAIN = CALL_AGAIN | {"DEADLINE_EXCEEDED", "TOO_MANY_IN_FLIGHT"}
# After these a stream is opened again.
OPEN_AGAIN = STREAM_AGAIN | {"VALKEY_OUT_OF_MEMORY", "INTERNAL"}
# The request may have arrived, and nothing says whether it did.
NO_ANSWER = frozenset({"SIDECAR_UNREACHABLE", "DEADLINE_EXCEEDED"})

HINTS = {
    "FENCED": "Another owner took this, or it was deleted. Stop; open it again only if this process is to own it.",
    "POLICY_NOT_FOUND": "There is no cap policy of this name: caps.set_policy makes one, caps.list_policies names them.",
    "SESSION_HELD": "Another process holds this session. Stop it, wait for `until`, or open with on_held='take_over'.",
    "STALE_STATE": "The stored session is older than what was acknowledged: an old copy of the database was put back. "
    "Do not connect with it; restore the newest copy. If another process shredded it on purpose: restart this one.",
    "CORRUPT_RECORD": "A stored record cannot be opened. Do not start over: restore it from a backup, or restore an "
    "archive of the session.",
    "CORRUPT_BLOB": "This generation cannot be opened: look at blobs.generations() and roll back to one before it.",
    "GENERATION_GONE": "It was deleted, rolled back or replaced meanwhile: look at blobs.generations().",
    "SOURCE_CHANGED": "Save a copy that nobody writes to.",
    "KEY_MISMATCH": "The keyring of the sidecar does not open this: start the sidecar with the keyring that wrote it.",
    "NEWER_FORMAT": "Written by a newer Pannier: upgrade the sidecar.",
    "WRONG_STATE": "Look at what is there first.",
    "TOO_LARGE": "A value may have 16 MiB, a commit 32 MiB, a unary call 4 MiB.",
    "VALKEY_UNREACHABLE": "The sidecar cannot reach Valkey: its log says why.",
    "VALKEY_OUT_OF_MEMORY": "Valkey is full: raise its maxmemory. Nothing was lost; reads go on.",
    "VALKEY_REFUSES_WRITES": "Valkey takes no writes, as when its disk is full: its log and `INFO persistence` say why. "
    "Nothing was lost; reads go on.",
    "SIDECAR_UNREACHABLE": "Start a sidecar with `pannier serve`.",
    "STARTING": "The sidecar is not ready yet: its log says what it waits for.",
    "DRAINING": "The sidecar is stopping: start the next one.",
    "STORE_CHANGED": "The sidecar sees another database than before: check its --valkey-url.",
    "UNAUTHENTICATED": "Give the token: connect(token=…), connect(token_file=…) or PANNIER_TOKEN_FILE.",
    "PERMISSION_DENIED": "The token, or the uid of this process, may not do this.",
    "UNIMPLEMENTED": "The sidecar is older than this client: upgrade it.",
    "FORKED": "A client does not live on in a forked process: connect in the child, or start it with `spawn`.",
    "WRONG_LOOP": "A client belongs to the event loop that entered it: connect once in each loop.",
    "NOT_CONNECTED": "Enter it first: `async with pannier.aio.connect() as client:`.",
}
