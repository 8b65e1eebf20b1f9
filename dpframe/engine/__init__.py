"""From a validated audit to the estimates of its cells."""
