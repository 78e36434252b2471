"""The simulated fleet, which stands in for cards and knows what was true."""
