"""Everything gputab knows about VictoriaMetrics: push, read back, and a private server."""
