"""Tokens and TLS, against a gRPC server of the test's own: what the sidecar serves over TCP is its own matter."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

import pannier
from pannier._core.settings import SERVING

SOON = timedelta(milliseconds=500)


class Door(grpc.GenericRpcHandler):
    """Says that it serves to whoever has the token, and keeps what calls carried."""

    def __init__(self) -> None:
        self.seen: list[dict[str, str | bytes]] = []

    def service(self, call: Any) -> Any:
        """Any method."""
        metadata = dict(call.invocation_metadata)
        self.seen.append(metadata)

        def answer(_: bytes, context: Any) -> bytes:
            if metadata.get("authorization") != "Bearer s3cret":
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")
            return SERVING

        return grpc.unary_unary_rpc_method_handler(answer)


class Place:
    """A server, with and without TLS."""

    def __init__(self) -> None:
        self.door = Door()
        self.ca = trustme.CA()
        issued = self.ca.issue_cert("localhost")
        self.client = self.ca.issue_cert("bot@localhost")
        self.server = grpc.server(ThreadPoolExecutor(4), handlers=[self.door])
        key, chain = issued.private_key_pem.bytes(), b"".join(one.bytes() for one in issued.cert_chain_pems)
        root = self.ca.cert_pem.bytes()
        credentials = grpc.ssl_server_credentials([(key, chain)])
        mutual = grpc.ssl_server_credentials([(key, chain)], root_certificates=root, require_client_auth=True)
        self.plain = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.tls = f"localhost:{self.server.add_secure_port('127.0.0.1:0', credentials)}"
        self.mutual = f"127.0.0.1:{self.server.add_secure_port('127.0.0.1:0', mutual)}"
        self.server.start()


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """For all tests."""
    place = Place()
    yield place
    place.server.stop(None)


def test_a_token_goes_with_every_call(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    for options in ({"token": "s3cret"}, {"token_file": tmp_path / "token"}):
        with pannier.connect(place.plain, **options) as client:
            # The door answers everything alike: 8 and 1, which means a claim that is new.
            assert client.dedup.claim_once("k")
    monkeypatch.setenv("PANNIER_TOKEN_FILE", str(tmp_path / "token"))
    with pannier.connect(place.plain):
        pass
    assert {seen.get("authorization") for seen in place.door.seen} == {"Bearer s3cret"}


def test_a_wrong_token_is_said_at_once(place: Place) -> None:
    with pytest.raises(pannier.AccessError) as raised:
        pannier.connect(place.plain, token="wrong")
    assert (raised.value.code, raised.value.reason) == ("UNAUTHENTICATED", "UNAUTHENTICATED")
    assert raised.value.hint and "PANNIER_TOKEN_FILE" in raised.value.hint
    with pytest.raises(ValueError, match="printable"):
        pannier.connect(place.plain, token="line\nbreak")


async def test_tls_with_its_own_authority(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(place.ca.cert_pem.bytes())
    async with pannier.aio.connect(place.tls, token="s3cret", tls=pannier.Tls(ca=path)) as client:
        assert await client.dedup.claim_once("k")
    with pytest.raises(pannier.UnavailableError):
        pannier.connect(place.tls, token="s3cret", tls=True, ready_timeout=SOON)
    with pytest.raises(pannier.UnavailableError):
        pannier.connect(place.tls, token="s3cret", ready_timeout=SOON)


def test_a_client_certificate_and_another_name(place: Place) -> None:
    root, mine = place.ca.cert_pem.bytes(), place.client
    chain = b"".join(one.bytes() for one in mine.cert_chain_pems)
    tls = pannier.Tls(ca=root, cert=chain, key=mine.private_key_pem.bytes(), server_name="localhost")
    with pannier.connect(place.mutual, token="s3cret", tls=tls) as client:
        assert client.dedup.claim_once("k")
    with pytest.raises(pannier.UnavailableError):
        pannier.connect(place.mutual, token="s3cret", tls=pannier.Tls(ca=root, server_name="localhost"), ready_timeout=SOON)
    with pytest.raises(ValueError, match="both"):
        pannier.Tls(cert=chain)
