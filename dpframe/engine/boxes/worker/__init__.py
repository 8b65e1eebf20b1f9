"""What runs inside a worker process: it calls black boxes, and says how that went."""
