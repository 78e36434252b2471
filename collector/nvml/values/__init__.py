"""What a card or MIG instance says in a second, a file for each kind of thing."""
