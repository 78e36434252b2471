"""The ledger in the database: windows and charges, who may write them, what is closed, and what corrects it."""
