"""Whose a process on a card is, and what each owner uses of the card."""
