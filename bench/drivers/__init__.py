"""One program per peer, each run by the Python of that peer's own virtual environment."""
