"""Takes in what Meta delivers, and answers it. `ingest` is the line between the two: what Meta was told 200 for is stored."""

import json
import logging
import os
import signal
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import pannier

from graph import Graph
from replies import answer
from webhook import challenge, is_signed, texts_in

logging.basicConfig(level=logging.INFO)
ACCESS_TOKEN, APP_SECRET, VERIFY_TOKEN = (os.environ.get(name, "") for name in ("ACCESS_TOKEN", "APP_SECRET", "VERIFY_TOKEN"))
if not (ACCESS_TOKEN and APP_SECRET and VERIFY_TOKEN):
    raise SystemExit("ACCESS_TOKEN, APP_SECRET and VERIFY_TOKEN must be set: see README.md")
GRAPH_URL = os.environ.get("GRAPH_URL", "https://graph.facebook.com/v24.0")
HOST, PORT = os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "8080"))
BODY_MAX = 4 * 1024 * 1024  # Meta sends up to 3 MB

client = pannier.connect()  # waits 30 s for the sidecar, then says what to do
client.caps.set_policy("pair", "meta_pair")
worker = client.worker("incoming", answer(client, Graph(GRAPH_URL, ACCESS_TOKEN)), concurrency=20, lease=timedelta(seconds=10))


class Webhook(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30  # a connection that says nothing

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path != "/webhook":
            return self.reply(404)
        text = challenge(dict(parse_qsl(url.query, keep_blank_values=True)), VERIFY_TOKEN)
        return self.reply(403) if text is None else self.reply(200, text)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if urlsplit(self.path).path != "/webhook" or not length.isdigit() or int(length) > BODY_MAX:
            self.close_connection = True  # its body stays unread
            return self.reply(404 if urlsplit(self.path).path != "/webhook" else 413 if length.isdigit() else 411)
        body = self.rfile.read(int(length))
        if not is_signed(body, self.headers.get("X-Hub-Signature-256", ""), APP_SECRET):
            return self.reply(401)
        try:
            take_in(body)
        except pannier.PannierError:
            logging.exception("not taken in")
            return self.reply(503)  # Meta delivers again, for up to 7 days
        return self.reply(200)

    def reply(self, status: int, text: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Not the requests: the query of a challenge has the token in it."""


def take_in(body: bytes) -> None:
    messages = texts_in(json.loads(body))
    items = [
        pannier.IngestItem(
            dedup_key=f"message:{message['id']}",
            group=message["sender"],  # a chat's messages never overtake each other
            payload=message,
            retry=pannier.RetryPolicy(max_attempts=12, base=timedelta(seconds=1)),  # 1 + 2 + 4 … s: half an hour
        )
        for message in messages
    ]
    # Seen before or not, and the job, in one write. Nothing is lost or answered twice if this process dies between two of these.
    for n in range(0, len(items), 100):
        client.schedule.ingest("incoming", items[n : n + 100])


server = ThreadingHTTPServer((HOST, PORT), Webhook)
for number in (signal.SIGINT, signal.SIGTERM):
    # `shutdown` waits for the loop, which this thread is in.
    signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
print(f"listening on http://{HOST}:{server.server_port}/webhook", flush=True)
server.serve_forever()
# First the door, then what runs. Not needed for safety: kill -9 loses nothing either.
server.server_close()
client.close(timeout=timedelta(seconds=10))  # its worker, too
print("stopped", flush=True)
