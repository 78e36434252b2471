"""From the cards of one node to VictoriaMetrics, second by second: sources, the sampling loop, the queue on disk."""
