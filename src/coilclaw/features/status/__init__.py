"""Status: the overview, usage, the doctor, providers, ESTOP, the gateway and metrics."""
