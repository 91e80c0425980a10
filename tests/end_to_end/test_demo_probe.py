"""How the demo asks whether a frozen process holds the file's lock."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from leasemq.demo.ledger import Ledger
from leasemq.demo.work import QUEUE, Checksums


def test_asking_whether_the_file_can_be_written_changes_nothing_in_the_queue(tmp_path: Path) -> None:
    file = tmp_path / "jobs.db"
    checksums = Checksums(f"sqlite:///{file}?sync=normal", Ledger(tmp_path, "asker"))
    try:
        queue = checksums.app.queue(QUEUE)
        checksums.app.call_sync(queue.pause)
        before = checksums.app.call_sync(queue.counts)
        assert checksums.is_writable()
        assert checksums.app.call_sync(queue.counts) == before
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("begin immediate")
            assert not checksums.is_writable()
            other.execute("rollback")
        assert checksums.is_writable()
    finally:
        checksums.close()
