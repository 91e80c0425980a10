"""What an operator needs around a worker: probes, notices to systemd, a supervisor of several processes."""
