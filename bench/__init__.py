"""Measures LeaseMQ beside its peers: same jobs, same servers, interleaved rounds, medians and ratios."""
