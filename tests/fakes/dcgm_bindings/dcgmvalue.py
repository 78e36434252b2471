"""In the place of DCGM's `dcgmvalue`: nothing of it is used."""
