"""Who holds which card, when: the HTTP service, placement, and the records of others."""
