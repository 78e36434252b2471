"""The service's routes, one file per thing they are about."""
