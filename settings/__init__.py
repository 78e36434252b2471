"""One typed settings object, read once by each process's entry point."""
