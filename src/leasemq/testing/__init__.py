"""Tools to test with LeaseMQ: virtual time, the promise table, and the suite that every backend runs."""
