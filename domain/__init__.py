"""The shared words: units, money, time, samples, grants, series, prices. Standard library only."""
