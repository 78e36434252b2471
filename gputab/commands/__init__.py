"""One file per group of commands, in the order of the pipeline."""
