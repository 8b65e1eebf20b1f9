"""What runs on a device, here or on a cluster's: to draw, to learn, to score, to count."""
