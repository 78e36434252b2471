"""What gputab takes from the machine it runs on: programs, ports, child processes, its Python environment."""
