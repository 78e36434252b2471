"""Logs of other tools: text that a driver or an exporter wrote, as readings."""
