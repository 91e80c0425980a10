"""The app that `leasemq worker` is given: the tasks on the test's file, with a fault in front if told so."""

from __future__ import annotations

import logging
import os
from typing import cast

from leasemq.backend import Backend
from leasemq.client.schemes import open_backend
from tests.end_to_end.apps.hooks import VARIABLE, Hook, Hooked
from tests.end_to_end.apps.work import app_on, scribe


def _place() -> str | Backend:
    url = os.environ["LEASEMQ_URL"]
    if VARIABLE not in os.environ:
        return url
    return cast("Backend", Hooked(open_backend(url), Hook.from_text(os.environ[VARIABLE]), scribe()))


logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
app = app_on(_place())
