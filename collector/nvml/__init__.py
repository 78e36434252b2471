"""Real cards, by NVML: one door to the driver, and the life of what is behind it."""
