"""Real cards, by NVML: one door to the driver, and a file for each kind of thing it tells."""
