"""Connections are encrypted by one word in the URL, and then the server must be who it says."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from leasemq.backends.redis import RedisBackend
from leasemq.backends.redis.settings import located
from leasemq.errors import BackendUnavailable
from leasemq.testing.conformance import builders
from tests.servers import RedisServer
from tests.servers.server import free_port

CERTIFICATE = (
    "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
    "-addext subjectAltName=DNS:localhost,IP:127.0.0.1"
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that nobody knows yet, and its key."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "openssl is not installed; scripts/servers installs it"
    folder = tmp_path_factory.mktemp("tls")
    files = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [openssl, *CERTIFICATE.split(), "-out", str(files[0]), "-keyout", str(files[1])],
        check=True,
        capture_output=True,
    )
    return files


@pytest.fixture
def tls_port(tmp_path: Path, certificate: tuple[Path, Path]) -> Iterator[int]:
    """Where a server speaks TLS."""
    port = free_port()
    options = {
        "tls-port": str(port),
        "tls-cert-file": str(certificate[0]),
        "tls-key-file": str(certificate[1]),
        "tls-auth-clients": "no",
    }
    with RedisServer(tmp_path / "tls", options=options):
        yield port


@pytest.mark.promise("P-95")
@pytest.mark.parametrize("parameters", ["ca_file={}", "tls_verify=off"])
async def test_a_known_certificate_is_taken_by_every_connection(
    tls_port: int, certificate: tuple[Path, Path], parameters: str
) -> None:
    backend = RedisBackend(located(f"rediss://127.0.0.1:{tls_port}?{parameters.format(certificate[0])}"))
    await backend.prepare()
    async with backend.listen(["q"]) as listener:
        await backend.enqueue("q", [builders.new_job("a")])
        wake = await listener.wait(5_000)
    claimed = await backend.claim("q", 1, 60_000, builders.claimant("A"))
    renewer = backend.renewer()
    held = [(lease.ref.id, lease.fence) for lease in claimed.leases]
    answers = await asyncio.to_thread(renewer.renew, "q", held, 60_000)
    renewer.close()
    await backend.close()

    assert wake.queues == {"q"}
    assert list(answers) == ["held"]


@pytest.mark.promise("P-95", "P-98")
@pytest.mark.parametrize("scheme", ["rediss", "redis"])
async def test_an_unknown_certificate_or_no_tls_at_all_reaches_nobody(tls_port: int, scheme: str) -> None:
    backend = RedisBackend(located(f"{scheme}://127.0.0.1:{tls_port}?connect_timeout_ms=500"))

    with pytest.raises(BackendUnavailable, match="cannot be reached"):
        await backend.prepare()
    await backend.close()
