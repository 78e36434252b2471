"""The demo: the whole pipe on this machine, with workloads whose truth is known."""
