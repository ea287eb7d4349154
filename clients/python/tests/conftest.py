"""A sidecar for all tests that leave it alone, and one of their own for those that do not."""

from collections.abc import AsyncIterator, Iterator

import pytest
from support import Sidecar

import pannier


@pytest.fixture(scope="session")
def shared() -> Iterator[Sidecar]:
    """A sidecar that nobody kills; each client has a namespace of its own."""
    sidecar = Sidecar()
    yield sidecar
    sidecar.stop()


@pytest.fixture
def sidecar() -> Iterator[Sidecar]:
    """A sidecar of the test's own."""
    sidecar = Sidecar()
    yield sidecar
    sidecar.stop()


@pytest.fixture
def client(shared: Sidecar) -> Iterator[pannier.Pannier]:
    """A client of a new namespace."""
    with shared.connect() as client:
        yield client


@pytest.fixture
async def aclient(shared: Sidecar) -> AsyncIterator[pannier.aio.Pannier]:
    """The same for asyncio."""
    async with shared.aconnect() as client:
        yield client


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What kills or stops a sidecar is slow: `-m "not slow"` leaves it out."""
    for item in items:
        if "sidecar" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
