"""`leasemq demo`: real work on a durable queue while its workers are killed and frozen, judged at the end.

Read `course.py` for what happens, `judge.py` for how it is judged.
"""

from leasemq.demo.performance import run_demo

__all__ = ["run_demo"]
