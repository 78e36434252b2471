"""Pictures of the fleet: Grafana dashboards from Python, as committed JSON."""
