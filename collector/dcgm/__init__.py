"""Cards by way of NVIDIA's DCGM: dcgm-exporter, and the host engine."""
