"""What a function says about a secret argument is stored and told without it."""

from __future__ import annotations

from typing import Annotated

import pytest

from leasemq.protocol.retry import Retry
from leasemq.protocol.shape import Secret
from tests.worker.conftest import Theatre
from tests.worker.stage import Stage

PASSWORD = "correct horse battery staple"  # noqa: S105  the secret of this test


@pytest.mark.promise("P-102")
def test_an_error_about_a_secret_is_stored_and_told_without_it(theatre: Theatre) -> None:
    async def play(stage: Stage) -> None:
        async def sign_in(user: str, password: Annotated[str, Secret]) -> None:
            raise ValueError(f"{user} cannot sign in with {password!r}")

        stage.task("sign_in", sign_in, retry=Retry(1, base=0))
        job = await stage.enqueue("sign_in", "ada", PASSWORD)
        process = stage.start()
        await stage.until_ended(job)
        record = await stage.job(job)
        errors = [attempt.error or b"" for attempt in record.history]
        assert len(errors) == 2
        assert all(b"ada cannot sign in with '***'" in error for error in errors)
        assert all(PASSWORD.encode() not in error for error in [*errors, record.error or b""])
        assert PASSWORD not in repr(process.told)

    theatre(play)
