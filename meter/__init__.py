"""Evidence x grants x prices -> charges."""
