"""The shipped suite, run exactly as a third party runs it."""

from leasemq.testing.conformance import *  # noqa: F403  the suite is a star import by design
