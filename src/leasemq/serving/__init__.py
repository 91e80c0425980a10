"""What an operator needs around a worker: probes, notices to systemd, and a supervisor of several processes."""
