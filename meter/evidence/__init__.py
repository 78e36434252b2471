"""What was observed, read from the sample store and frozen as runs."""
