"""The database: tables, engine, access, and one migration history."""
