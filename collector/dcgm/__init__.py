"""Cards by way of NVIDIA's dcgm-exporter."""
