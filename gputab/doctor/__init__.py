"""What a node can measure, what it cannot and why, and what is to be mended."""
