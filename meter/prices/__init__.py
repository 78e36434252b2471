"""Price books: as a person writes them, and in the database."""
