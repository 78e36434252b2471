"""When and how on-call is told: rules, routes, and what becomes of a page."""
