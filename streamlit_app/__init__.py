"""The cost explorer: what was spent, by whom and on which day."""
