"""The front door: command line, demo."""
