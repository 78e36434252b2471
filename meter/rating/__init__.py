"""Evidence x grants x prices -> charges: pure functions."""
