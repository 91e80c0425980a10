"""`python -m leasemq`."""

import sys

from leasemq.cli import main

sys.exit(main())
